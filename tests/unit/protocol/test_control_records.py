"""Control records: the bytes of Apache Kafka, what is passed over, and what is refused."""

from __future__ import annotations

from base64 import b64decode
from uuid import UUID

import pytest

from bifrost.protocol.batch import CorruptBatchError
from bifrost.protocol.control_records import (
    ControlRecord,
    KRaftVersion,
    LeaderChange,
    SnapshotFooter,
    SnapshotHeader,
    Voter,
    VoterId,
    Voters,
    control_batch,
    decode_control,
    encode_control,
    read_control_batch,
)
from bifrost.protocol.messages.voters import Endpoint, KRaftVersionFeature
from bifrost.protocol.records import encode_batch

ELECTED = LeaderChange(
    leader_id=3,
    voters=[VoterId(voter_id=1), VoterId(voter_id=2), VoterId(voter_id=3)],
    granting_voters=[VoterId(voter_id=1), VoterId(voter_id=3)],
)
ONE_VOTER = Voters(
    voters=[
        Voter(
            voter_id=1,
            voter_directory_id=UUID(bytes=bytes(range(16))),
            endpoints=[Endpoint(name="CONTROLLER", host="odin", port=40093)],
            kraft_version_feature=KRaftVersionFeature(min_supported_version=0, max_supported_version=1),
        )
    ]
)

WRITTEN_BY_KAFKA: list[tuple[ControlRecord, bytes]] = [
    (
        ELECTED,
        b64decode(
            "AAAAAAAAACoAAABeAAAABwLhBoOBACAAAAAAAAABi8/laAAAAAGLz+VoAP//////////////////AAAAAVgAAAAIAAAAAkQAAAAAAAMEAAAA"
            "AQAAAAACAAAAAAMAAwAAAAEAAAAAAwAAAA=="
        ),
    ),
    (
        SnapshotHeader(last_contained_log_timestamp=1_699_999_999_999),
        b64decode(
            "AAAAAAAAACoAAABHAAAABwK57YiAACAAAAAAAAABi8/laAAAAAGLz+VoAP//////////////////AAAAASoAAAAIAAAAAxYAAAAAAYvP5Wf/"
            "AAA="
        ),
    ),
    (
        SnapshotFooter(),
        b64decode(
            "AAAAAAAAACoAAAA/AAAABwKPZgjmACAAAAAAAAABi8/laAAAAAGLz+VoAP//////////////////AAAAARoAAAAIAAAABAYAAAAA"
        ),
    ),
    (
        KRaftVersion(kraft_version=1),
        b64decode(
            "AAAAAAAAACoAAABBAAAABwKonFWGACAAAAAAAAABi8/laAAAAAGLz+VoAP//////////////////AAAAAR4AAAAIAAAABQoAAAABAAA="
        ),
    ),
    (
        ONE_VOTER,
        b64decode(
            "AAAAAAAAACoAAABuAAAABwLD21E1ACAAAAAAAAABi8/laAAAAAGLz+VoAP//////////////////AAAAAXgAAAAIAAAABmQAAAIAAAABAAEC"
            "AwQFBgcICQoLDA0ODwILQ09OVFJPTExFUgVvZGlunJ0AAAAAAQAAAAA="
        ),
    ),
]
"""As Kafka 4.3's own MemoryRecords writes them, at offset 42 in epoch 7."""


@pytest.mark.parametrize(("record", "batch"), WRITTEN_BY_KAFKA, ids=lambda value: type(value).__name__)
def test_batches_are_those_of_kafka(record: ControlRecord, batch: bytes) -> None:
    ours = control_batch(record, base_offset=42, leader_epoch=7, timestamp=1_700_000_000_000)
    assert ours == batch
    assert read_control_batch(ours) == [record]


def test_an_epoch_may_begin_with_several_records_in_one_batch() -> None:
    records: list[ControlRecord] = [ELECTED, KRaftVersion(kraft_version=1), ONE_VOTER]
    batch = encode_batch([(0, *encode_control(record), ()) for record in records], control=True)
    assert read_control_batch(batch) == records


def test_types_that_are_not_the_quorums_are_passed_over() -> None:
    commit, future = (0, b"\0\0\0\1", b"\0\0\0\0\0\7", ()), (0, b"\0\0\0\x63", None, ())
    batch = encode_batch([commit, (0, *encode_control(ELECTED), ()), future], control=True)
    assert read_control_batch(batch) == [ELECTED]


def test_a_later_version_of_the_key_starts_as_this_one_does() -> None:
    key, value = encode_control(ELECTED)
    assert decode_control(b"\0\1" + key[2:] + b"more", value) == ELECTED


def test_directories_travel_from_version_1_on() -> None:
    voter = VoterId(voter_id=1, voter_directory_id=UUID(int=5))
    elected = LeaderChange(leader_id=1, voters=[voter], granting_voters=[])
    assert decode_control(*encode_control(elected, version=1)) == elected
    bare = LeaderChange(leader_id=1, voters=[VoterId(voter_id=1)], granting_voters=[])
    assert decode_control(*encode_control(elected)) == bare


@pytest.mark.parametrize(
    ("key", "value", "complaint"),
    [
        (None, b"\0\0", "without a type"),
        (b"\0\0\0", b"\0\0", "without a type"),
        (b"\xff\xff\0\2", b"\0\0", "key has version -1"),
        (b"\0\0\0\4", None, "SnapshotFooter without a version"),
        (b"\0\0\0\4", b"\0", "SnapshotFooter without a version"),
        (b"\0\0\0\4", b"\0\1\0", "SnapshotFooter of version 1, known are those up to 0"),
        (b"\0\0\0\4", b"\xff\xff\0", "SnapshotFooter of version -1"),
        (b"\0\0\0\4", b"\0\0\0more", "4 stray bytes after a SnapshotFooter"),
        (b"\0\0\0\3", b"\0\0\0\0\0", "SnapshotHeader v0"),
    ],
)
def test_what_cannot_be_read_is_refused(key: bytes | None, value: bytes | None, complaint: str) -> None:
    with pytest.raises(CorruptBatchError, match=complaint):
        decode_control(key, value)


def test_a_batch_of_changes_is_not_one_of_control_records() -> None:
    with pytest.raises(CorruptBatchError, match="no control records"):
        read_control_batch(encode_batch([(0, *encode_control(ELECTED), ())]))


def test_a_damaged_batch_is_refused() -> None:
    batch = control_batch(ELECTED, base_offset=0, leader_epoch=1, timestamp=0)
    batch[-1] ^= 1
    with pytest.raises(CorruptBatchError, match="checksum"):
        read_control_batch(batch)
