"""The records of `__consumer_offsets`: what the coordinator knows, in the bytes that Apache Kafka 4.3 gives it.

Other people's tools read that topic, so the layouts are Kafka's to the byte (the JSON definitions of its
group-coordinator module). A key starts with the number of its record type, a value with its version. Type numbers that
are not listed here, such as those of share groups, are skipped: they belong to somebody else.

A million committed offsets are read when a partition is loaded, so those are read and written by hand.
"""

# ruff: noqa: RUF012 - an empty list as default is not shared: msgspec makes a new one for every message

import struct
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Annotated, Final, NamedTuple, TypeVar
from uuid import UUID

import msgspec

from bifrost.coordinator.core.environment import LogRecord
from bifrost.errors import ProtocolError
from bifrost.protocol.codec import reader, writer
from bifrost.protocol.schema import I8, I32, I64, ZERO_UUID, Message, Struct, before, since, tag


class UnreadableRecordError(ValueError):
    """A record of a type that is ours and that cannot be read: damaged, or written by a newer version."""


class OffsetCommitKey(Message, versions=range(1)):
    group: str
    topic: str
    partition: I32


class OffsetCommitValue(Message, versions=range(5), flexible=4):
    """v1 alone can carry the time of expiry that clients named before OffsetCommit v5; v4 knows the topic (KIP-848)."""

    offset: I64
    leader_epoch: Annotated[I32, since(3)] = -1
    metadata: str
    commit_timestamp: I64
    expire_timestamp: Annotated[I64, since(1), before(2)] = -1
    topic_id: Annotated[UUID, since(4), tag(0)] = ZERO_UUID


class GroupMetadataKey(Message, versions=range(1)):
    group: str


class MemberMetadata(Struct):
    member_id: str
    group_instance_id: Annotated[str | None, since(3)] = None
    client_id: str
    client_host: str
    rebalance_timeout: Annotated[I32, since(1)] = -1
    session_timeout: I32
    subscription: bytes
    assignment: bytes


class GroupMetadataValue(Message, versions=range(5), flexible=4):
    """A classic group, whole."""

    protocol_type: str
    generation: I32
    protocol: str | None
    leader: str | None
    current_state_timestamp: Annotated[I64, since(2)] = -1
    members: list[MemberMetadata]


class ConsumerGroupMetadataKey(Message, versions=range(1)):
    group_id: str


class ConsumerGroupMetadataValue(Message, versions=range(1), flexible=0):
    epoch: I32
    # Of the topics that the group reads: a change of it asks for a new assignment (KIP-1101).
    metadata_hash: Annotated[I64, tag(0)] = 0


class ConsumerGroupPartitionMetadataKey(Message, versions=range(1)):
    group_id: str


class PartitionMetadata(Struct):
    partition: I32
    racks: list[str]


class TopicMetadata(Struct):
    topic_id: UUID
    topic_name: str
    num_partitions: I32
    partition_metadata: list[PartitionMetadata] = []


class ConsumerGroupPartitionMetadataValue(Message, versions=range(1), flexible=0):
    """No longer written since 4.1: `metadata_hash` took its place (KIP-1101)."""

    topics: list[TopicMetadata]


class ConsumerGroupMemberMetadataKey(Message, versions=range(1)):
    group_id: str
    member_id: str


class ClassicProtocol(Struct):
    name: str
    metadata: bytes


class ClassicMemberMetadata(Struct):
    session_timeout_ms: I32 = 0
    supported_protocols: list[ClassicProtocol] = []


class ConsumerGroupMemberMetadataValue(Message, versions=range(1), flexible=0):
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str
    client_host: str
    subscribed_topic_names: list[str]
    subscribed_topic_regex: str | None = None
    rebalance_timeout_ms: I32 = -1
    server_assignor: str | None = None
    # Only while classic members are moved over one by one (KIP-848, "online migration"). Kafka writes the null, since
    # its default is an empty struct.
    classic_member_metadata: Annotated[ClassicMemberMetadata | None, tag(0)] = msgspec.field(
        default_factory=ClassicMemberMetadata
    )


class ConsumerGroupTargetAssignmentMetadataKey(Message, versions=range(1)):
    group_id: str


class ConsumerGroupTargetAssignmentMetadataValue(Message, versions=range(1), flexible=0):
    assignment_epoch: I32
    # When the assignor was done; 0 if an older version wrote it (KIP-1263).
    assignment_timestamp: Annotated[I64, tag(0)] = 0


class ConsumerGroupTargetAssignmentMemberKey(Message, versions=range(1)):
    group_id: str
    member_id: str


class TargetTopicPartitions(Struct):
    topic_id: UUID
    partitions: list[I32]


class ConsumerGroupTargetAssignmentMemberValue(Message, versions=range(1), flexible=0):
    topic_partitions: list[TargetTopicPartitions]


class ConsumerGroupCurrentMemberAssignmentKey(Message, versions=range(1)):
    group_id: str
    member_id: str


class CurrentTopicPartitions(Struct):
    topic_id: UUID
    partitions: list[I32]
    # The member's epoch when it got each partition; null if an older version wrote it.
    assignment_epochs: Annotated[list[I32] | None, tag(0)] = None


class ConsumerGroupCurrentMemberAssignmentValue(Message, versions=range(1), flexible=0):
    member_epoch: I32
    previous_member_epoch: I32
    state: I8
    assigned_partitions: list[CurrentTopicPartitions]
    partitions_pending_revocation: list[CurrentTopicPartitions]


class ConsumerGroupRegularExpressionKey(Message, versions=range(1)):
    group_id: str
    regular_expression: str


class ConsumerGroupRegularExpressionValue(Message, versions=range(1), flexible=0):
    """What a regular expression of a group matched, with the version of the metadata that it was tried on."""

    topics: list[str]
    version: I64
    timestamp: I64


class _Type(NamedTuple):
    number: int
    value: type[Message]
    written: int
    """The version in which Kafka 4.3 writes the value."""


_TYPES: Final[dict[type[Message], _Type]] = {
    OffsetCommitKey: _Type(1, OffsetCommitValue, 4),
    GroupMetadataKey: _Type(2, GroupMetadataValue, 3),
    ConsumerGroupMetadataKey: _Type(3, ConsumerGroupMetadataValue, 0),
    ConsumerGroupPartitionMetadataKey: _Type(4, ConsumerGroupPartitionMetadataValue, 0),
    ConsumerGroupMemberMetadataKey: _Type(5, ConsumerGroupMemberMetadataValue, 0),
    ConsumerGroupTargetAssignmentMetadataKey: _Type(6, ConsumerGroupTargetAssignmentMetadataValue, 0),
    ConsumerGroupTargetAssignmentMemberKey: _Type(7, ConsumerGroupTargetAssignmentMemberValue, 0),
    ConsumerGroupCurrentMemberAssignmentKey: _Type(8, ConsumerGroupCurrentMemberAssignmentValue, 0),
    ConsumerGroupRegularExpressionKey: _Type(16, ConsumerGroupRegularExpressionValue, 0),
}
_KEYS: Final = {found.number: key for key, found in _TYPES.items()} | {0: OffsetCommitKey}
"""Type 0 is the offset commit of Kafka 0.8: same key, same value v0."""

_OFFSET_COMMIT: Final = _TYPES[OffsetCommitKey].number
_OFFSET_COMMIT_WRITTEN: Final = _TYPES[OffsetCommitKey].written
_TOPIC_ID_TAG: Final = bytes([0, 16])
_NO_TOPIC_ID: Final = ZERO_UUID.bytes
_LONG: Final = 0x80
"""From here on, a length takes more than one byte."""

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_TWO_INT16 = struct.Struct(">hh")
_OFFSET_EPOCH_LENGTH = struct.Struct(">qiB")
_OFFSET_VALUE = struct.Struct(">hqiB")
_TIMESTAMP_TAGS = struct.Struct(">qB")

M = TypeVar("M", bound=Message)


def record(key: Message, value: Message | None) -> LogRecord:
    """The record to append; no value takes the key's last one back."""
    if isinstance(key, OffsetCommitKey):
        return _offset_record(key, value)
    write_key, write_value = _writers(type(key))
    return LogRecord(write_key(key), None if value is None else write_value(value))


@cache
def _writers(key: type[Message]) -> tuple[Callable[[Message], bytes], Callable[[Message], bytes]]:
    """How a key of this type and its value become bytes."""
    number, value, written = _TYPES[key]
    before_key, encode_key = _INT16.pack(number), writer(key, 0)
    before_value, encode_value = _INT16.pack(written), writer(value, written)

    def write_value(message: Message) -> bytes:
        assert type(message) is value, f"{type(message).__name__} under {key.__name__}"
        return before_value + encode_value(message)

    return lambda message: before_key + encode_key(message), write_value


def read_key(key: bytes) -> Message | None:
    """What the record is about; None if its type is not one of ours."""
    number = _number(key)
    if number == _OFFSET_COMMIT:
        return _read_offset_key(key)
    if number not in _KEYS:
        return None
    return _read(_KEYS[number], 0, key)


def read_value(key: Message, value: bytes) -> Message:
    """What the record says about `key`."""
    cls = _TYPES[type(key)].value
    version = _number(value)
    if version not in cls.versions:
        raise UnreadableRecordError(f"{cls.__name__} v{version}: the newest that can be read is v{cls.versions[-1]}")
    if cls is OffsetCommitValue and version == _OFFSET_COMMIT_WRITTEN:
        return _read_offset_value(value)
    return _read(cls, version, value)


def _number(buffer: bytes) -> int:
    """The number at the start: the type of a key, the version of a value."""
    if len(buffer) < _INT16.size:
        raise UnreadableRecordError(f"a key or a value of {len(buffer)} bytes")
    number: int = _INT16.unpack_from(buffer)[0]
    return number


def _read(cls: type[M], version: int, buffer: bytes) -> M:
    try:
        message, _ = reader(cls, version)(buffer, _INT16.size)
    except ProtocolError as error:
        raise UnreadableRecordError(str(error)) from error
    return message


def _offset_record(key: OffsetCommitKey, value: Message | None) -> LogRecord:
    """As `record`, in half the time; it leaves to the general writer whatever is unusual."""
    group, topic = key.group.encode(), key.topic.encode()
    encoded = b"".join(
        (
            _TWO_INT16.pack(_OFFSET_COMMIT, len(group)),
            group,
            _INT16.pack(len(topic)),
            topic,
            _INT32.pack(key.partition),
        )
    )
    if value is None:
        return LogRecord(encoded, None)
    assert isinstance(value, OffsetCommitValue), f"{type(value).__name__} under {type(key).__name__}"
    metadata = value.metadata.encode()
    if value.expire_timestamp == -1 and len(metadata) + 1 < _LONG:
        start = _OFFSET_VALUE.pack(_OFFSET_COMMIT_WRITTEN, value.offset, value.leader_epoch, len(metadata) + 1)
        topic_id = value.topic_id.bytes
        tags = b"" if topic_id == _NO_TOPIC_ID else _TOPIC_ID_TAG + topic_id
        return LogRecord(encoded, start + metadata + _TIMESTAMP_TAGS.pack(value.commit_timestamp, bool(tags)) + tags)
    version = _OFFSET_COMMIT_WRITTEN if value.expire_timestamp == -1 else 1
    return LogRecord(encoded, _INT16.pack(version) + writer(OffsetCommitValue, version)(value))


def _read_offset_key(key: bytes) -> OffsetCommitKey:
    """As the general reader, in half the time."""
    try:
        group_end = 4 + _INT16.unpack_from(key, 2)[0]
        topic_end = group_end + 2 + _INT16.unpack_from(key, group_end)[0]
        if 4 <= group_end <= topic_end - 2:
            return OffsetCommitKey(
                group=key[4:group_end].decode(),
                topic=key[group_end + 2 : topic_end].decode(),
                partition=_INT32.unpack_from(key, topic_end)[0],
            )
    except (struct.error, UnicodeDecodeError):
        pass  # the general reader says what is wrong
    return _read(OffsetCommitKey, 0, key)


def _read_offset_value(value: bytes) -> OffsetCommitValue:
    """As the general reader of v4, in a quarter of the time; it leaves to that one whatever is unusual."""
    try:
        offset, leader_epoch, length = _OFFSET_EPOCH_LENGTH.unpack_from(value, 2)
        end = 14 + length
        timestamp, tags = _TIMESTAMP_TAGS.unpack_from(value, end)
        if 0 < length < _LONG and (tags == 0 or (tags == 1 and value[end + 9 : end + 11] == _TOPIC_ID_TAG)):
            return OffsetCommitValue(
                offset=offset,
                leader_epoch=leader_epoch,
                metadata=value[15:end].decode(),
                commit_timestamp=timestamp,
                topic_id=_topic_id(value[end + 11 : end + 27]) if tags else ZERO_UUID,
            )
    except (struct.error, ValueError):
        pass  # the general reader says what is wrong
    return _read(OffsetCommitValue, _OFFSET_COMMIT_WRITTEN, value)


@lru_cache(maxsize=4096)
def _topic_id(topic_id: bytes) -> UUID:
    """To make a UUID takes longer than to read all the rest, and the same few come again and again."""
    return UUID(bytes=topic_id)
