"""A shard that is loaded knows what the one before it knew, and the loop goes on meanwhile."""

from __future__ import annotations

import asyncio
import struct

import pytest

from bifrost.coordinator.core.environment import LogRecord
from bifrost.coordinator.core.records import OffsetCommitKey, OffsetCommitValue, record
from bifrost.coordinator.loading import LeadershipLostError, Loaded, Loading
from bifrost.protocol.batch import CorruptBatchError
from bifrost.protocol.compression import Codec
from tests.unit.broker.stand_ins import on_loop
from tests.unit.coordinator.led_partition import LedPartition
from tests.unit.coordinator.whole_shard import GROUP, WholeShard

ABORT, COMMIT = 0, 1


def offset(value: int | None, partition: int = 0) -> LogRecord:
    key = OffsetCommitKey(group=GROUP, topic="orders", partition=partition)
    return record(key, None if value is None else OffsetCommitValue(offset=value, metadata="", commit_timestamp=0))


def marker(kind: int) -> LogRecord:
    return LogRecord(struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 0))


async def load(led: LedPartition, *, buffer_bytes: int = 1 << 20) -> tuple[WholeShard, Loaded]:
    shard = WholeShard()
    return shard, await Loading(led.partition, shard.core, buffer_bytes=buffer_bytes).run()


@on_loop
async def test_everything_is_replayed_in_order() -> None:
    led = LedPartition()
    led.append(offset(1), offset(2, partition=1))
    led.append(offset(3))
    led.append(offset(None, partition=1))
    shard, loaded = await load(led)
    assert shard.fetch_all() == {("orders", 0): 3}
    assert loaded == Loaded(records=4, open_transactions=0)


@on_loop
@pytest.mark.parametrize("buffer_bytes", [1, 100, 1_000])
async def test_a_small_buffer_takes_longer_and_finds_the_same(buffer_bytes: int) -> None:
    led = LedPartition()
    for number in range(20):
        led.append(offset(number), offset(number, partition=number % 4), codec=Codec(number % 5))
    shard, loaded = await load(led, buffer_bytes=buffer_bytes)
    assert loaded.records == 40
    assert shard.fetch_all() == {("orders", 0): 19, ("orders", 1): 17, ("orders", 2): 18, ("orders", 3): 19}


@on_loop
async def test_several_segments_are_read() -> None:
    led = LedPartition()
    for number in range(3):
        led.append(offset(number, partition=number))
        led.log.roll(1)
    shard, _ = await load(led)
    assert len(shard.fetch_all()) == 3


@on_loop
async def test_the_loop_gets_a_turn_between_slices() -> None:
    led = LedPartition()
    for _ in range(5):
        led.append(*(offset(number, partition=number % 4) for number in range(1_000)))
    turns = 0
    loading = asyncio.ensure_future(load(led))
    while not loading.done():
        turns += 1
        await asyncio.sleep(0)
    assert turns >= 10
    assert (await loading)[1].records == 5_000


class TestTransactions:
    """Kafka: TxnOffsetCommit. Offsets of a transaction count when it is committed."""

    @on_loop
    async def test_offsets_take_effect_with_the_marker(self) -> None:
        led = LedPartition()
        led.append(offset(1))
        led.append_of(7, offset(5))
        led.append_of(8, offset(9, partition=1))
        led.append_of(7, marker(COMMIT), control=True)
        led.append_of(8, marker(ABORT), control=True)
        shard, loaded = await load(led)
        assert shard.fetch_all() == {("orders", 0): 5}
        assert loaded.open_transactions == 0

    @on_loop
    async def test_a_later_plain_commit_wins_although_the_marker_comes_after_it(self) -> None:
        led = LedPartition()
        led.append_of(7, offset(5), offset(5, partition=1))
        led.append(offset(6))
        led.append_of(7, marker(COMMIT), control=True)
        shard, _ = await load(led)
        assert shard.fetch_all() == {("orders", 0): 6, ("orders", 1): 5}

    @on_loop
    async def test_a_transaction_without_an_end_changes_nothing_and_is_told(self) -> None:
        led = LedPartition()
        led.append(offset(1))
        led.append_of(7, offset(5))
        shard, loaded = await load(led)
        assert shard.fetch_all() == {("orders", 0): 1}
        assert loaded.open_transactions == 1

    @on_loop
    async def test_a_marker_of_nobody_is_harmless(self) -> None:
        led = LedPartition()
        led.append_of(7, marker(COMMIT), control=True)
        shard, _ = await load(led)
        assert shard.fetch_all() == {}


@on_loop
async def test_damage_is_told() -> None:
    led = LedPartition()
    led.append(offset(1))
    file = led.log.segments[-1].file
    file.write_at(b"\xff", led.log.size_bytes - 1)
    with pytest.raises(CorruptBatchError):
        await load(led)


@on_loop
async def test_who_loses_the_leadership_stops() -> None:
    led = LedPartition()
    led.append(*(offset(number) for number in range(2_000)))
    loading = asyncio.ensure_future(load(led))
    await asyncio.sleep(0)
    led.lead()
    with pytest.raises(LeadershipLostError):
        await loading
