"""The bytes of the metadata log."""

from __future__ import annotations

import msgspec
import pytest

from bifrost.controller.core.records import (
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
)

ID = bytes(range(16))

# Written by this version and to be read by every later one: change nothing here, add below.
GOLDEN: list[tuple[MetadataRecord, str]] = [
    (ClusterCreated("c"), "01919201a163"),
    (
        BrokerRegistered(3, ID, (Endpoint("PLAINTEXT", "h", 9092),), "r"),
        "0191960203c410000102030405060708090a0b0c0d0e0f9194a9504c41494e54455854a168cd2384a9504c41494e54455854a172c2",
    ),
    (BrokerFenced(3), "0191920303"),
    (BrokerUnfenced(3), "0191920403"),
    (TopicCreated("t", ID), "01919305a174c410000102030405060708090a0b0c0d0e0f"),
    (TopicDeleted(ID), "01919206c410000102030405060708090a0b0c0d0e0f"),
    (
        PartitionCreated(ID, 1, (1, 2), (1,), 1),
        "01919807c410000102030405060708090a0b0c0d0e0f019201029101010000",
    ),
    (
        PartitionChanged(ID, 1, leader=2, isr=(2,)),
        "01919608c410000102030405060708090a0b0c0d0e0f01029102c0",
    ),
    (ConfigChanged(2, "t", "retention.ms", "5"), "0191950902a174ac726574656e74696f6e2e6d73a135"),
    (ProducerIdsAllocated(3, 1000), "0191930a03cd03e8"),
    (BrokerUnregistered(3, 7), "0191930b0307"),
    (BrokerShuttingDown(3), "0191920c03"),
    (
        BrokerRestored(3, 7, ID, (Endpoint("P", "h", 1),), None, True, -1),
        "0191980d0307c410000102030405060708090a0b0c0d0e0f9194a150a16801a9504c41494e54455854c0c3ff",
    ),
    (TopicRestored(ID, 9), "0191930ec410000102030405060708090a0b0c0d0e0f09"),
    (SnapshotEnded(4, 1000, 70), "0191940f04cd03e846"),
]


@pytest.mark.parametrize(("record", "stored"), GOLDEN, ids=lambda value: type(value).__name__)
def test_the_format_does_not_change(record: MetadataRecord, stored: str) -> None:
    assert encode_change([record]).hex() == stored
    assert decode_change(bytes.fromhex(stored)) == [record]


def test_a_change_keeps_its_records_in_order() -> None:
    records = [record for record, _ in GOLDEN]
    assert decode_change(encode_change(records)) == records


def test_a_field_that_a_later_version_added_is_ignored() -> None:
    stored = b"\x01" + msgspec.msgpack.encode([[3, 7, "what is this"]])
    assert decode_change(stored) == [BrokerFenced(7)]


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
