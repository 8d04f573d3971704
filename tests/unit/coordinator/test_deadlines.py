"""Deadlines: what is due runs in order, what was moved or dropped does not run before its time."""

from bifrost.coordinator.core.deadlines import Deadlines


def test_runs_what_is_due_in_order_of_time() -> None:
    ran: list[str] = []
    deadlines = Deadlines()
    for name, at_ms in (("late", 30), ("early", 10), ("middle", 20)):
        deadlines.set(name, at_ms, lambda name=name: ran.append(name))
    deadlines.run(20)
    assert ran == ["early", "middle"]
    assert deadlines.next_ms() == 30
    assert len(deadlines) == 1


def test_a_deadline_that_was_moved_back_waits_for_its_new_time() -> None:
    ran: list[int] = []
    deadlines = Deadlines()
    deadlines.set("session", 10, lambda: ran.append(10))
    deadlines.set("session", 50, lambda: ran.append(50))
    deadlines.run(49)
    assert ran == []
    assert deadlines.next_ms() == 50
    deadlines.run(50)
    assert ran == [50]
    assert deadlines.next_ms() is None


def test_a_deadline_that_was_brought_forward_runs_once() -> None:
    ran: list[int] = []
    deadlines = Deadlines()
    deadlines.set("session", 50, lambda: ran.append(50))
    deadlines.set("session", 10, lambda: ran.append(10))
    deadlines.run(100)
    assert ran == [10]


def test_a_dropped_deadline_never_runs_even_when_its_name_is_used_again() -> None:
    ran: list[int] = []
    deadlines = Deadlines()
    deadlines.set("session", 10, lambda: ran.append(10))
    deadlines.drop("session")
    assert "session" not in deadlines
    assert deadlines.next_ms() is None
    deadlines.set("session", 20, lambda: ran.append(20))
    deadlines.run(15)
    assert ran == []
    deadlines.run(20)
    assert ran == [20]


def test_moving_a_deadline_back_leaves_the_heap_as_small_as_it_is() -> None:
    deadlines = Deadlines()
    for at_ms in range(1000):
        deadlines.set("session", at_ms, lambda: None)
    assert len(deadlines._heap) == 1


def test_what_an_action_sets_to_the_past_runs_too() -> None:
    ran: list[str] = []
    deadlines = Deadlines()
    deadlines.set("first", 10, lambda: deadlines.set("second", 5, lambda: ran.append("second")))
    deadlines.run(10)
    assert ran == ["second"]
