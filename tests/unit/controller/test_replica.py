"""An image that follows a log: all of it in order, the difference to whoever subscribed, and never with a hole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from tests.unit.controller.stand_ins import CLUSTER, MemoryLog, apply, cluster_of, create, registration, topic_id

from bifrost.controller.core.brokers import register_broker
from bifrost.controller.core.cluster import open_cluster
from bifrost.controller.core.delta import Delta
from bifrost.controller.core.image import MetadataImage
from bifrost.controller.core.records import (
    ClusterCreated,
    ConfigChanged,
    MetadataRecord,
    TopicCreated,
    TopicDeleted,
    encode_change,
)
from bifrost.controller.core.snapshot import image_records
from bifrost.controller.core.topics import NewTopic
from bifrost.controller.replica import MetadataReplica
from bifrost.errors import StorageError
from bifrost.raft.metadata_log import Entry, EpochBegun


def log_of(*changes: Sequence[MetadataRecord]) -> MemoryLog:
    log = MemoryLog()
    log.values += map(encode_change, changes)
    return log


def follow(log: MemoryLog) -> tuple[MetadataReplica, list[Delta]]:
    replica, told = MetadataReplica(log), list[Delta]()
    replica.subscribe(lambda _, delta: told.append(delta))
    return replica, told


def founded() -> list[Sequence[MetadataRecord]]:
    empty = MetadataImage()
    opened = open_cluster(empty, CLUSTER).records
    apply(empty, opened)
    return [opened, register_broker(empty, registration(1)).records]


def test_only_what_is_committed_is_seen_and_all_of_it_once() -> None:
    replica, told = follow(log_of(*founded()))
    image = replica.image
    replica.on_commit(1)
    assert (image.cluster_id, image.brokers, told) == (CLUSTER, {}, []), "an id changes nothing that is acted on"
    replica.on_commit(2)
    assert [list(delta.brokers) for delta in told] == [[1]]
    assert (image.offset, replica.next_offset) == (1, 2)


def test_a_change_that_cannot_be_read_leaves_no_hole() -> None:
    log = log_of(*founded())
    log.values.append(b"\x07whatever")
    replica, _ = follow(log)
    with pytest.raises(StorageError, match=r"memory: the change at offset 2: it is written in format 7"):
        replica.on_commit(3)


def snapshot_of(image: MetadataImage) -> list[bytes]:
    return [encode_change(records) for records in image_records(image)]


def test_a_snapshot_replaces_what_is_there_and_tells_the_difference() -> None:
    before = cluster_of(1, 2)
    create(before, NewTopic("gone"), NewTopic("stays"), NewTopic("grows"))
    after = before.copy()
    apply(after, [TopicDeleted(after.topics["gone"].topic_id)])
    apply(after, [ConfigChanged(2, "stays", "retention.ms", "5")])
    apply(after, register_broker(after, registration(3)).records)
    create(after, NewTopic("new", 2))
    replica, told = follow(MemoryLog())
    image = replica.image
    replica.on_snapshot(snapshot_of(before), before.offset + 1)
    replica.on_snapshot(snapshot_of(after), after.offset + 1)
    assert image == after
    assert image is replica.image, "whoever keeps the image keeps the right one"
    delta = told[1]
    assert [topic.name for topic in delta.topics_deleted.values()] == ["gone"]
    assert [topic.name for topic in delta.topics_created.values()] == ["new"]
    assert {change.topic.name for change in delta.partitions.values()} == {"new"}
    assert list(delta.configs) == [(2, "stays")]
    assert list(delta.brokers) == [3]


def test_a_snapshot_that_is_not_whole_is_refused() -> None:
    image = cluster_of(1)
    create(image, NewTopic("t"))
    whole = [encode_change([record]) for records in image_records(image) for record in records]
    replica, told = follow(MemoryLog())
    with pytest.raises(StorageError, match="no end"):
        replica.on_snapshot(whole[:-1], image.offset + 1)
    assert told == []


class MixedLog:
    """Changes, and begins of epochs between them."""

    name = "mixed"

    def __init__(self, *values: bytes | EpochBegun) -> None:
        self._values = values

    def entries(self, start: int, end: int) -> Iterator[Entry]:
        for offset in range(start, end):
            yield Entry(offset, 0, self._values[offset])


@pytest.mark.parametrize("bytes_max", [None, 1, 60, 1000])
def test_a_witness_sees_everything_once_and_before_it_is_applied_however_it_is_sliced(bytes_max: int | None) -> None:
    topics = [encode_change([TopicCreated(f"t{number}", topic_id(number))]) for number in range(4)]
    first = encode_change([ClusterCreated(CLUSTER)])
    log = MixedLog(EpochBegun(1, 1), first, topics[0], EpochBegun(2, 2), topics[1], EpochBegun(3, 3), *topics[2:])
    replica = MetadataReplica(log)
    seen: list[tuple[int, int]] = []

    class Seer:
        def on_change(self, image: MetadataImage, _change: object, *, offset: int, at_ms: int) -> None:
            seen.append((offset, len(image.topics)))

        def on_restored(self, next_offset: int) -> None:
            assert next_offset == 0

    replica.let_witness(Seer())
    calls = 0
    while replica.next_offset < 8:
        assert replica.on_commit(8, bytes_max) == replica.next_offset
        calls += 1
    assert seen == [(0, 0), (1, 0), (2, 0), (3, 1), (4, 1), (5, 2), (6, 2), (7, 3)]
    assert calls > 1 or bytes_max in (None, 1000)


def test_what_was_left_is_not_read_again_unless_there_is_more() -> None:
    values = [encode_change([TopicCreated(f"t{number}", topic_id(number))]) for number in range(6)]
    log = MixedLog(encode_change([ClusterCreated(CLUSTER)]), *values)
    reads: list[tuple[int, int]] = []
    entries = log.entries
    log.entries = lambda start, end: reads.append((start, end)) or entries(start, end)  # type: ignore[method-assign, func-returns-value]
    replica = MetadataReplica(log)
    assert [replica.on_commit(5, 1) for _ in range(3)] == [1, 2, 3]
    assert reads == [(0, 5)]
    assert [replica.on_commit(7, 1) for _ in range(4)] == [4, 5, 6, 7]
    assert reads == [(0, 5), (3, 7)]
    assert sorted(replica.image.topics) == [f"t{number}" for number in range(6)]
