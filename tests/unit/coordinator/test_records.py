"""The records of the coordinator's log, against bytes that Apache Kafka 4.3's own serde wrote."""

from __future__ import annotations

import struct
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bifrost.coordinator.core.records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    CurrentTopicPartitions,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    TargetTopicPartitions,
    TopicMetadata,
    UnreadableRecordError,
    read_key,
    read_value,
    record,
)
from bifrost.protocol.codec import reader
from bifrost.protocol.schema import ZERO_UUID, Message

TOPIC_ID = UUID(bytes=bytes(range(1, 17)))
NOW = 1_700_000_000_123
COMMIT_KEY = OffsetCommitKey(group="grüppe", topic="t", partition=7)
COMMIT = OffsetCommitValue(offset=5_000_000_000, leader_epoch=3, metadata="über", commit_timestamp=NOW)
MEMBER = MemberMetadata(
    member_id="m-1",
    group_instance_id="i",
    client_id="c",
    client_host="/127.0.0.1",
    rebalance_timeout=300_000,
    session_timeout=45_000,
    subscription=b"\1\2",
    assignment=b"\3",
)
GROUP = GroupMetadataValue(
    protocol_type="consumer",
    generation=4,
    protocol="range",
    leader="m-1",
    current_state_timestamp=NOW,
    members=[MEMBER],
)

WRITTEN: list[tuple[Message, Message, str, str]] = [
    (
        COMMIT_KEY,
        COMMIT,
        "000100076772c3bc70706500017400000007",
        "0004000000012a05f2000000000306c3bc6265720000018bcfe5687b00",
    ),
    (
        COMMIT_KEY,
        OffsetCommitValue(
            offset=5_000_000_000, leader_epoch=3, metadata="über", commit_timestamp=NOW, topic_id=TOPIC_ID
        ),
        "000100076772c3bc70706500017400000007",
        "0004000000012a05f2000000000306c3bc6265720000018bcfe5687b0100100102030405060708090a0b0c0d0e0f10",
    ),
    (
        COMMIT_KEY,
        OffsetCommitValue(offset=5, metadata="", commit_timestamp=NOW, expire_timestamp=1_700_000_099_999),
        "000100076772c3bc70706500017400000007",
        "0001000000000000000500000000018bcfe5687b0000018bcfe6ee9f",
    ),
    (
        GroupMetadataKey(group="g"),
        GROUP,
        "0002000167",
        (
            "00030008636f6e73756d657200000004000572616e676500036d2d310000018bcfe5687b0000000100036d2d31000169000163000a"
            "2f3132372e302e302e31000493e00000afc80000000201020000000103"
        ),
    ),
    (
        ConsumerGroupMetadataKey(group_id="g"),
        ConsumerGroupMetadataValue(epoch=9, metadata_hash=-5),
        "0003000167",
        "000000000009010008fffffffffffffffb",
    ),
    (
        ConsumerGroupMetadataKey(group_id="g"),
        ConsumerGroupMetadataValue(epoch=9),
        "0003000167",
        "00000000000900",
    ),
    (
        ConsumerGroupPartitionMetadataKey(group_id="g"),
        ConsumerGroupPartitionMetadataValue(
            topics=[TopicMetadata(topic_id=TOPIC_ID, topic_name="t", num_partitions=3)]
        ),
        "0004000167",
        "0000020102030405060708090a0b0c0d0e0f10027400000003010000",
    ),
    (
        ConsumerGroupMemberMetadataKey(group_id="g", member_id="m"),
        ConsumerGroupMemberMetadataValue(
            instance_id="i",
            client_id="c",
            client_host="/h",
            subscribed_topic_names=["a", "b"],
            subscribed_topic_regex="r.*",
            rebalance_timeout_ms=45_000,
            server_assignor="range",
            classic_member_metadata=ClassicMemberMetadata(
                session_timeout_ms=10, supported_protocols=[ClassicProtocol(name="range", metadata=b"\1")]
            ),
        ),
        "000500016700016d",
        "00000269000263032f68030261026204722e2a0000afc80672616e6765010010010000000a020672616e676502010000",
    ),
    (
        ConsumerGroupMemberMetadataKey(group_id="g", member_id="m"),
        ConsumerGroupMemberMetadataValue(
            instance_id="",
            rack_id="",
            client_id="c",
            client_host="/h",
            subscribed_topic_names=[],
            subscribed_topic_regex="",
            server_assignor="",
        ),
        "000500016700016d",
        "000001010263032f680101ffffffff0100",
    ),
    (
        ConsumerGroupTargetAssignmentMetadataKey(group_id="g"),
        ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=9, assignment_timestamp=NOW),
        "0006000167",
        "0000000000090100080000018bcfe5687b",
    ),
    (
        ConsumerGroupTargetAssignmentMemberKey(group_id="g", member_id="m"),
        ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=[TargetTopicPartitions(topic_id=TOPIC_ID, partitions=[0, 2])]
        ),
        "000700016700016d",
        "0000020102030405060708090a0b0c0d0e0f100300000000000000020000",
    ),
    (
        ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="m"),
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=9,
            previous_member_epoch=8,
            state=1,
            assigned_partitions=[
                CurrentTopicPartitions(topic_id=TOPIC_ID, partitions=[0, 2], assignment_epochs=[9, 8])
            ],
            partitions_pending_revocation=[CurrentTopicPartitions(topic_id=TOPIC_ID, partitions=[3])],
        ),
        "000800016700016d",
        (
            "0000000000090000000801020102030405060708090a0b0c0d0e0f10030000000000000002010009030000000900000008020102030"
            "405060708090a0b0c0d0e0f1002000000030000"
        ),
    ),
    (
        ConsumerGroupRegularExpressionKey(group_id="g", regular_expression="r.*"),
        ConsumerGroupRegularExpressionValue(topics=["r1", "r2"], version=12, timestamp=NOW),
        "00100001670003722e2a",
        "000003037231037232000000000000000c0000018bcfe5687b00",
    ),
]
written = pytest.mark.parametrize(("key", "value", "key_hex", "value_hex"), WRITTEN)


@written
def test_a_record_is_written_as_kafka_writes_it(key: Message, value: Message, key_hex: str, value_hex: str) -> None:
    made = record(key, value)
    assert made.key.hex() == key_hex
    assert made.value is not None
    assert made.value.hex() == value_hex


@written
def test_a_record_is_read_back(key: Message, value: Message, key_hex: str, value_hex: str) -> None:
    assert read_key(bytes.fromhex(key_hex)) == key
    assert read_value(key, bytes.fromhex(value_hex)) == value


@written
def test_a_record_without_a_value_is_a_tombstone(key: Message, value: Message, key_hex: str, value_hex: str) -> None:
    assert record(key, None) == (bytes.fromhex(key_hex), None)


@pytest.mark.parametrize(
    ("key", "value", "value_hex"),
    [
        (COMMIT_KEY, COMMIT, "0003000000012a05f200000000030005c3bc6265720000018bcfe5687b"),
        (
            GroupMetadataKey(group="g"),
            GROUP,
            (
                "000409636f6e73756d6572000000040672616e6765046d2d310000018bcfe5687b02046d2d31026902630b2f3132372e302e302e31"
                "000493e00000afc803010202030000"
            ),
        ),
    ],
)
def test_other_versions_of_a_value_are_read(key: Message, value: Message, value_hex: str) -> None:
    assert read_value(key, bytes.fromhex(value_hex)) == value


def test_an_offset_commit_of_the_oldest_type_is_read_as_any_other() -> None:
    key = read_key(bytes.fromhex("000000016700017400000001"))
    assert key == OffsetCommitKey(group="g", topic="t", partition=1)
    value = read_value(key, bytes.fromhex("0000000000000000000500016d0000000000000006"))
    assert value == OffsetCommitValue(offset=5, metadata="m", commit_timestamp=6)


@pytest.mark.parametrize("number", [9, 10, 15, 17, 300, -1])
def test_records_of_unknown_types_are_skipped(number: int) -> None:
    assert read_key(struct.pack(">h", number) + b"whatever") is None


@written
def test_a_damaged_record_raises_one_clear_error(key: Message, value: Message, key_hex: str, value_hex: str) -> None:
    for end in range(len(key_hex) // 2):
        with pytest.raises(UnreadableRecordError):
            read_key(bytes.fromhex(key_hex)[:end])
    for end in range(len(value_hex) // 2):
        with pytest.raises(UnreadableRecordError):
            read_value(key, bytes.fromhex(value_hex)[:end])


def test_a_value_of_a_newer_version_is_refused_by_name() -> None:
    with pytest.raises(UnreadableRecordError, match="OffsetCommitValue v5"):
        read_value(COMMIT_KEY, struct.pack(">h", 5) + bytes(40))
    with pytest.raises(UnreadableRecordError, match="ConsumerGroupMetadataValue v-1"):
        read_value(ConsumerGroupMetadataKey(group_id="g"), struct.pack(">h", -1) + bytes(40))


commits = st.builds(
    OffsetCommitValue,
    offset=st.integers(-1, (1 << 63) - 1),
    leader_epoch=st.integers(-1, (1 << 31) - 1),
    metadata=st.text(max_size=300),
    commit_timestamp=st.integers(0, 1 << 60),
    topic_id=st.just(ZERO_UUID) | st.uuids(),
)


@given(commits)
def test_the_quick_reader_of_commits_agrees_with_the_declared_one(value: OffsetCommitValue) -> None:
    encoded = record(COMMIT_KEY, value).value
    assert encoded is not None
    assert read_value(COMMIT_KEY, encoded) == reader(OffsetCommitValue, 4)(encoded, 2)[0] == value


@given(st.binary(max_size=60))
def test_noise_behind_the_number_raises_nothing_but_the_clear_error(noise: bytes) -> None:
    for number in (0, 1, 2, 3, 8, 16):
        try:
            read_key(struct.pack(">h", number) + noise)
        except UnreadableRecordError:
            pass
    for version in range(5):
        try:
            value = read_value(COMMIT_KEY, struct.pack(">h", version) + noise)
        except UnreadableRecordError:
            continue
        assert value == reader(OffsetCommitValue, version)(noise, 0)[0]


@given(group=st.text(max_size=40), topic=st.text(max_size=40), partition=st.integers(0, (1 << 31) - 1))
def test_keys_of_commits_round_trip(group: str, topic: str, partition: int) -> None:
    key = OffsetCommitKey(group=group, topic=topic, partition=partition)
    assert read_key(record(key, None).key) == key
