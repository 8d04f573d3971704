"""The supervisor's decisions, event by event, with a clock that stands still between them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bifrost.realm.supervision import CLEAN, Effects, Policy, State, Supervision

POLICY = Policy(first_pause_ms=100, pause_ms_max=1_000, steady_ms=5_000, quick_deaths_max=4, stop_ms=2_000)
NODES = [("odin-100", False), ("odin-101", False), ("heimdall-0", True), ("heimdall-1", True)]
NAMES = [name for name, _ in NODES]
KILLED = "was killed by SIGKILL"


def running(policy: Policy = POLICY) -> Supervision:
    core = Supervision(NODES, policy)
    assert core.on_begin(0).start == NAMES
    for name in NAMES:
        core.on_ready(name, "here:1", 10)
    assert core.were_all_ready
    return core


def test_everybody_is_started_at_once_and_told_of_when_ready() -> None:
    core = Supervision(NODES, POLICY)
    assert core.on_begin(0) == Effects(start=NAMES)
    assert core.deadline_ms() is None
    for name in NAMES[:-1]:
        assert core.on_ready(name, "here:1", 5).tell == [(name, "is ready at here:1")]
        assert not core.were_all_ready
    core.on_ready(NAMES[-1], "here:1", 6)
    assert core.were_all_ready


THREE = [*NODES, ("odin-102", False)]


def starting_again() -> Supervision:
    core = Supervision(THREE, POLICY, was_ready_before=True)
    core.on_begin(0)
    return core


@pytest.mark.parametrize("name", ["heimdall-1", "odin-102"])
def test_a_cluster_that_was_ready_before_starts_without_a_node_that_cannot(name: str) -> None:
    core = starting_again()
    (told,) = core.on_exit(name, "ended with exit code 1", 5).tell
    text = "ended with exit code 1 before all were ready, and the others start without it; it starts again in 0.1 s"
    assert told == (name, text)
    for other in [each for each, _ in THREE if each != name]:
        assert not core.were_all_ready
        core.on_ready(other, "here:1", 10)
    assert core.were_all_ready
    assert (core.failed, core.is_stopping, core.nodes[name].state) == (None, False, State.WAITING)


def test_the_last_one_that_is_waited_for_may_be_the_one_that_cannot_start() -> None:
    core = starting_again()
    for name, _ in THREE:
        if name != "heimdall-1":
            core.on_ready(name, "here:1", 10)
    core.on_exit("heimdall-1", KILLED, 20)
    assert core.were_all_ready


@pytest.mark.parametrize("names", [["heimdall-0", "heimdall-1"], ["odin-100", "odin-102"]])
def test_without_all_brokers_or_a_majority_of_odins_the_start_has_failed_all_the_same(names: list[str]) -> None:
    core = starting_again()
    core.on_exit(names[0], KILLED, 5)
    assert core.failed is None
    core.on_exit(names[1], KILLED, 6)
    assert core.failed == names[1]
    assert core.is_stopping


def test_a_node_that_dies_is_started_again_after_a_pause() -> None:
    core = running()
    effects = core.on_exit("heimdall-0", KILLED, 60_000)
    assert effects == Effects(tell=[("heimdall-0", "was killed by SIGKILL; it starts again in 0.1 s")])
    assert core.nodes["heimdall-0"].state is State.WAITING
    assert core.deadline_ms() == 60_100
    assert core.on_tick(60_099) == Effects()
    assert core.on_tick(60_100) == Effects(start=["heimdall-0"])
    assert core.deadline_ms() is None
    assert core.on_ready("heimdall-0", "here:1", 60_200).tell == [("heimdall-0", "is back at here:1")]
    assert core.nodes["heimdall-0"].restarts == 1


def test_pauses_double_up_to_a_limit_and_then_the_node_is_given_up_and_others_go_on() -> None:
    core = running(Policy(first_pause_ms=100, pause_ms_max=300, steady_ms=5_000, quick_deaths_max=5))
    now, pauses = 1_000, []
    for _ in range(4):
        core.on_exit("odin-100", KILLED, now)
        deadline = core.deadline_ms()
        assert deadline is not None
        pauses.append(deadline - now)
        now = deadline
        core.on_tick(now)
    assert pauses == [100, 200, 300, 300]
    (told,) = core.on_exit("odin-100", "ended with exit code 1", now).tell
    assert told == ("odin-100", "ended with exit code 1; it ended 5 times soon after its start and is given up")
    assert core.nodes["odin-100"].state is State.GIVEN_UP
    assert core.deadline_ms() is None
    assert not core.is_over
    core.on_exit("heimdall-1", KILLED, now)
    assert core.deadline_ms() == now + 100, "each node has a count of its own"


def test_who_served_for_a_while_starts_from_the_first_pause() -> None:
    core = running()
    now = 1_000
    for _ in range(3):
        core.on_exit("heimdall-0", KILLED, now)
        now = core.deadline_ms() or 0
        core.on_tick(now)
        core.on_ready("heimdall-0", "here:1", now)
    now += POLICY.steady_ms
    core.on_exit("heimdall-0", KILLED, now)
    assert core.deadline_ms() == now + POLICY.first_pause_ms


def test_being_slow_to_start_is_not_serving() -> None:
    core = running()
    core.on_exit("heimdall-0", KILLED, 1_000)
    core.on_tick(1_100)
    core.on_exit("heimdall-0", KILLED, 1_100 + 2 * POLICY.steady_ms)
    assert core.nodes["heimdall-0"].quick_deaths == 2


def test_without_restarts_the_dead_stay_dead_and_when_all_are_it_is_over() -> None:
    core = running(Policy(restarts=False))
    for name in NAMES:
        assert not core.is_over
        assert core.on_exit(name, KILLED, 1_000).tell == [(name, f"{KILLED}; it stays so (--no-restart)")]
        assert core.nodes[name].state is State.DEAD
    assert core.is_over
    assert not core.is_stopping


def test_a_node_that_ends_before_all_were_ready_fails_the_start_and_nobody_is_waited_for_in_order() -> None:
    core = Supervision(NODES, POLICY)
    core.on_begin(0)
    core.on_ready("odin-100", "here:1", 5)
    effects = core.on_exit("heimdall-0", "ended with exit code 1", 10)
    assert core.failed == "heimdall-0"
    assert effects.start == []
    assert effects.terminate == ["odin-100", "odin-101", "heimdall-1"]
    for name in effects.terminate:
        core.on_exit(name, CLEAN, 20)
    assert core.is_over


def test_brokers_stop_first_then_odins() -> None:
    core = running()
    assert core.on_stop(1_000) == Effects(terminate=["heimdall-0", "heimdall-1"])
    assert core.on_exit("heimdall-1", CLEAN, 1_100) == Effects(tell=[("heimdall-1", "stopped")])
    assert core.on_exit("heimdall-0", CLEAN, 1_200).terminate == ["odin-100", "odin-101"]
    core.on_exit("odin-101", CLEAN, 1_300)
    assert not core.is_over
    assert core.on_exit("odin-100", KILLED, 1_300).tell == [("odin-100", f"{KILLED} while it was stopping")]
    assert core.is_over
    assert core.deadline_ms() is None


def test_who_does_not_stop_in_time_is_killed_each_group_with_a_time_of_its_own() -> None:
    core = running()
    core.on_stop(1_000)
    core.on_exit("heimdall-0", CLEAN, 1_500)
    assert core.deadline_ms() == 3_000
    effects = core.on_tick(3_000)
    assert effects.kill == ["heimdall-1"]
    assert effects.tell == [("heimdall-1", "did not stop in 2 s and is killed")]
    core.on_exit("heimdall-1", KILLED, 3_010)
    assert core.deadline_ms() == 5_010


def test_a_node_that_waits_for_its_restart_is_not_started_by_a_stop() -> None:
    core = running()
    core.on_exit("heimdall-0", KILLED, 1_000)
    assert core.on_stop(1_001).terminate == ["heimdall-1"]
    assert core.nodes["heimdall-0"].state is State.STOPPED
    assert core.on_tick(10_000).start == []


def test_a_second_stop_kills() -> None:
    core = running()
    core.on_stop(1_000)
    assert core.on_stop(1_001).kill == NAMES
    for name in NAMES:
        effects = core.on_exit(name, KILLED, 1_002)
    assert core.is_over
    assert effects.start == []


def test_a_death_while_others_stop_starts_nobody() -> None:
    core = running()
    core.on_stop(1_000)
    assert core.on_exit("odin-100", KILLED, 1_001).start == []
    assert core.on_exit("heimdall-0", CLEAN, 1_002).terminate == []
    assert core.on_exit("heimdall-1", CLEAN, 1_003).terminate == ["odin-101"]


@given(st.lists(st.tuples(st.sampled_from(["exit", "tick", "stop"]), st.sampled_from(NAMES), st.integers(1, 4_000))))
@pytest.mark.parametrize("restarts", [True, False])
def test_whatever_happens_processes_are_started_only_when_there_is_none_and_a_stop_ends(
    restarts: bool, events: list[tuple[str, str, int]]
) -> None:
    core = running(Policy(restarts=restarts, first_pause_ms=100, quick_deaths_max=3))
    alive, now = set(NAMES), 10

    def do(effects: Effects) -> None:
        for name in effects.start:
            assert name not in alive
            alive.add(name)
        assert set(effects.kill) | set(effects.terminate) <= alive

    for event, name, elapsed in events:
        now += elapsed
        if event == "stop":
            do(core.on_stop(now))
        elif event == "tick":
            do(core.on_tick(now))
        elif name in alive:
            alive.remove(name)
            do(core.on_exit(name, KILLED, now))
        assert alive == {each.name for each in core.nodes.values() if each.state.has_process}
    do(core.on_stop(now))
    do(core.on_stop(now))
    while alive:
        do(core.on_exit(alive.pop(), KILLED, now))
    assert core.is_over


def test_a_node_that_joins_is_one_of_them_from_its_first_ready_line_on() -> None:
    core = running()
    assert core.on_join("heimdall-2", True, 100) == Effects(start=["heimdall-2"])
    assert core.on_ready("heimdall-2", "here:3", 200).tell == [("heimdall-2", "is ready at here:3")]
    core.on_exit("heimdall-2", KILLED, 300)
    assert core.nodes["heimdall-2"].state is State.WAITING
    assert core.on_tick(400).start == ["heimdall-2"]
    assert sorted(core.on_stop(500).terminate) == ["heimdall-0", "heimdall-1", "heimdall-2"]


def test_a_node_that_joins_and_cannot_start_is_gone_and_the_cluster_stays() -> None:
    core = running()
    core.on_join("heimdall-2", True, 100)
    effects = core.on_exit("heimdall-2", "ended with exit code 2", 200)
    text = "ended with exit code 2 before it was ready, and is not started again"
    assert effects == Effects(gone=["heimdall-2"], tell=[("heimdall-2", text)])
    assert list(core.nodes) == NAMES
    assert core.deadline_ms() is None
    assert not core.is_stopping


def test_a_node_that_retires_stops_and_is_not_started_again() -> None:
    core = running()
    assert core.on_retire("heimdall-1", 100) == Effects(terminate=["heimdall-1"])
    assert core.on_retire("heimdall-1", 150) == Effects()
    assert core.on_exit("heimdall-1", CLEAN, 200) == Effects(
        gone=["heimdall-1"], tell=[("heimdall-1", "stopped for good")]
    )
    assert core.deadline_ms() is None
    assert "heimdall-1" not in core.nodes


def test_a_node_that_does_not_retire_in_time_is_killed() -> None:
    core = running()
    core.on_retire("heimdall-1", 100)
    assert core.deadline_ms() == 2_100
    assert core.on_tick(2_100).kill == ["heimdall-1"]
    assert core.on_exit("heimdall-1", KILLED, 2_200).gone == ["heimdall-1"]


def test_a_dead_node_retires_at_once() -> None:
    core = running()
    core.on_exit("heimdall-1", KILLED, 100)
    assert core.on_retire("heimdall-1", 150) == Effects(gone=["heimdall-1"])
    assert core.deadline_ms() is None


def test_when_all_stop_a_node_that_was_retiring_does_too() -> None:
    core = running()
    core.on_retire("heimdall-1", 100)
    assert core.on_stop(150).terminate == ["heimdall-0"]
    core.on_exit("heimdall-1", CLEAN, 200)
    assert sorted(core.on_exit("heimdall-0", CLEAN, 250).terminate) == ["odin-100", "odin-101"]
    assert core.on_retire("odin-100", 260) == Effects()
