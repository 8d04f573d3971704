"""Who waits is woken by the event it waits for, in order, and exactly once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from bifrost.broker.waiters import Waiters
from bifrost.types import TopicPartition
from tests.unit.broker.stand_ins import on_loop

TP = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)


class Moved:
    """As much of a partition as waiters look at."""

    def __init__(self, tp: TopicPartition = TP, high_watermark: int = 0) -> None:
        self.tp = tp
        self.high_watermark = high_watermark


class Write:
    """A produce request that waits for offsets below `next_offset`."""

    def __init__(self, name: str, log: list[str], *, deadline: float = 1e9, then: Callable[[], None] | None = None):
        self.name = name
        self.log = log
        self.deadline = deadline
        self.then = then

    def on_progress(self, partition: Moved, slot: int, next_offset: int) -> bool:
        if partition.high_watermark < next_offset:
            return False
        self.log.append(f"{self.name}/{slot}")
        if self.then is not None:
            self.then()
        return True

    def on_deadline(self) -> None:
        self.log.append(f"{self.name} late")


class Read:
    def __init__(self, name: str, log: list[str], then: Callable[[], None] | None = None) -> None:
        self.name = name
        self.log = log
        self.then = then

    def on_progress(self, partition: Moved) -> None:
        self.log.append(self.name)
        if self.then is not None:
            self.then()


def make() -> tuple[Waiters, list[str]]:
    return Waiters(asyncio.get_running_loop()), []


@on_loop
async def test_writes_are_woken_in_order_as_far_as_the_watermark_reaches() -> None:
    waiters, log = make()
    for offset in (10, 20, 30):
        waiters.park_ack(TP, offset, Write(f"w{offset}", log), 0)
    waiters.wake(Moved(high_watermark=20))
    assert log == ["w10/0", "w20/0"]
    waiters.wake(Moved(high_watermark=29))
    assert log == ["w10/0", "w20/0"]
    waiters.wake(Moved(high_watermark=30))
    assert log == ["w10/0", "w20/0", "w30/0"]


@on_loop
async def test_a_repeated_batch_waits_for_its_own_offset_and_not_for_those_that_came_before_it() -> None:
    """An idempotent producer repeats 10 while 20 and 30 are under way: it is safe before they are."""
    waiters, log = make()
    for name, offset in (("first", 10), ("second", 20), ("third", 30), ("second again", 20), ("first again", 10)):
        waiters.park_ack(TP, offset, Write(name, log), 0)
    waiters.wake(Moved(high_watermark=10))
    assert log == ["first/0", "first again/0"]
    waiters.wake(Moved(high_watermark=29))
    assert log[2:] == ["second/0", "second again/0"]
    waiters.wake(Moved(high_watermark=30))
    assert log[4:] == ["third/0"]


@pytest.mark.parametrize("acks", [-1, 1])
@on_loop
async def test_a_partition_that_does_not_move_keeps_nobody_whose_time_was_over(acks: int) -> None:
    waiters, log = make()
    loop = asyncio.get_running_loop()
    told = asyncio.Event()
    for number in range(100):
        late = Write(f"late {number}", log, deadline=loop.time())
        waiters.park_ack(TP, number, late, 0, acks=acks)
    late.on_deadline = told.set  # type: ignore[method-assign]
    waiters.park_ack(TP, 50, Write("patient", log), 0, acks=acks)
    await told.wait()
    lines = waiters._acks if acks == -1 else waiters._local_acks
    assert [len(line) for line in lines.values()] == [1]
    waiters.wake(Moved(high_watermark=50))
    assert log[-1] == "patient/0"


@on_loop
async def test_a_write_to_several_partitions_is_told_which_slot_moved() -> None:
    waiters, log = make()
    write = Write("w", log)
    waiters.park_ack(TP, 1, write, 0)
    waiters.park_ack(OTHER, 5, write, 1)
    waiters.wake(Moved(OTHER, 5))
    waiters.wake(Moved(TP, 1))
    assert log == ["w/1", "w/0"]


@on_loop
async def test_other_partitions_stay_asleep() -> None:
    waiters, log = make()
    waiters.park_ack(OTHER, 1, Write("w", log), 0)
    waiters.park_fetch(OTHER, Read("r", log))
    waiters.wake(Moved(TP, 100))
    assert log == []


@on_loop
async def test_a_wake_up_inside_a_wake_up_loses_nobody() -> None:
    """The answer to one write starts the next request of its connection, which may move the same partition."""
    waiters, log = make()
    partition = Moved(high_watermark=1)

    def move_on() -> None:
        partition.high_watermark = 2
        waiters.wake(partition)

    waiters.park_ack(TP, 1, Write("first", log, then=move_on), 0)
    waiters.park_ack(TP, 2, Write("second", log), 0)
    waiters.park_ack(TP, 3, Write("third", log), 0)
    waiters.wake(partition)
    assert log == ["first/0", "second/0"]
    partition.high_watermark = 3
    waiters.wake(partition)
    assert log == ["first/0", "second/0", "third/0"]


@on_loop
async def test_ten_thousand_wake_ups_inside_each_other_do_not_exhaust_the_stack() -> None:
    waiters, log = make()
    partition = Moved()

    def move_on() -> None:
        partition.high_watermark += 1
        waiters.wake(partition)

    for offset in range(10_000):
        waiters.park_ack(TP, offset, Write("w", log, then=move_on), offset)
    waiters.wake(partition)
    assert len(log) == 10_000


@on_loop
async def test_a_waiter_that_fails_does_not_stop_later_wake_ups() -> None:
    waiters, log = make()

    def fail() -> None:
        raise AssertionError

    read = Read("broken", log, then=fail)
    waiters.park_fetch(TP, read)
    with pytest.raises(AssertionError):
        waiters.wake(Moved())
    waiters.unpark_fetch(TP, read)
    waiters.park_fetch(TP, Read("fine", log))
    waiters.wake(Moved())
    assert log == ["broken", "fine"]


@on_loop
async def test_a_fetch_that_left_during_the_wake_up_is_not_woken_again() -> None:
    waiters, log = make()
    second = Read("second", log)
    first = Read("first", log, then=lambda: waiters.unpark_fetch(TP, second))
    waiters.park_fetch(TP, first)
    waiters.park_fetch(TP, second)
    waiters.wake(Moved())
    assert log == ["first"]


@on_loop
async def test_every_fetch_that_waits_for_the_partition_is_woken() -> None:
    waiters, log = make()
    for name in ("a", "b", "c"):
        waiters.park_fetch(TP, Read(name, log))
    waiters.wake(Moved())
    assert log == ["a", "b", "c"]
    assert len(waiters) == 3, "they leave when they choose to"


@on_loop
async def test_what_only_this_disk_has_wakes_those_who_wait_for_it_alone_and_for_deletions() -> None:
    waiters, log = make()
    waiters.park_ack(TP, 1, Write("all", log), 0)
    waiters.park_ack(TP, 1, Write("local", log), 0, acks=1)
    waiters.park_fetch(TP, Read("reader", log))
    waiters.park_deletion(TP, deletion := Read("deletion", log))
    assert len(waiters) == 4
    waiters.nudge(Moved(high_watermark=1))
    assert log == ["local/0", "deletion"]
    waiters.wake(Moved(high_watermark=1))
    assert log[2:] == ["all/0", "reader", "deletion"]
    waiters.unpark_deletion(TP, deletion)
    assert not waiters._deletions


@on_loop
async def test_a_fetch_that_left_leaves_nothing_behind() -> None:
    waiters, log = make()
    fetch = Read("r", log)
    waiters.park_fetch(TP, fetch)
    waiters.unpark_fetch(TP, fetch)
    waiters.unpark_fetch(TP, fetch)
    waiters.wake(Moved())
    assert (log, len(waiters)) == ([], 0)


@on_loop
async def test_a_write_whose_time_is_over_is_told_so_and_nobody_else() -> None:
    waiters, log = make()
    now = asyncio.get_running_loop().time()
    told = asyncio.Event()
    late = Write("late", log, deadline=now + 0.01)
    late.on_deadline = lambda: (log.append("late"), told.set())  # type: ignore[method-assign, assignment]
    waiters.park_ack(TP, 1, late, 0)
    waiters.park_ack(TP, 2, Write("patient", log, deadline=now + 1000), 0)
    await told.wait()
    assert log == ["late"]
    assert len(waiters) == 1


@on_loop
async def test_a_settled_write_has_no_deadline_any_more() -> None:
    waiters, log = make()
    write = Write("w", log)
    waiters.park_ack(TP, 1, write, 0)
    waiters.settled(write)
    waiters.settled(write)
    assert len(waiters) == 0


@on_loop
async def test_the_timer_runs_only_while_somebody_waits() -> None:
    loop = asyncio.get_running_loop()
    waiters, log = make()
    write = Write("w", log, deadline=loop.time())
    told = asyncio.Event()
    write.on_deadline = told.set  # type: ignore[method-assign]
    waiters.park_ack(TP, 1, write, 0)
    await told.wait()
    assert waiters._sweep is None
    waiters.park_ack(TP, 2, Write("next", log), 0)
    assert waiters._sweep is not None


@on_loop
async def test_a_partition_that_is_gone_wakes_nobody() -> None:
    waiters, log = make()
    waiters.park_ack(TP, 1, Write("w", log), 0)
    waiters.park_fetch(TP, Read("r", log))
    waiters.forget(TP)
    waiters.forget(TP)
    waiters.wake(Moved(high_watermark=10))
    assert log == []
