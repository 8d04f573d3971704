"""A full disk refuses writes and nothing more: what is stored stays readable, and everything works again with room."""

from __future__ import annotations

from random import Random

import pytest

from bifrost.errors import DiskFullError
from bifrost.log.config import FlushPolicy, LogConfig
from bifrost.log.epochs import LeaderEpochs
from bifrost.log.partition_log import PartitionLog
from bifrost.protocol.records import encode_batch
from tests.sim.disk import FaultyDisk
from tests.unit.log.batches import NOW, append, values_of
from tests.unit.log.test_manager import A0, B0, create, found, loaded


def log_of(disk: FaultyDisk) -> PartitionLog:
    return PartitionLog.open(disk, "/a-0", A0, LogConfig(), clean=False, recovery_point=0, now_ms=NOW)


async def test_checkpoints_that_find_no_room_do_not_take_the_directory_offline() -> None:
    disk = FaultyDisk(Random(1))
    logs = await loaded(disk)
    create(logs, A0)
    disk.space_left = 0
    await logs.checkpoint()
    await logs.checkpoint_high_watermarks({A0: 5})
    assert (logs.offline, logs.partitions) == ({}, [A0])
    disk.space_left = None
    await logs.checkpoint_high_watermarks({A0: 6})
    await logs.close()
    assert (await loaded(disk)).high_watermarks == {A0: 6}


async def test_a_stop_without_room_loses_nothing() -> None:
    disk = FaultyDisk(Random(1))
    logs = await loaded(disk)
    create(logs, A0)
    log = logs.get(A0)
    assert log is not None
    append(log, b"one", b"two")
    log.flush()
    disk.space_left = 0
    await logs.close()
    assert logs.offline == {}
    disk.space_left = None
    assert found(await loaded(disk), A0) == [b"one", b"two"]


async def test_a_partition_that_finds_no_room_can_be_created_later() -> None:
    disk = FaultyDisk(Random(1))
    logs = await loaded(disk)
    create(logs, A0)
    disk.space_left = 10
    with pytest.raises(DiskFullError):
        create(logs, B0)
    assert logs.partitions == [A0]
    disk.space_left = None
    create(logs, B0)
    await logs.close()
    again = await loaded(disk)
    assert sorted(again.partitions) == [A0, B0]


def test_epochs_that_find_no_room_are_stored_by_a_later_flush() -> None:
    disk = FaultyDisk(Random(1))
    log = log_of(disk)
    log.assign_epoch(3)
    append(log, b"one", leader_epoch=3)
    disk.space_left = 0
    log.flush()
    assert log.durable_offset == 1, "the batch itself is safe"
    assert log.recovery_point == 0, "or recovery would pass over the only trace of the epoch"
    disk.space_left = None
    log.flush()
    assert log.recovery_point == 1
    assert disk.exists("/a-0/leader-epoch-checkpoint")


def test_epochs_that_find_no_room_when_a_cut_log_rolls_are_stored_by_a_later_flush(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Such a roll does not wait for the flusher: the checkpoint may still hold a recovery point behind the cut."""
    disk = FaultyDisk(Random(1))
    log = log_of(disk)
    for value in (b"one", b"two", b"three"):
        append(log, value, leader_epoch=1)
    log.flush()
    log.truncate_to(1)
    append(log, b"other", leader_epoch=5)
    write_atomic = disk.write_atomic

    def refuse(path: str, data: bytes, *, sync: bool = True) -> None:
        raise DiskFullError(path, "No space left on device")

    monkeypatch.setattr(disk, "write_atomic", refuse)
    log.roll(NOW)
    monkeypatch.setattr(disk, "write_atomic", write_atomic)
    log.flush()
    assert log.recovery_point == 2
    assert LeaderEpochs.decode(disk.read_bytes("/a-0/leader-epoch-checkpoint")).entries() == [(1, 0), (5, 1)]


@pytest.mark.parametrize("policy", [FlushPolicy.ACK, FlushPolicy.OS])
def test_what_a_follower_has_stored_before_it_finds_no_room_is_synced(policy: FlushPolicy) -> None:
    """A follower asks for more only when its disk has what there is: nobody else would ever see to that."""
    disk = FaultyDisk(Random(1))
    batches = [bytes(encode_batch([(NOW, None, b"v", ())], base_offset=offset, leader_epoch=1)) for offset in range(3)]
    config = LogConfig(segment_bytes=2 * len(batches[0]))
    log = PartitionLog.open(disk, "/a-0", A0, config, clean=False, recovery_point=0, now_ms=NOW, policy=policy)
    log.append_replicated(memoryview(batches[0]), NOW)
    log.flush()
    told: list[PartitionLog] = []
    log.on_dirty = told.append
    disk.space_left = len(batches[1])
    with pytest.raises(DiskFullError):
        log.append_replicated(memoryview(batches[1] + batches[2]), NOW)
    assert log.log_end_offset == 2, "the second had room in the first segment"
    for one in told:
        one.flush()
    assert log.durable_offset == 2


@pytest.mark.parametrize("seed", range(10))
def test_epochs_that_found_no_room_are_read_from_the_batches_after_a_crash(seed: int) -> None:
    disk = FaultyDisk(Random(seed))
    log = log_of(disk)
    append(log, b"one", leader_epoch=0)
    log.flush()
    disk.space_left = 200
    append(log, b"two", leader_epoch=7)
    disk.space_left = 0
    log.flush()
    assert log.durable_offset == 2
    point = log.recovery_point
    disk.crash()
    disk.space_left = None
    again = PartitionLog.open(disk, "/a-0", A0, LogConfig(), clean=False, recovery_point=point, now_ms=NOW)
    assert values_of(again) == [b"one", b"two"]
    assert again.epochs.latest == 7
