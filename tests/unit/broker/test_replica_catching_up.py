"""What a follower has missed gives way to what writers wait for."""

from __future__ import annotations

from bifrost.broker.replica_session import CatchUpLimits
from bifrost.replication.core.courtesy import PIECE_BYTES
from tests.unit.broker.led_partitions import Led
from tests.unit.broker.stand_ins import on_loop, turns

MISSED, IN_SYNC = 0, 1


def behind_and_in_sync(limits: CatchUpLimits, missed: int = 3, size: int = 10) -> Led:
    it = Led(2, limits, behind=(MISSED,))
    for _ in range(missed):
        it.append(MISSED, size)
    return it


@on_loop
async def test_while_somebody_writes_the_missed_rests_after_each_piece() -> None:
    it = behind_and_in_sync(CatchUpLimits(time_percent=lambda: 1), size=PIECE_BYTES)
    it.ask((MISSED, 0), (IN_SYNC, 0))
    it.append(IN_SYNC)
    it.loop.let_pass(0.002)
    after = it.ask((MISSED, 1))
    assert after.offsets(IN_SYNC) == [0]
    assert MISSED not in after.results
    waiting = it.ask((IN_SYNC, 1))
    assert waiting.answer is None
    it.append(IN_SYNC)
    await turns(2)
    assert waiting.offsets(IN_SYNC) == [1], "who is in sync is not made to wait"
    it.ask((IN_SYNC, 2))
    it.loop.let_pass(0.05)
    waiting = it.ask()
    assert waiting.answer is None
    it.append(IN_SYNC)
    await turns(2)
    waiting = it.ask((IN_SYNC, 3))
    it.loop.let_pass(0.06)
    assert waiting.offsets(MISSED) == [1], "one piece at a time"


@on_loop
async def test_while_nobody_writes_the_missed_goes_at_once_and_in_large_pieces() -> None:
    it = behind_and_in_sync(CatchUpLimits(time_percent=lambda: 1), missed=4, size=PIECE_BYTES)
    assert it.ask((MISSED, 0), (IN_SYNC, 0)).offsets(MISSED) == [0, 1, 2]
    assert it.ask((MISSED, 3)).offsets(MISSED) == [3]


@on_loop
async def test_whoever_does_not_come_nearer_rests_no_more() -> None:
    it = behind_and_in_sync(CatchUpLimits(time_percent=lambda: 1), missed=2, size=PIECE_BYTES)
    it.append(IN_SYNC)
    assert it.ask((MISSED, 0), (IN_SYNC, 0)).offsets(MISSED) == [0, 1]
    for _ in range(3):
        it.append(MISSED, PIECE_BYTES)
    it.loop.let_pass(0.002)
    assert it.ask((MISSED, 2)).offsets(MISSED) == [2, 3, 4], "it was two behind, and is three behind now"


@on_loop
async def test_a_rate_of_the_leader_holds_for_replicas_that_are_listed() -> None:
    for listed in (True, False):
        limits = CatchUpLimits(is_listed=lambda _partition, listed=listed: listed)  # type: ignore[misc]
        it = behind_and_in_sync(limits)
        limits.budget.set_rate(1_000, it.loop.time() * 1000)
        limits.budget.spend(500, it.loop.time() * 1000)
        asked = it.ask((MISSED, 0), (IN_SYNC, 0))
        assert (MISSED in asked.results) is not listed
        if listed:
            asked = it.ask()
            it.loop.let_pass(0.49)
            assert asked.answer is None
            it.loop.let_pass(0.01)
        assert asked.offsets(MISSED) == [0, 1, 2]


@on_loop
async def test_who_has_caught_up_is_waited_for_and_rests_no_more() -> None:
    it = behind_and_in_sync(CatchUpLimits(time_percent=lambda: 1))
    it.ask((MISSED, 0), (IN_SYNC, 0))
    it.append(IN_SYNC)
    it.loop.let_pass(0.002)
    waiting = it.ask((MISSED, 3))
    assert waiting.offsets(IN_SYNC) == [0]
    waiting = it.ask((IN_SYNC, 1))
    it.append(MISSED)
    await turns(2)
    assert waiting.offsets(MISSED) == [3]
