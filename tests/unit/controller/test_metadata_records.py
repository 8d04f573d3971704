"""The bytes of the metadata log."""

from __future__ import annotations

import msgspec
import pytest
from tests.unit.controller.stand_ins import topic_id

from bifrost.controller.core.records import (
    DIED,
    UNSAID,
    BrokerDirectoriesChanged,
    BrokerFenced,
    BrokerRegistered,
    BrokerRestored,
    BrokerShuttingDown,
    BrokerUnfenced,
    BrokerUnregistered,
    ClusterCreated,
    ConfigChanged,
    Endpoint,
    MetadataRecord,
    PartitionChanged,
    PartitionCreated,
    ProducerIdsAllocated,
    SnapshotEnded,
    TopicCreated,
    TopicDeleted,
    TopicRestored,
    UnreadableChangeError,
    decode_change,
    encode_change,
    in_changes,
)

ID = bytes(range(16))

# Written by this version and to be read by every later one: change nothing here, add below.
GOLDEN: list[tuple[MetadataRecord, str]] = [
    (ClusterCreated("c"), "01919201a163"),
    (
        BrokerRegistered(3, ID, (Endpoint("PLAINTEXT", "h", 9092),), "r"),
        "0191970203c410000102030405060708090a0b0c0d0e0f9194a9504c41494e54455854a168cd2384a9504c41494e54455854a172c290",
    ),
    (BrokerFenced(3, DIED), "019193030302"),
    (BrokerUnfenced(3), "0191920403"),
    (TopicCreated("t", ID), "01919305a174c410000102030405060708090a0b0c0d0e0f"),
    (TopicDeleted(ID), "01919206c410000102030405060708090a0b0c0d0e0f"),
    (
        PartitionCreated(ID, 1, (1, 2), (1,), 1),
        "01919b07c410000102030405060708090a0b0c0d0e0f019201029101010000909090",
    ),
    (
        PartitionCreated(ID, 1, (1, 2), (1,), 1, adding=(1,), removing=(2,), directories=(ID,)),
        "01919b07c410000102030405060708090a0b0c0d0e0f0192010291010100009101910291c410000102030405060708090a0b0c0d0e0f",
    ),
    (
        PartitionChanged(ID, 1, leader=2, isr=(2,)),
        "01919908c410000102030405060708090a0b0c0d0e0f01029102c0c0c0c0",
    ),
    (
        PartitionChanged(ID, 1, replicas=(2, 1), adding=(2,), removing=()),
        "01919908c410000102030405060708090a0b0c0d0e0f01c0c0920201910290c0",
    ),
    (ConfigChanged(2, "t", "retention.ms", "5"), "0191950902a174ac726574656e74696f6e2e6d73a135"),
    (ProducerIdsAllocated(3, 1000), "0191930a03cd03e8"),
    (BrokerUnregistered(3, 7), "0191930b0307"),
    (BrokerShuttingDown(3), "0191920c03"),
    (
        BrokerRestored(3, 7, ID, (Endpoint("P", "h", 1),), None, True, -1, 9),
        "01919a0d0307c410000102030405060708090a0b0c0d0e0f9194a150a16801a9504c41494e54455854c0c3ff0990",
    ),
    (TopicRestored(ID, 9), "0191930ec410000102030405060708090a0b0c0d0e0f09"),
    (SnapshotEnded(4, 1000, 70), "0191940f04cd03e846"),
    (BrokerDirectoriesChanged(3, (ID,)), "019193120391c410000102030405060708090a0b0c0d0e0f"),
]

# Written before a record got more fields.
EARLIER: list[tuple[MetadataRecord, str]] = [
    (BrokerFenced(3, UNSAID), "0191920303"),
    (
        PartitionCreated(ID, 1, (1, 2), (1,), 1),
        "01919807c410000102030405060708090a0b0c0d0e0f019201029101010000",
    ),
    (
        PartitionChanged(ID, 1, leader=2, isr=(2,)),
        "01919608c410000102030405060708090a0b0c0d0e0f01029102c0",
    ),
    (
        BrokerRegistered(3, ID, (Endpoint("PLAINTEXT", "h", 9092),), "r"),
        "0191960203c410000102030405060708090a0b0c0d0e0f9194a9504c41494e54455854a168cd2384a9504c41494e54455854a172c2",
    ),
    (
        PartitionCreated(ID, 1, (1, 2), (1,), 1, adding=(1,), removing=(2,)),
        "01919a07c410000102030405060708090a0b0c0d0e0f01920102910101000091019102",
    ),
    (
        PartitionChanged(ID, 1, replicas=(2, 1), adding=(2,), removing=()),
        "01919808c410000102030405060708090a0b0c0d0e0f01c0c0920201910290",
    ),
    (
        BrokerRestored(3, 7, ID, (Endpoint("P", "h", 1),), None, True, -1, 9),
        "0191990d0307c410000102030405060708090a0b0c0d0e0f9194a150a16801a9504c41494e54455854c0c3ff09",
    ),
]


@pytest.mark.parametrize(("record", "stored"), EARLIER, ids=lambda value: type(value).__name__)
def test_what_was_written_before_is_still_read(record: MetadataRecord, stored: str) -> None:
    assert decode_change(bytes.fromhex(stored)) == [record]


@pytest.mark.parametrize(("record", "stored"), GOLDEN, ids=lambda value: type(value).__name__)
def test_the_format_does_not_change(record: MetadataRecord, stored: str) -> None:
    assert encode_change([record]).hex() == stored
    assert decode_change(bytes.fromhex(stored)) == [record]


def test_a_change_keeps_its_records_in_order() -> None:
    records = [record for record, _ in GOLDEN]
    assert decode_change(encode_change(records)) == records


def test_a_field_that_a_later_version_added_is_ignored() -> None:
    stored = b"\x01" + msgspec.msgpack.encode([[4, 7, "what is this"]])
    assert decode_change(stored) == [BrokerUnfenced(7)]


def test_a_reason_that_a_later_version_gives_does_not_keep_a_record_from_being_read() -> None:
    assert decode_change(encode_change([BrokerFenced(7, 99)])) == [BrokerFenced(7, 99)]


def test_a_field_that_an_earlier_version_did_not_have_takes_its_default() -> None:
    stored = b"\x01" + msgspec.msgpack.encode([[7, ID, 0, [1], [1], 1]])
    assert decode_change(stored) == [PartitionCreated(ID, 0, (1,), (1,), 1, 0, 0)]


@pytest.mark.parametrize(
    ("stored", "reason"),
    [
        (b"", "the change is empty"),
        (b"\x02\x90", "written in format 2 and this version reads format 1; start the version that wrote it"),
        (b"\x01" + msgspec.msgpack.encode([[99, 1]]), "a newer version may have written it, or it is damaged"),
        (b"\x01\x91", "a newer version may have written it, or it is damaged"),
        (b"\x01" + msgspec.msgpack.encode([[3, "seven"]]), "a newer version may have written it, or it is damaged"),
    ],
)
def test_what_cannot_be_read_is_refused(stored: bytes, reason: str) -> None:
    with pytest.raises(UnreadableChangeError) as refused:
        decode_change(stored)
    assert reason in str(refused.value)


@pytest.mark.parametrize("per_topic", [1, 3, 20])
def test_many_topics_come_in_several_changes_and_each_of_them_whole(per_topic: int) -> None:
    records: list[MetadataRecord] = []
    for number in range(40):
        records.append(TopicCreated(f"t{number}", topic_id(number)))
        records += [PartitionCreated(topic_id(number), index, (1,), (1,), 1) for index in range(per_topic)]
    changes = in_changes(records)
    assert [record for change in changes for record in change] == records
    assert len(changes) > 8
    assert all(isinstance(change[0], TopicCreated) for change in changes)


def test_what_is_about_no_single_topic_stays_in_one_change() -> None:
    fenced = [BrokerFenced(2), *(PartitionChanged(topic_id(1), index, leader=1) for index in range(100))]
    assert in_changes(fenced) == [fenced]
    assert in_changes([]) == [[]]
