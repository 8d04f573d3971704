"""A member whose power fails at any step of a snapshot, of a log that begins anew, or of setting files aside: whatever
was durable is there afterwards, and a member that has begun anew never takes itself for one that has not."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from bifrost.log.disk import Disk
from bifrost.protocol.control_records import LeaderChange, control_batch
from bifrost.raft.core.messages import ElectionState, SnapshotId
from bifrost.raft.storage import RaftStorage
from bifrost.raft.synced_mark import SYNCED_FILE
from bifrost.settings import Settings
from bifrost.types import NodeId
from tests.sim.disk import FaultyDisk

DIRECTORY = "data/__cluster_metadata-0"
VOTE = ElectionState(1, NodeId(2), None, is_newborn=False)


class PowerCut(BaseException):
    """At a moment that nobody is prepared for."""


class StillClock:
    def now_ms(self) -> int:
        return 1_700_000_000_000


def open_storage(disk: Disk) -> RaftStorage:
    return RaftStorage.open(disk, "data", Settings(), StillClock(), has_others=True)


class Story:
    """What a member does to its disk, and what it may rely on."""

    def __init__(self, seed: int) -> None:
        self.disk = FaultyDisk(Random(seed))
        self.disk.makedirs("data")
        self.disk.sync_directory("/")
        self.written: list[bytes] = []
        self.durable = 0
        self.storage = open_storage(self.disk)
        self.storage.store_election(VOTE)
        begin = LeaderChange(leader_id=1, voters=[], granting_voters=[])
        self.storage.append_batch(control_batch(begin, base_offset=0, leader_epoch=0, timestamp=0), 1)
        self.written.append(b"")
        for _ in range(3):
            self.append()

    def append(self, *, sync: bool = True) -> None:
        value = b"value %d" % len(self.written)
        self.written.append(value)
        self.storage.append([value], 1)
        if sync:
            self._flush()
            self.durable = len(self.written)

    def snapshot(self) -> None:
        """As the node takes one, while more is appended."""
        end = self.durable
        taken = SnapshotId(end, self.storage.epoch_before(end))
        self.storage.snapshots.write(taken, [[value] for value in self.written[:end]], 0)
        self.storage.snapshots.add(taken)
        self.storage.on_snapshot()
        self.storage._roll_if_owed()

    def receive(self) -> None:
        """A leader is far ahead, and sends what it has; what was here beyond the commit may go."""
        ahead = len(self.written) + 20
        self.written += [b"value %d" % number for number in range(len(self.written), ahead)]
        sent = SnapshotId(ahead, 1)
        unfinished = self.storage.snapshots.receive(sent)
        self.storage.snapshots.write(sent, [[value] for value in self.written], 0)
        unfinished.check()
        self.storage.snapshots.add(sent)
        self.storage.restart_behind(sent)
        self._flush()
        self.durable = ahead

    def _flush(self) -> None:
        self.storage._log.flush()
        self.storage._synced.advance(self.storage.durable_offset)

    def known(self) -> list[bytes]:
        """What a start makes of the disk."""
        storage = open_storage(self.disk)
        known: list[bytes] = [] if storage.snapshot is None else list(storage.snapshots.changes(storage.snapshot))
        if not known and storage.end_offset:
            known = [b""]  # the record that begins the epoch is the quorum's own
        entries = storage.entries(len(known), storage.end_offset)
        known += [one.value for one in entries if isinstance(one.value, bytes)]
        return known


def cut_at(story: Story, step: int, work: Callable[[], None]) -> bool:
    """Whether the power failed before the work was done."""
    left = step

    def strike(_operation: str, _path: str) -> bool:
        nonlocal left
        left -= 1
        if left < 0:
            raise PowerCut
        return False

    story.disk.fail_on = strike
    try:
        work()
    except PowerCut:
        return True
    finally:
        story.disk.fail_on = None
    return False


def snapshots_and_appends(story: Story) -> None:
    for number in range(3):
        story.append()
        story.append(sync=number != 1)
        story.snapshot()
        story.append()


def a_snapshot_from_the_leader(story: Story) -> None:
    story.snapshot()
    story.append()
    story.receive()
    story.append()


@pytest.mark.parametrize("work", [snapshots_and_appends, a_snapshot_from_the_leader])
@pytest.mark.parametrize("seed", range(2))
def test_what_was_durable_is_there_wherever_the_power_fails(seed: int, work: Callable[[Story], None]) -> None:
    step, cut = 0, True
    while cut:
        story = Story(seed * 1000 + step)
        cut = cut_at(story, step, lambda story=story: work(story))  # type: ignore[misc]
        for _ in range(2):
            story.disk.crash(power=True)
            known = story.known()
            assert known == story.written[: len(known)]
            assert len(known) >= story.durable, f"step {step}"
        assert open_storage(story.disk).election.is_newborn is False
        assert not [name for name in story.disk.listdir(DIRECTORY) if "damaged" in name], f"step {step}"
        step += 1
    assert step > 30


def flip(disk: FaultyDisk, name: str, position: int) -> None:
    data = bytearray(disk.read_bytes(f"{DIRECTORY}/{name}"))
    data[position] ^= 1
    disk.write_atomic(f"{DIRECTORY}/{name}", bytes(data))
    disk.open(f"{DIRECTORY}/{SYNCED_FILE}").sync()  # as a kernel does in time


@pytest.mark.parametrize("name", [f"{0:020d}.log", "quorum-state"])
@pytest.mark.parametrize("seed", range(2))
def test_whoever_begins_anew_knows_it_wherever_the_power_fails(seed: int, name: str) -> None:
    step, cut = 0, True
    while cut:
        story = Story(seed * 1000 + step)
        flip(story.disk, name, 20)
        cut = cut_at(story, step, lambda story=story: open_storage(story.disk))  # type: ignore[misc, return-value]
        for _ in range(2):
            story.disk.crash(power=True)
            storage = open_storage(story.disk)
            assert storage.election.is_newborn, f"step {step}"
            assert storage.election.voted_for == (2 if name != "quorum-state" else None), f"step {step}"
        kept = b"".join(
            story.disk.read_bytes(f"{DIRECTORY}/{file}") for file in story.disk.listdir(DIRECTORY) if ".log" in file
        )
        assert all(value in kept for value in story.written), f"step {step}"
        step += 1
    assert step > 10
