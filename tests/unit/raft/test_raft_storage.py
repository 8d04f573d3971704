"""What a member keeps on its disk: a restart gives back exactly what was synced, damage is never silent, and a
snapshot takes the place of what came before it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from bifrost.errors import ApiError, DiskFullError, StorageError
from bifrost.log.disk import Buffer
from bifrost.log.memory_disk import MemoryDisk, MemoryFile
from bifrost.log.real_disk import RealDisk
from bifrost.protocol.batch import HEADER_BYTES, iter_headers
from bifrost.protocol.control_records import LeaderChange, control_batch
from bifrost.raft.core.messages import Divergence, ElectionState, SnapshotId
from bifrost.raft.election_file import encode_election
from bifrost.raft.storage import RaftStorage
from bifrost.raft.synced_mark import SYNCED_FILE
from bifrost.settings import Settings
from bifrost.types import NodeId
from tests.sim.disk import FaultyDisk

DIRECTORY = "data/__cluster_metadata-0"
FIRST_SEGMENT = f"{DIRECTORY}/{0:020d}.log"


class StillClock:
    def now_ms(self) -> int:
        return 1_700_000_000_000


def open_log(
    disk: MemoryDisk | RealDisk, parent: str = "data", settings: Settings | None = None, *, has_others: bool = False
) -> RaftStorage:
    return RaftStorage.open(disk, parent, settings or Settings(), StillClock(), has_others=has_others)


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
    entries = log.entries(log.start_offset, log.end_offset)
    return [(one.offset, one.value) for one in entries if isinstance(one.value, bytes)]


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
    for position in range(start_of(whole, b"three")):
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
    assert append(crashed, [b"c"], epoch=4) == [100], "what a start has cut off is synced, and then all else"


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


@pytest.mark.parametrize("seed", range(10))
def test_the_first_vote_on_a_new_disk_outlives_a_loss_of_power(seed: int) -> None:
    """The name of the directory that holds it has to be safe, too."""
    disk = FaultyDisk(Random(seed))
    disk.makedirs("data")
    disk.sync_directory("")
    voted = ElectionState(1, NodeId(2))
    open_log(disk).store_election(voted)
    disk.crash()
    assert open_log(disk).election == voted


def test_of_several_batches_that_were_never_synced_any_may_be_spoiled() -> None:
    disk = three_changes()
    log = open_log(disk)
    log.append([b"four"], 1)
    log.append([b"five"], 1)
    whole = content(disk)
    whole[start_of(bytes(whole), b"four") + HEADER_BYTES] ^= 1
    assert [value for _, value in values(open_log(disk))] == [b"one", b"two", b"three"]


def test_a_spoiled_batch_that_was_synced_is_damage_whatever_comes_behind_it() -> None:
    disk = three_changes()
    whole = content(disk)
    whole[start_of(bytes(whole), b"two") + HEADER_BYTES] ^= 1
    with pytest.raises(StorageError, match="committed metadata is damaged"):
        open_log(disk)


def test_what_was_cut_off_and_written_anew_is_not_synced_any_more() -> None:
    disk = three_changes()
    log = open_log(disk)
    log.truncate(1)
    log.append([b"2nd"], 2)
    log.append([b"3rd"], 2)
    whole = content(disk)
    whole[start_of(bytes(whole), b"2nd") + HEADER_BYTES] ^= 1
    assert [value for _, value in values(open_log(disk))] == [b"one"]


@pytest.mark.parametrize("torn", [b"", b"\0" * 5, b"\0" * 7 + b"\3" + b"\0" * 4])
def test_a_torn_mark_promises_nothing(torn: bytes) -> None:
    disk = three_changes()
    disk.write_atomic(f"{DIRECTORY}/{SYNCED_FILE}", torn)
    whole = content(disk)
    whole[start_of(bytes(whole), b"two") + HEADER_BYTES] ^= 1
    assert [value for _, value in values(open_log(disk))] == [b"one"]


def a_life() -> MemoryDisk:
    """Of a voter: two epochs, each begun by its leader, and a vote."""
    disk = MemoryDisk()
    log = open_log(disk, has_others=True)
    log.store_election(ElectionState(3, NodeId(2), None, is_newborn=False))
    for epoch in (2, 3):
        begin = LeaderChange(leader_id=epoch, voters=[], granting_voters=[])
        log.append_batch(control_batch(begin, base_offset=0, leader_epoch=0, timestamp=0), epoch)
        for value in (b"a", b"b"):
            log.append([value], epoch)
    log._log.flush()
    log._synced.advance(log.end_offset)
    return disk


def test_a_voter_with_others_begins_anew_with_its_vote_whatever_bit_of_its_log_was_flipped() -> None:
    whole = bytes(content(a_life()))
    starts = [position for position, _ in iter_headers(memoryview(whole))]
    last = starts[-1]
    lone = starts[0] + 15  # the first epoch of a log could have had another number
    for position in {*range(last), *range(last, last + 8), *range(last + 12, last + 16)} - {lone}:
        disk = a_life()
        content(disk)[position] ^= 0x40
        log = open_log(disk, has_others=True)
        assert log.election == ElectionState(3, NodeId(2), None, is_newborn=True), position
        assert (log.end_offset, log.is_vote_lost) == (0, False)
        damaged = bytearray(whole)
        damaged[position] ^= 0x40
        assert disk.read_bytes(f"{FIRST_SEGMENT}.damaged") == damaged
        assert open_log(disk, has_others=True).election.is_newborn, "until it has caught up"


@pytest.mark.parametrize("lost", [False, True])
def test_a_voter_that_cannot_know_its_vote_begins_anew(lost: bool) -> None:
    disk = a_life()
    if lost:
        disk.remove(f"{DIRECTORY}/quorum-state")
    else:
        disk.write_atomic(f"{DIRECTORY}/quorum-state", b"{")
    log = open_log(disk, has_others=True)
    assert log.election == ElectionState()
    assert (log.end_offset, log.is_vote_lost) == (0, True)
    assert disk.read_bytes(f"{FIRST_SEGMENT}.damaged") == content(a_life())


def test_files_are_set_aside_as_often_as_they_are_damaged() -> None:
    disk = a_life()
    for number in range(3):
        log = open_log(disk, has_others=True)
        append(log, [b"x"], [b"y"], epoch=3)
        content(disk)[70] ^= 1
        open_log(disk, has_others=True)
        names = [name for name in disk.listdir(DIRECTORY) if f"{0:020d}.log.damaged" in name]
        assert len(names) == number + 1


def test_a_start_before_anything_was_stored_is_still_the_first() -> None:
    """An empty file is no past: whoever lost its disk, and then its power, has nothing to vote by."""
    disk = MemoryDisk()
    open_log(disk, has_others=True)
    assert open_log(disk, has_others=True).election.is_newborn


def test_a_missing_segment_is_damage() -> None:
    disk = MemoryDisk()
    settings = replace(Settings(), metadata_log_segment_bytes=1_000)
    append(open_log(disk, settings=settings), *([b"x" * 300] for _ in range(12)))
    logs = [name for name in disk.listdir(DIRECTORY) if name.endswith(".log")]
    for missing in logs[:-1]:
        twin = copied(disk)
        twin.remove(f"{DIRECTORY}/{missing}")
        with pytest.raises(StorageError, match="restore the directory from a backup"):
            open_log(twin, settings=settings)


def snapshots_and_log() -> tuple[MemoryDisk, SnapshotId, SnapshotId]:
    disk = MemoryDisk()
    log = open_log(disk)
    append(log, [b"a"], [b"b"])
    first = take_snapshot(log, 1)
    append(log, [b"c"])
    second = take_snapshot(log, 1)
    append(log, [b"d"])
    assert log.start_offset == 2
    return disk, first, second


def spoil(disk: MemoryDisk, snapshot: SnapshotId) -> None:
    path = f"{DIRECTORY}/{snapshot.end_offset:020d}-{snapshot.epoch:010d}.checkpoint"
    data = bytearray(disk.read_bytes(path))
    data[len(data) // 2] ^= 1
    disk.write_atomic(path, bytes(data))


def test_one_damaged_snapshot_is_set_aside_and_the_other_will_do() -> None:
    disk, first, second = snapshots_and_log()
    spoil(disk, second)
    log = open_log(disk)
    assert (log.snapshot, values(log)) == (first, [(2, b"c"), (3, b"d")])
    disk, first, second = snapshots_and_log()
    spoil(disk, first)
    log = open_log(disk)
    assert (log.snapshot, log.start_offset, values(log)) == (second, 3, [(3, b"d")])
    assert log.first_epoch == 1


def test_without_a_sound_snapshot_the_log_is_not_enough() -> None:
    disk, first, second = snapshots_and_log()
    spoil(disk, first)
    spoil(disk, second)
    with pytest.raises(StorageError, match="no snapshot tells what came before offset 2"):
        open_log(copied(disk))
    disk, first, second = snapshots_and_log()
    spoil(disk, first)
    spoil(disk, second)
    disk.write_atomic(f"{DIRECTORY}/quorum-state", encode_election(ElectionState(1, is_newborn=False)))
    assert open_log(disk, has_others=True).election == ElectionState(1, is_newborn=True)


def test_a_snapshot_found_damaged_while_running_is_set_aside_or_the_end() -> None:
    disk, first, second = snapshots_and_log()
    log = open_log(disk)
    log.on_damaged_snapshot(second)
    assert log.snapshot == first
    with pytest.raises(StorageError, match="the only snapshot"):
        log.on_damaged_snapshot(first)


def test_no_damaged_batch_is_read() -> None:
    """Neither by whoever applies it, nor to be sent to others."""
    whole = bytes(content(a_life()))
    for position in range(len(whole)):
        disk = a_life()
        log = open_log(disk)
        content(disk)[position] ^= 0x40
        for read in (lambda log=log: log.read(0, 10_000), lambda log=log: list(log.entries(0, log.end_offset))):  # type: ignore[misc]
            try:
                data = read()
            except StorageError:
                continue
            assert isinstance(data, memoryview)
            assert whole.startswith(bytes(data[: sum(header.size_bytes for _, header in iter_headers(data))]))


def test_fetched_batches_leave_no_gap() -> None:
    source, target = open_log(MemoryDisk()), open_log(MemoryDisk())
    append(source, [b"a"], [b"b"], [b"c"])
    with pytest.raises(ApiError, match="offset 1 came where 0 was due"):
        target.append_fetched(source.read(1, 10_000))
    target.append_fetched(source.read(0, 10_000))
    assert target.end_offset == 3


def test_a_log_is_not_rolled_while_its_end_could_be_lost() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    append(log, [b"a"])
    log.append([b"b"], 1)
    taken = SnapshotId(1, 1)
    log.snapshots.write(taken, [[b"a"]], 0)
    log.snapshots.add(taken)
    log.on_snapshot()
    assert [name for name in disk.listdir(DIRECTORY) if name.endswith(".log")] == [f"{0:020d}.log"]
    log._log.flush()
    log._roll_if_owed()
    assert f"{2:020d}.log" in disk.listdir(DIRECTORY)


def test_a_full_disk_that_allows_no_new_segment_keeps_nobody_from_hearing_what_is_durable() -> None:
    disk = FaultyDisk(Random(0))
    log = open_log(disk)
    told: list[int] = []

    async def run() -> None:
        log.start(asyncio.get_running_loop(), lambda: told.append(log.durable_offset), lambda error: None)
        log.append([b"a"], 1)
        log._owes_roll = True
        disk.space_left = 0
        log._log.flush()
        assert (told, log._owes_roll) == ([1], True)
        disk.space_left = None
        log.append([b"b"], 1)
        log._log.flush()
        assert (told, log._owes_roll) == ([1, 2], False)
        log._log.on_dirty = log._log.on_durable = None  # the loop goes

    asyncio.run(run())
