"""A quorum of one: committed means synced, a restart gives back exactly what was committed, damage is never silent."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from bifrost.errors import DiskFullError, StorageError
from bifrost.log.disk import Buffer
from bifrost.log.memory_disk import MemoryDisk, MemoryFile
from bifrost.log.real_disk import RealDisk
from bifrost.protocol.batch import HEADER_BYTES
from bifrost.raft.solo import SoloLog
from bifrost.settings import Settings

DIRECTORY = "data/__cluster_metadata-0"
FIRST_SEGMENT = f"{DIRECTORY}/{0:020d}.log"


class StillClock:
    def now_ms(self) -> int:
        return 1_700_000_000_000


def open_log(disk: MemoryDisk | RealDisk, parent: str = "data", settings: Settings | None = None) -> SoloLog:
    return SoloLog.open(disk, parent, settings or Settings(), StillClock())


def append(log: SoloLog, *groups: Sequence[bytes]) -> list[int]:
    async def run() -> list[int]:
        return [await log.append(group) for group in groups]

    return asyncio.run(run())


def content(disk: MemoryDisk) -> bytearray:
    file = disk.open(FIRST_SEGMENT)
    assert isinstance(file, MemoryFile)
    return file.content


def start_of(whole: bytes, value: bytes) -> int:
    """Where the batch with this small value starts: before it are a header and the record's six bytes."""
    return whole.index(value) - HEADER_BYTES - 6


def three_changes() -> MemoryDisk:
    disk = MemoryDisk()
    append(open_log(disk), [b"one"], [b"two"], [b"three"])
    return disk


def test_a_new_log_is_empty() -> None:
    log = open_log(MemoryDisk())
    assert (log.name, log.end_offset, list(log.replay())) == (DIRECTORY, 0, [])


def test_each_value_has_an_offset_and_a_group_shares_a_batch() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    assert append(log, [b"a", b"b"], [b"c"]) == [0, 2]
    assert log.end_offset == 3
    assert list(log.replay()) == [(0, b"a"), (1, b"b"), (2, b"c")]


def test_a_restart_gives_back_what_was_committed(tmp_path: object) -> None:
    disk, parent = RealDisk(), f"{tmp_path}/data"
    log = open_log(disk, parent)
    append(log, [b"a"], [b"b" * 3_000_000], [b"c"])
    log.close()
    again = open_log(disk, parent)
    assert list(again.replay()) == [(0, b"a"), (1, b"b" * 3_000_000), (2, b"c")]
    assert append(again, [b"d"]) == [3]
    again.close()


def test_every_start_writes_in_an_epoch_of_its_own() -> None:
    disk = MemoryDisk()
    for number in range(3):
        log = open_log(disk)
        append(log, [b"x"])
        log.close()
        assert log._log.epochs.latest == number + 1


def test_changes_are_read_across_segments() -> None:
    disk = MemoryDisk()
    settings = replace(Settings(), metadata_log_segment_bytes=1_000)
    values = [bytes([number]) * 300 for number in range(20)]
    append(open_log(disk, settings=settings), *([value] for value in values))
    assert len([name for name in disk.listdir(DIRECTORY) if name.endswith(".log")]) > 5
    assert [value for _, value in open_log(disk, settings=settings).replay()] == values


class SlowSyncDisk(MemoryDisk):
    """Counts syncs; `failure` is raised by the next one."""

    syncs = 0
    failure: StorageError | None = None

    def new_file(self, path: str) -> MemoryFile:
        return _SyncedFile(path, self)


class _SyncedFile(MemoryFile):
    def __init__(self, path: str, disk: SlowSyncDisk) -> None:
        super().__init__(path)
        self._disk = disk
        self.full = False

    def write_at(self, data: Buffer, position: int) -> None:
        if self.full and self.path.endswith(".log"):
            raise DiskFullError(self.path, "no space left")
        super().write_at(data, position)

    def sync(self) -> None:
        self._disk.syncs += 1
        if self._disk.failure is not None:
            raise self._disk.failure


def test_an_append_returns_after_a_sync() -> None:
    disk = SlowSyncDisk()
    log = open_log(disk)
    before = disk.syncs
    append(log, [b"a"])
    assert disk.syncs > before


@pytest.mark.parametrize("failure", [StorageError("f", "broken"), DiskFullError("f", "full")])
def test_a_failed_sync_is_never_mistaken_for_a_full_disk(failure: StorageError) -> None:
    disk = SlowSyncDisk()
    log = open_log(disk)
    disk.failure = failure
    with pytest.raises(StorageError, match="sync failed") as raised:
        append(log, [b"a"])
    assert not isinstance(raised.value, DiskFullError)


def test_a_full_disk_leaves_the_log_as_it_was() -> None:
    disk = SlowSyncDisk()
    log = open_log(disk)
    append(log, [b"a"])
    file = disk.open(FIRST_SEGMENT)
    assert isinstance(file, _SyncedFile)
    file.full = True
    with pytest.raises(DiskFullError):
        append(log, [b"b"])
    file.full = False
    assert append(log, [b"c"]) == [1]
    assert list(open_log(disk).replay()) == [(0, b"a"), (1, b"c")]


def test_a_torn_last_write_is_cut_off_wherever_it_was_torn() -> None:
    whole = bytes(content(three_changes()))
    for size in range(start_of(whole, b"three"), len(whole)):
        disk = three_changes()
        del content(disk)[size:]
        assert list(open_log(disk).replay()) == [(0, b"one"), (1, b"two")]


def test_garbage_behind_the_last_write_is_cut_off() -> None:
    disk = three_changes()
    content(disk).extend(b"\x00" * 5_000)
    assert [value for _, value in open_log(disk).replay()] == [b"one", b"two", b"three"]


def test_a_flipped_bit_in_a_committed_change_refuses_the_start() -> None:
    whole = bytes(content(three_changes()))
    epochs = [start_of(whole, value) + 12 + byte for value in (b"one", b"two") for byte in range(4)]
    for position in range(start_of(whole, b"three")):
        if position in epochs:
            continue  # no checksum covers a leader epoch, and nothing here depends on it
        disk = three_changes()
        content(disk)[position] ^= 0x40
        with pytest.raises(StorageError, match="committed metadata is damaged"):
            open_log(disk)


def test_a_damaged_earlier_segment_refuses_the_start() -> None:
    disk = MemoryDisk()
    settings = replace(Settings(), metadata_log_segment_bytes=1_000)
    append(open_log(disk, settings=settings), *([b"x" * 300] for _ in range(9)))
    content(disk)[-1] ^= 1
    with pytest.raises(StorageError, match="committed metadata is damaged"):
        open_log(disk, settings=settings)
