"""Replicas that move to another log directory (KIP-113): one test a rule."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from bifrost.errors import ErrorCode
from bifrost.log.config import FlushPolicy, LogConfig
from bifrost.log.memory_disk import MemoryDisk
from bifrost.settings import Settings
from bifrost.types import TopicPartition
from tests.sim.disk import FaultyDisk
from tests.unit.broker.moving_logs import A0, ONE, TWO, MovingLogs
from tests.unit.broker.stand_ins import on_loop
from tests.unit.log.batches import NOW, append


def written(count: int) -> list[bytes]:
    return [b"value %d" % number for number in range(count)]


@on_loop
async def test_a_log_moves_with_all_that_it_holds() -> None:
    disk = MemoryDisk()
    node = await MovingLogs.start(disk)
    log = node.create()
    node.write(0, 50)
    append(log, b"idempotent", producer_id=7, sequence=0)
    assert node.moves.request(A0, TWO) is ErrorCode.NONE
    await node.until_still()
    assert node.log is log, "whoever knows the log need not know of it"
    assert log.directory == "/two/a-0"
    assert node.values == [*written(50), b"idempotent"]
    assert [name for name in node.folders(ONE) if not name.endswith("-delete")] == []
    assert node.moved == [A0]
    assert append(log, b"idempotent", producer_id=7, sequence=0).duplicate
    node.write(50, 60)
    await node.logs.close()
    again = await MovingLogs.start(disk)
    assert again.log.directory == "/two/a-0"
    assert len(again.values) == 61
    assert again.log.topic_id == log.topic_id


@on_loop
async def test_it_is_written_to_and_read_meanwhile() -> None:
    node = await MovingLogs.start(FaultyDisk(Random(1)), config=LogConfig(segment_bytes=4_000))
    log = node.create()
    node.write(0, 20)
    node.moves.request(A0, TWO)
    count = 20
    while node.tasks:
        node.write(count, count + 1)
        count += 1
        assert node.values == written(count)
        await asyncio.sleep(0.001)
        if node.tasks[0].done():
            await node.until_still()
    assert log.directory == "/two/a-0"
    node.write(count, count + 1)
    while log.durable_offset < count + 1:  # noqa: ASYNC110  # disks have no events
        await asyncio.sleep(0)


@on_loop
async def test_what_is_cut_off_meanwhile_is_not_in_the_copy() -> None:
    for cut in (0, 3, 20, 39):
        for turns in (0, 1, 3, 8):
            node = await MovingLogs.start(MemoryDisk())
            log = node.create()
            node.write(0, 40)
            node.moves.request(A0, TWO)
            for _ in range(turns):
                await asyncio.sleep(0.001)
            log.truncate_to(cut, NOW)
            for number in range(3):
                append(log, b"other %d" % number, leader_epoch=1)
            await node.until_still()
            assert node.log.directory == "/two/a-0"
            assert node.values == [*written(cut), b"other 0", b"other 1", b"other 2"]
            assert node.log.epoch_end(0) == (0, cut)


@on_loop
async def test_a_log_that_begins_later_does_so_in_its_new_place() -> None:
    disk = MemoryDisk()
    node = await MovingLogs.start(disk)
    log = node.create()
    append(log, *written(10))
    node.write(10, 40)
    log.advance_log_start(5)
    node.moves.request(A0, TWO)
    await asyncio.sleep(0)
    log.advance_log_start(13)
    await node.until_still()
    assert (node.log.directory, node.log.log_start_offset) == ("/two/a-0", 13)
    assert disk.read_bytes("/two/log-start-offset-checkpoint") == b"0\n1\na 0 13\n"
    await node.logs.close()
    again = await MovingLogs.start(disk)
    assert again.log.log_start_offset == 13


@on_loop
async def test_a_log_that_is_emptied_and_begins_elsewhere() -> None:
    for start in (3, 100):
        node = await MovingLogs.start(MemoryDisk())
        log = node.create()
        node.write(0, 40)
        log.advance_log_start(10)
        node.moves.request(A0, TWO)
        await asyncio.sleep(0.001)
        log.truncate_fully_and_start_at(start, NOW)
        append(log, b"new")
        await node.until_still()
        assert node.log.directory == "/two/a-0"
        assert (node.log.log_start_offset, node.log.log_end_offset) == (start, start + 1)


@on_loop
async def test_a_topic_that_is_deleted_takes_the_copy_with_it() -> None:
    node = await MovingLogs.start(MemoryDisk())
    node.create()
    node.write(0, 40)
    node.moves.request(A0, TWO)
    await asyncio.sleep(0)
    node.replicas.remove(A0)
    node.logs.delete(A0)
    await node.until_still()
    assert not [name for path in (ONE, TWO) for name in node.folders(path) if not name.endswith("-delete")]
    assert node.lost == []
    assert list(node.logs.futures) == []


@on_loop
async def test_a_move_is_given_up_by_asking_for_the_place_where_the_log_is() -> None:
    node = await MovingLogs.start(MemoryDisk(), settings=Settings(replica_alter_log_dirs_io_max_bytes_per_second=1))
    node.create()
    node.write(0, 40)
    node.moves.request(A0, TWO)
    await asyncio.sleep(0.01)
    (state,) = [one for one in await node.logs.describe() if one.path == TWO]
    assert 0 < state.copies[A0].offset_lag <= 40
    assert node.moves.request(A0, TWO) is ErrorCode.NONE, "it is on its way there"
    assert len(list(node.logs.futures)) == 1
    assert node.moves.request(A0, ONE) is ErrorCode.NONE
    assert list(node.logs.futures) == []
    node.stopping.set()
    await node.until_still()
    assert node.log.directory == "/one/a-0"
    assert [name for name in node.folders(TWO) if name.endswith("-future")] == []


@on_loop
async def test_errors_are_kafkas() -> None:
    node = await MovingLogs.start(MemoryDisk())
    node.create()
    long_name = TopicPartition("x" * 249, 0)
    assert node.moves.request(long_name, TWO) is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert node.moves.request(A0, "/three") is ErrorCode.LOG_DIR_NOT_FOUND
    assert node.moves.request(A0, "/two/") is ErrorCode.LOG_DIR_NOT_FOUND
    assert node.moves.request(TopicPartition("nowhere", 0), TWO) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert node.moves.request(TopicPartition("elsewhere", 0), TWO) is ErrorCode.REPLICA_NOT_AVAILABLE
    assert node.moves.request(A0, ONE) is ErrorCode.NONE
    assert list(node.logs.futures) == []


@on_loop
async def test_a_log_that_is_not_there_yet_will_be_made_where_it_is_wanted() -> None:
    node = await MovingLogs.start(MemoryDisk())
    assert node.moves.request(A0, TWO) is ErrorCode.REPLICA_NOT_AVAILABLE
    assert node.create().directory == "/two/a-0"
    assert node.logs.placing.wanted == {}


@pytest.mark.parametrize("failing", [ONE, TWO])
@on_loop
async def test_a_directory_that_fails_ends_the_move(failing: str) -> None:
    disk = FaultyDisk(Random(1))
    node = await MovingLogs.start(disk)
    node.create()
    node.write(0, 40)
    node.moves.request(A0, TWO)
    await asyncio.sleep(0)
    disk.fail_on = lambda operation, path: path.startswith(failing) and operation in ("write", "sync", "read")
    await node.until_still()
    assert node.lost == [failing]
    assert list(node.logs.futures) == []
    if failing == TWO:
        assert node.log.directory == "/one/a-0"
        assert node.values == written(40)
        assert node.moves.request(A0, TWO) is ErrorCode.KAFKA_STORAGE_ERROR
    else:
        assert node.moves.request(A0, TWO) is ErrorCode.KAFKA_STORAGE_ERROR, "the partition is offline"


@on_loop
async def test_a_full_disk_is_waited_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bifrost.broker.log_moves._FULL_PAUSE_S", 0.001)
    disk = FaultyDisk(Random(1))
    node = await MovingLogs.start(disk)
    node.create()
    node.write(0, 40)
    while node.log.durable_offset < 40:  # noqa: ASYNC110  # disks have no events
        await asyncio.sleep(0)
    node.moves.request(A0, TWO)
    disk.space_left = 500
    await asyncio.sleep(0.02)
    assert node.log.directory == "/one/a-0"
    assert node.lost == []
    disk.space_left = None
    await node.until_still()
    assert node.log.directory == "/two/a-0"
    assert node.values == written(40)


@on_loop
async def test_what_an_earlier_process_was_moving_is_moved_from_the_beginning() -> None:
    disk = MemoryDisk()
    slow = Settings(replica_alter_log_dirs_io_max_bytes_per_second=1)
    node = await MovingLogs.start(disk, settings=slow)
    node.create()
    node.write(0, 40)
    node.moves.request(A0, TWO)
    await asyncio.sleep(0.01)
    node.stopping.set()
    await node.until_still()
    await node.logs.close()
    assert [name for name in node.folders(TWO) if name.endswith("-future")]
    again = await MovingLogs.start(disk)
    await again.until_still()
    assert again.log.directory == "/two/a-0"
    assert again.values == written(40)
    await asyncio.sleep(0.01)
    assert [name for path in (ONE, TWO) for name in again.folders(path)] == ["a-0"]


@on_loop
async def test_it_moves_back_and_forth_as_often_as_anybody_likes() -> None:
    node = await MovingLogs.start(MemoryDisk(), policy=FlushPolicy.OS, config=LogConfig(segment_bytes=200))
    node.create()
    count = 0
    for number in range(6):
        node.write(count, count + 10)
        count += 10
        path = (TWO, ONE)[number % 2]
        assert node.moves.request(A0, path) is ErrorCode.NONE
        await node.until_still()
        assert node.log.directory == f"{path}/a-0"
        assert node.values == written(count)
        if number == 3:
            node.log.truncate_to(25, NOW)
            count = 25
