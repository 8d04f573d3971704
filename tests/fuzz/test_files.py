"""Whatever a disk gives back, whoever reads a file refuses it in its own words: a node that meets a spoilt file must be
able to tell it from a bug of its own, and to go on with what is sound."""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable
from typing import NamedTuple
from uuid import UUID

import pytest

from bifrost.controller.core.records import TopicCreated, UnreadableChangeError, decode_change, encode_change
from bifrost.coordinator.core import records as group_records
from bifrost.errors import StorageError
from bifrost.log import checkpoints, producer_snapshots
from bifrost.log.epochs import LeaderEpochs
from bifrost.log.index import CorruptIndexError, IndexBuilder, OffsetIndex, TimeIndex
from bifrost.log.memory_disk import MemoryDisk
from bifrost.log.producers import ProducerStates
from bifrost.protocol.batch import CorruptBatchError, read_header
from bifrost.protocol.control_records import (
    LeaderChange,
    SnapshotFooter,
    SnapshotHeader,
    control_batch,
    read_control_batch,
)
from bifrost.protocol.records import encode_batch
from bifrost.raft.core.messages import ElectionState
from bifrost.raft.election_file import CorruptElectionError, decode_election, encode_election
from bifrost.raft.snapshot_files import read_changes
from bifrost.raft.synced_mark import SyncedMark
from bifrost.types import NodeId, TopicPartition
from tests.fuzz.cases import SECONDS, report, until
from tests.fuzz.frames import NOW
from tests.fuzz.mutation import mutate

pytestmark = pytest.mark.timeout(SECONDS + 300)


class Kind(NamedTuple):
    """A file or a part of one: what a sound one looks like, who reads it, and how that one refuses."""

    sample: Callable[[random.Random], bytes]
    read: Callable[[bytes], object]
    refusals: tuple[type[Exception], ...] = (checkpoints.CorruptCheckpointError,)


def _offsets(rng: random.Random) -> bytes:
    return checkpoints.encode_offsets({TopicPartition(f"t{n}", n): rng.randrange(1 << 40) for n in range(3)})


def _epochs(rng: random.Random) -> bytes:
    starts = sorted(rng.sample(range(1000), 3))
    return checkpoints.encode_epochs(enumerate(starts))


def _producers(rng: random.Random) -> bytes:
    states = ProducerStates()
    for producer_id in range(rng.randrange(3)):
        values = [(NOW, None, b"value", ())]
        sequenced = encode_batch(values, producer_id=producer_id, producer_epoch=0, base_sequence=rng.randrange(9))
        states.record(read_header(sequenced), rng.randrange(1 << 40))
    return producer_snapshots.encode(states)


def _index(rng: random.Random) -> IndexBuilder:
    builder = IndexBuilder(0, 0)
    for number in range(1, rng.randrange(2, 9)):
        builder.add(number * 100, number * 3, NOW + number)
    builder.finish()
    return builder


def _election(rng: random.Random) -> bytes:
    return encode_election(ElectionState(rng.randrange(9), NodeId(rng.randrange(3)), None, is_newborn=False))


def _change(rng: random.Random) -> bytes:
    return encode_change([TopicCreated(f"topic-{rng.randrange(9)}", rng.randbytes(16))])


def _commit(rng: random.Random) -> group_records.LogRecord:
    key = group_records.OffsetCommitKey(group="group", topic="topic", partition=rng.randrange(9))
    value = group_records.OffsetCommitValue(offset=rng.randrange(1 << 40), metadata="words", commit_timestamp=NOW)
    return group_records.record(key, value)


def _read_commit(data: bytes) -> None:
    """As a whole record: its key, a line, its value."""
    key, _, value = data.partition(b"\n")
    read = group_records.read_key(key)
    if read is not None:
        group_records.read_value(read, value)


def _leader_change(_: random.Random) -> bytes:
    change = LeaderChange(leader_id=1, voters=[], granting_voters=[])
    return bytes(control_batch(change, base_offset=0, leader_epoch=1, timestamp=NOW))


def _read_snapshot(data: bytes) -> None:
    disk = MemoryDisk()
    disk.makedirs("/data")
    file = disk.open("/data/snapshot", create=True)
    file.write_at(data, 0)
    for change in read_changes(file):
        decode_change(change)


def _snapshot(rng: random.Random) -> bytes:
    header = control_batch(
        SnapshotHeader(last_contained_log_timestamp=NOW), base_offset=0, leader_epoch=1, timestamp=NOW
    )
    changes = encode_batch([(NOW, None, _change(rng), ())], base_offset=1)
    footer = control_batch(SnapshotFooter(), base_offset=2, leader_epoch=1, timestamp=NOW)
    return bytes(header + changes + footer)


def _read_mark(data: bytes) -> None:
    disk = MemoryDisk()
    disk.makedirs("/data")
    disk.open("/data/synced-offset", create=True).write_at(data, 0)
    SyncedMark(disk, "/data")


KINDS = {
    "checkpoint of offsets": Kind(_offsets, checkpoints.decode_offsets),
    "leader epochs": Kind(_epochs, LeaderEpochs.decode),
    "meta.properties": Kind(
        lambda _: checkpoints.encode_properties({"version": "1", "node.id": "0", "directory.id": "A" * 22}),
        checkpoints.decode_properties,
    ),
    "partition.metadata": Kind(
        lambda rng: checkpoints.encode_topic_id(UUID(bytes=rng.randbytes(16))), checkpoints.decode_topic_id
    ),
    "clean marker": Kind(
        lambda rng: checkpoints.encode_clean_shutdown(rng.randrange(99)), checkpoints.decode_clean_shutdown, ()
    ),
    "producer snapshot": Kind(_producers, producer_snapshots.decode, (producer_snapshots.CorruptSnapshotError,)),
    "offset index": Kind(
        lambda rng: _index(rng).offsets.encode(), lambda data: OffsetIndex.decode(0, data).last(), (CorruptIndexError,)
    ),
    "time index": Kind(
        lambda rng: _index(rng).times.encode(), lambda data: TimeIndex(0, data).last(), (CorruptIndexError,)
    ),
    "votes": Kind(_election, decode_election, (CorruptElectionError,)),
    "synced mark": Kind(lambda _: bytes(12), _read_mark, ()),
    "change of metadata": Kind(_change, decode_change, (UnreadableChangeError,)),
    "snapshot of metadata": Kind(_snapshot, _read_snapshot, (StorageError, UnreadableChangeError)),
    "control record": Kind(_leader_change, read_control_batch, (CorruptBatchError,)),
    "committed offset": Kind(
        lambda rng: b"\n".join(map(bytes, filter(None, _commit(rng)))),
        _read_commit,
        (group_records.UnreadableRecordError,),
    ),
}


@pytest.mark.parametrize("name", KINDS)
def test_a_sound_file_is_read(name: str) -> None:
    """Or the fuzzer would start from rubbish."""
    for seed in range(5):
        KINDS[name].read(KINDS[name].sample(random.Random(seed)))


@pytest.mark.parametrize("name", KINDS)
def test_a_spoilt_file_is_refused_in_so_many_words(name: str) -> None:
    kind = KINDS[name]
    for rng in until(0.02):
        data = mutate(rng, kind.sample(rng), [kind.sample(rng)])
        try:
            kind.read(data)
        except kind.refusals:
            continue
        except BaseException:  # noqa: BLE001  # what it is, is what this test is about
            pytest.fail(report(traceback.format_exc(), data))
