"""What a member keeps on its disk: a restart gives back exactly what was synced, damage is never silent, and a
snapshot takes the place of what came before it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from bifrost.errors import DiskFullError, StorageError
from bifrost.log.disk import Buffer
from bifrost.log.memory_disk import MemoryDisk, MemoryFile
from bifrost.log.real_disk import RealDisk
from bifrost.protocol.batch import HEADER_BYTES, iter_headers
from bifrost.raft.core.messages import Divergence, ElectionState, SnapshotId
from bifrost.raft.storage import RaftStorage
from bifrost.settings import Settings
from bifrost.types import NodeId

DIRECTORY = "data/__cluster_metadata-0"
FIRST_SEGMENT = f"{DIRECTORY}/{0:020d}.log"


class StillClock:
    def now_ms(self) -> int:
        return 1_700_000_000_000


def open_log(disk: MemoryDisk | RealDisk, parent: str = "data", settings: Settings | None = None) -> RaftStorage:
    return RaftStorage.open(disk, parent, settings or Settings(), StillClock())


def append(log: RaftStorage, *groups: Sequence[bytes], epoch: int = 1) -> list[int]:
    """Append and sync each group."""

    async def run() -> list[int]:
        loop = asyncio.get_running_loop()
        durable, failed = asyncio.Event(), loop.create_future()
        log.start(loop, durable.set, failed.set_exception)
        first = []
        for group in groups:
            durable.clear()
            first.append(log.append(group, epoch))
            waiting = asyncio.ensure_future(durable.wait())
            await asyncio.wait([waiting, failed], return_when=asyncio.FIRST_COMPLETED)
            if failed.done():
                waiting.cancel()
                failed.result()
            assert log.durable_offset == log.end_offset
        log._log.on_dirty = log._log.on_durable = None  # the loop goes
        return first

    return asyncio.run(run())


def values(log: RaftStorage) -> list[tuple[int, bytes]]:
    return list(log.changes(log.start_offset, log.end_offset))


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
    assert (log.name, log.end_offset, values(log)) == (DIRECTORY, 0, [])


def test_each_value_has_an_offset_and_a_group_shares_a_batch() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    assert append(log, [b"a", b"b"], [b"c"]) == [0, 2]
    assert log.end_offset == 3
    assert values(log) == [(0, b"a"), (1, b"b"), (2, b"c")]


def test_a_restart_gives_back_what_was_committed(tmp_path: object) -> None:
    disk, parent = RealDisk(), f"{tmp_path}/data"
    log = open_log(disk, parent)
    append(log, [b"a"], [b"b" * 3_000_000], [b"c"])
    log.close()
    again = open_log(disk, parent)
    assert values(again) == [(0, b"a"), (1, b"b" * 3_000_000), (2, b"c")]
    assert append(again, [b"d"]) == [3]
    again.close()


def test_changes_are_read_across_segments() -> None:
    disk = MemoryDisk()
    settings = replace(Settings(), metadata_log_segment_bytes=1_000)
    written = [bytes([number]) * 300 for number in range(20)]
    append(open_log(disk, settings=settings), *([value] for value in written))
    assert len([name for name in disk.listdir(DIRECTORY) if name.endswith(".log")]) > 5
    assert [value for _, value in values(open_log(disk, settings=settings))] == written


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


def test_a_failed_sync_is_told_and_makes_nothing_durable() -> None:
    disk = SlowSyncDisk()
    log = open_log(disk)
    disk.failure = StorageError("f", "broken")
    with pytest.raises(StorageError, match="broken"):
        append(log, [b"a"])
    assert log.durable_offset == 0


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
    assert values(open_log(disk)) == [(0, b"a"), (1, b"c")]


def test_a_torn_last_write_is_cut_off_wherever_it_was_torn() -> None:
    whole = bytes(content(three_changes()))
    for size in range(start_of(whole, b"three"), len(whole)):
        disk = three_changes()
        del content(disk)[size:]
        assert values(open_log(disk)) == [(0, b"one"), (1, b"two")]


def test_garbage_behind_the_last_write_is_cut_off() -> None:
    disk = three_changes()
    content(disk).extend(b"\x00" * 5_000)
    assert [value for _, value in values(open_log(disk))] == [b"one", b"two", b"three"]


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


def test_a_vote_outlives_a_restart() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    assert log.election == ElectionState()
    voted = ElectionState(7, NodeId(2), None, is_newborn=False)
    log.store_election(voted)
    assert open_log(disk).election == voted


def test_a_vote_that_cannot_be_read_refuses_the_start() -> None:
    disk = MemoryDisk()
    open_log(disk).store_election(ElectionState(7, NodeId(2)))
    disk.write_atomic(f"{DIRECTORY}/quorum-state", b"{")
    with pytest.raises(StorageError, match="quorum-state: it cannot be read"):
        open_log(disk)


def test_a_log_without_a_vote_has_a_past_and_its_epoch() -> None:
    """As nodes left it that were alone before there was a quorum."""
    disk = MemoryDisk()
    append(open_log(disk), [b"x"], epoch=5)
    assert open_log(disk).election == ElectionState(5, is_newborn=False)


def test_where_epochs_end() -> None:
    log = open_log(MemoryDisk())
    assert log.epoch_end(3) == Divergence(0, 0)
    append(log, [b"a", b"b"], epoch=2)
    append(log, [b"c"], epoch=5)
    assert [log.epoch_end(epoch) for epoch in (1, 2, 4, 5, 9)] == [
        Divergence(0, 0), Divergence(2, 2), Divergence(2, 2), Divergence(5, 3), Divergence(5, 3),
    ]  # fmt: skip
    assert log.last_epoch == 5


def take_snapshot(log: RaftStorage, epoch: int) -> SnapshotId:
    taken = SnapshotId(log.end_offset, epoch)
    log.snapshots.write(taken, [[b"sum of %d" % log.end_offset]], 0)
    log.snapshots.add(taken)
    log.on_snapshot()
    log._log.flush()  # nobody else does, between two loops
    return taken


def test_the_log_keeps_what_came_after_the_snapshot_before_the_last() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    append(log, [b"a"], [b"b"])
    first = take_snapshot(log, 1)
    assert (log.start_offset, log.snapshot) == (0, first)
    append(log, [b"c"], epoch=3)
    second = take_snapshot(log, 3)
    append(log, [b"d"], epoch=3)
    for each in (log, open_log(disk)):
        assert (each.start_offset, each.first_epoch, each.snapshot) == (2, 1, second)
        assert values(each) == [(2, b"c"), (3, b"d")]
        assert list(each.snapshots.changes(second)) == [b"sum of 3"]
        assert each.epoch_end(1) == Divergence(1, 2)
        assert each.epoch_end(0) == Divergence(1, 2)
    append(log, [b"e"], epoch=3)
    take_snapshot(log, 3)
    names = disk.listdir(DIRECTORY)
    assert [name for name in names if name.endswith((".checkpoint", ".log"))] == [
        f"{3:020d}-{3:010d}.checkpoint", f"{3:020d}.log", f"{5:020d}-{3:010d}.checkpoint", f"{5:020d}.log",
    ]  # fmt: skip


def test_a_log_can_begin_anew_behind_a_snapshot() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    append(log, [b"a"], [b"b"])
    sent = SnapshotId(100, 4)
    log.snapshots.write(sent, [[b"x", b"y"], [b"z"]], 0)
    log.snapshots.add(sent)
    crashed = open_log(copied(disk))  # before the log could follow
    log.restart_behind(sent)
    log._log.flush()
    for each in (crashed, log):
        assert (each.start_offset, each.end_offset, each.last_epoch) == (100, 100, 4)
        assert list(each.snapshots.changes(sent)) == [b"x", b"y", b"z"]
    assert append(log, [b"c"], epoch=4) == [100]


def copied(disk: MemoryDisk) -> MemoryDisk:
    twin = MemoryDisk()
    twin.makedirs(DIRECTORY)
    for name in disk.listdir(DIRECTORY):
        twin.open(f"{DIRECTORY}/{name}", create=True).write_at(disk.read_bytes(f"{DIRECTORY}/{name}"), 0)
    return twin


def test_no_byte_of_a_snapshot_that_counts_can_change_unnoticed() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    append(log, [b"a"])
    taken = take_snapshot(log, 1)
    path = log.snapshots.path(taken)
    whole = disk.read_bytes(path)
    starts = [position for position, _ in iter_headers(memoryview(whole))]
    unchecked = {start + byte for start in starts for byte in (*range(8), *range(12, 16))}  # offsets and epochs
    for position in set(range(len(whole))) - unchecked:
        changed = bytearray(whole)
        changed[position] ^= 0x10
        disk.write_atomic(path, bytes(changed))
        with pytest.raises(StorageError):
            list(log.snapshots.changes(taken))
    for size in range(len(whole)):
        disk.write_atomic(path, whole[:size])
        with pytest.raises(StorageError):
            list(log.snapshots.changes(taken))


def test_an_unfinished_snapshot_is_removed_by_the_next_start() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    log.snapshots.receive(SnapshotId(9, 1)).write(b"half")
    again = open_log(disk)
    assert again.snapshot is None
    assert not [name for name in disk.listdir(DIRECTORY) if "checkpoint" in name]
