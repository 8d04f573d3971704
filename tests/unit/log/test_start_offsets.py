"""Where logs begin, on disk: stored as it moves, kept over any crash, forgotten with the log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

import pytest

from bifrost.errors import DiskFullError
from bifrost.log.config import LogConfig
from bifrost.log.manager import LogManager
from bifrost.log.partition_log import PartitionLog
from tests.sim.disk import FaultyDisk
from tests.unit.log.batches import NOW, append, values_of
from tests.unit.log.test_manager import A0, B0, create, loaded

CHECKPOINT = "/data/log-start-offset-checkpoint"


def filled(logs: LogManager, count: int = 6) -> PartitionLog:
    create(logs, A0)
    log = logs.get(A0)
    assert log is not None
    log.config = LogConfig(segment_bytes=150, file_delete_delay_ms=0)
    for number in range(count):
        append(log, b"%03d" % number)
        log.roll(NOW)
    log.flush()
    return log


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110  # no event tells of files
            await asyncio.sleep(0.001)


async def test_a_start_that_was_stored_survives_a_crash_whatever_the_disk_forgets() -> None:
    for seed in range(20):
        disk = FaultyDisk(Random(seed))
        logs = await loaded(disk)
        log = filled(logs)
        told: list[int] = []
        log.on_start_stored = lambda told=told, log=log: told.append(log.stored_start_offset)  # type: ignore[misc]
        log.advance_log_start(3)
        assert (log.stored_start_offset, told) == (0, [])
        await logs.store_starts()
        assert (log.stored_start_offset, told) == (3, [3])
        log.take_out_segments(3, Random(seed).randint(1, 3))  # some names may come back
        disk.crash()
        again = (await loaded(disk)).get(A0)
        assert again is not None
        assert again.log_start_offset == again.stored_start_offset == 3
        assert values_of(again) == [b"003", b"004", b"005"]


async def test_many_moves_share_a_write() -> None:
    disk = FaultyDisk(Random(1))
    logs = await loaded(disk)
    log = filled(logs)
    for offset in range(1, 6):
        log.advance_log_start(offset)
    await logs.store_starts()
    assert disk.read_bytes(CHECKPOINT) == b"0\n1\na 0 5\n"


async def test_after_a_stop_in_order_only_that_is_left_which_names_do_not_tell() -> None:
    """As Kafka has it: LogManager.checkpointLogStartOffsetsInDir."""
    disk = FaultyDisk(Random(1))
    logs = await loaded(disk)
    log = filled(logs)
    create(logs, B0)
    other = logs.get(B0)
    assert other is not None
    append(other, b"a", b"b", b"c")
    other.flush()
    log.advance_log_start(3)
    other.advance_log_start(1)
    log.take_out_segments(3, 9)
    await logs.store_starts()
    assert disk.read_bytes(CHECKPOINT) == b"0\n2\na 0 3\nb 0 1\n"
    await logs.close()
    assert disk.read_bytes(CHECKPOINT) == b"0\n1\nb 0 1\n"
    disk.crash()
    logs = await loaded(disk)
    assert [logs.get(each).log_start_offset for each in (A0, B0)] == [3, 1]  # type: ignore[union-attr]


async def test_a_log_of_the_same_name_does_not_begin_where_the_deleted_one_did() -> None:
    disk = FaultyDisk(Random(1))
    logs = await loaded(disk)
    filled(logs).advance_log_start(3)
    await logs.store_starts()
    logs.delete(A0)
    await logs.store_starts()
    create(logs, A0)
    new = logs.get(A0)
    assert new is not None
    append(new, b"new")
    new.flush()
    disk.crash()
    again = (await loaded(disk)).get(A0)
    assert again is not None
    assert values_of(again) == [b"new"]


async def test_it_may_be_made_again_before_the_file_was_written() -> None:
    disk = FaultyDisk(Random(1))
    logs = await loaded(disk)
    filled(logs).advance_log_start(3)
    await logs.store_starts()
    logs.delete(A0)
    with pytest.raises(DiskFullError, match="is being forgotten"):
        create(logs, A0)
    await logs.store_starts()
    create(logs, A0)


async def test_on_a_full_disk_it_is_tried_again() -> None:
    disk = FaultyDisk(Random(1))
    logs = await loaded(disk)
    log = filled(logs)
    disk.space_left = 0
    log.advance_log_start(3)
    await logs.store_starts()
    assert log.stored_start_offset == 0
    assert log.take_out_segments(3, 9), "segments go all the same, or a full disk would stay so"
    disk.space_left = None
    await until(lambda: log.stored_start_offset == 3)


async def test_removed_segments_leave_no_files() -> None:
    disk = FaultyDisk(Random(1))
    logs = await loaded(disk)
    log = filled(logs)
    log.advance_log_start(6)
    logs.remove_later(log, log.take_out_segments(6, 9))
    await until(lambda: not any(name.endswith(".deleted") for name in disk.listdir("/data/a-0")))
    assert [name for name in disk.listdir("/data/a-0") if name.endswith(".log")] == ["00000000000000000006.log"]


async def test_a_topic_may_be_deleted_while_its_segments_wait_for_their_removal() -> None:
    disk = FaultyDisk(Random(1))
    logs = await loaded(disk, file_delete_delay_ms=0)
    log = filled(logs)
    log.advance_log_start(6)
    logs.remove_later(log, log.take_out_segments(6, 9))
    logs.delete(A0)
    await until(lambda: not any(name.startswith("a-0") for name in disk.listdir("/data")))
    assert not logs.offline
