"""A process that ends before an operation of a move, with or without power: nothing acknowledged is lost, the log is
there once, and can be moved again."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from bifrost.errors import ErrorCode
from bifrost.log.config import FlushPolicy
from tests.sim.disk import FaultyDisk
from tests.unit.broker.moving_logs import A0, ONE, TOPIC_ID, TWO, MovingLogs
from tests.unit.log.batches import NOW, append

OPERATIONS_MAX = 5_000
TO_THE_END = 5
"""Runs that come to their end before the power is lost."""
ONE_RUN_S = 20.0


class EndedError(Exception):
    """The process is no more."""


class Fate:
    """Everything is refused from an operation on, for the process has ended before it."""

    def __init__(self, number: int) -> None:
        self._left = number
        self.has_ended = False

    def __call__(self, _operation: str, _path: str) -> bool:
        self._left -= 1
        if self._left < 0:
            self.has_ended = True
            raise EndedError
        return False


async def live(node: MovingLogs, disk: FaultyDisk, fate: Fate, acknowledged: list[int]) -> bool:
    """Write, move and write more; whether it came to its end. What is acknowledged is told as it happens."""
    log = node.create()
    append(log, *(b"value %d" % number for number in range(3)))
    node.write(3, 12)
    log.assign_epoch(2)
    while log.durable_offset < 12:  # noqa: ASYNC110  # disks have no events
        await asyncio.sleep(0)
    log.advance_log_start(1)
    acknowledged.append(12)
    disk.fail_on = fate
    try:
        node.moves.request(A0, TWO)
        count = 12
        while not node.tasks[0].done() and not fate.has_ended:
            if count < 60:
                append(node.log, b"value %d" % count, leader_epoch=count)
                count += 1
                log.assign_epoch(count)  # an epoch that no batch tells of so far
            acknowledged.append(node.log.durable_offset)
            await asyncio.sleep(0)
        while log.durable_offset < count and not fate.has_ended:
            await asyncio.sleep(0)
            acknowledged.append(log.durable_offset)
    except EndedError:
        pass
    return not fate.has_ended


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await task


async def play(number: int, policy: FlushPolicy) -> tuple[bool, str]:
    """Ends before an operation and starts again: whether it came to its end, and where the log is."""
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # of callbacks that die with the process
    disk, fate = FaultyDisk(Random(number)), Fate(number)
    acknowledged: list[int] = []
    node = await MovingLogs.start(disk, policy=policy)
    is_over = await live(node, disk, fate, acknowledged)
    # The other policy does not promise to survive that.
    power = policy is FlushPolicy.ACK and (is_over or number % 3 != 0)
    await asyncio.gather(*(_end(task) for task in node.tasks), return_exceptions=True)
    disk.fail_on = None
    disk.crash(power=power)
    again = await MovingLogs.start(disk, policy=policy)
    await again.until_still()
    place, values = again.log.directory, again.values
    context = f"ended before operation {number}, power lost: {power}"
    assert len(values) >= max(acknowledged) - again.log.log_start_offset, context
    assert values == [b"value %d" % (one + again.log.log_start_offset) for one in range(len(values))], context
    assert again.log.log_start_offset in (0, 1)
    assert again.log.topic_id == TOPIC_ID
    again.log.truncate_to(5, NOW)
    append(again.log, b"after", leader_epoch=99)
    other = ONE if place.startswith(TWO) else TWO
    assert again.moves.request(A0, other) is ErrorCode.NONE, context
    await again.until_still()
    assert again.log.directory == f"{other}/a-0", context
    assert again.values[-1] == b"after"
    return is_over, place


@pytest.mark.parametrize("policy", [FlushPolicy.ACK, FlushPolicy.OS])
@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.thorough)])
def test_an_end_before_operations(policy: FlushPolicy, every: int) -> None:
    places = set()
    to_the_end = number = 0
    while to_the_end < TO_THE_END:
        is_over, place = asyncio.run(asyncio.wait_for(play(number, policy), ONE_RUN_S))
        to_the_end += is_over
        places.add(place)
        number += every
        assert number < OPERATIONS_MAX
    assert number > 50
    assert "/two/a-0" in places
    # Without a loss of power only an end within the last few operations brings the log back.
    assert "/one/a-0" in places or (every > 1 and policy is FlushPolicy.OS)
