"""The control records of the metadata log: who leads, who votes, where a snapshot begins and ends.

They lie in the log between the changes of metadata, in batches of their own that carry the control bit, and belong to
the quorum alone: whoever applies metadata passes them over. The bytes are Kafka's. A key is a version, always 0, and a
type; a value starts with its own version.

Commit and abort markers of transactions are control records too. They are not for this log, and are passed over here
as any type is that somebody invents later (Kafka: ControlRecordType).
"""

import struct
from typing import Annotated, Final, TypeAlias
from uuid import UUID

from bifrost.errors import ProtocolError
from bifrost.protocol.batch import CorruptBatchError, read_header
from bifrost.protocol.codec import reader, writer
from bifrost.protocol.messages.voters import Endpoint, KRaftVersionFeature
from bifrost.protocol.records import decode_batch, encode_batch
from bifrost.protocol.schema import I16, I32, I64, ZERO_UUID, Message, Struct, since
from bifrost.protocol.wire import Buffer

_KEY = struct.Struct(">hh")
_VERSION = struct.Struct(">h")


class VoterId(Struct):
    voter_id: I32
    voter_directory_id: Annotated[UUID, since(1)] = ZERO_UUID


class LeaderChange(Message, versions=range(2), flexible=0):
    """The first record of an epoch: it is committed, and with it everything below, once a majority has it (KIP-595).

    v1 names voters by directory too (KIP-853), but Kafka 4.3 neither writes nor reads it.
    """

    leader_id: I32
    voters: list[VoterId]
    granting_voters: list[VoterId]


class SnapshotHeader(Message, versions=range(1), flexible=0):
    """The first record of a snapshot (KIP-630): how old the newest change in it is."""

    last_contained_log_timestamp: I64


class SnapshotFooter(Message, versions=range(1), flexible=0):
    """The last record of a snapshot: without it, the file was not written to its end."""


class KRaftVersion(Message, versions=range(1), flexible=0):
    """Which protocol the quorum speaks from here on: 0 knows a fixed set of voters, 1 the records below (KIP-853)."""

    kraft_version: I16


class Voter(Struct):
    voter_id: I32
    voter_directory_id: UUID
    endpoints: list[Endpoint]
    kraft_version_feature: KRaftVersionFeature


class Voters(Message, versions=range(1), flexible=0):
    """Who votes from here on, committed or not (KIP-853)."""

    voters: list[Voter]


ControlRecord: TypeAlias = LeaderChange | SnapshotHeader | SnapshotFooter | KRaftVersion | Voters

LEADER_CHANGE: Final = 2
SNAPSHOT_HEADER: Final = 3
SNAPSHOT_FOOTER: Final = 4
KRAFT_VERSION: Final = 5
KRAFT_VOTERS: Final = 6

_CLASSES: Final[dict[int, type[ControlRecord]]] = {
    LEADER_CHANGE: LeaderChange,
    SNAPSHOT_HEADER: SnapshotHeader,
    SNAPSHOT_FOOTER: SnapshotFooter,
    KRAFT_VERSION: KRaftVersion,
    KRAFT_VOTERS: Voters,
}
_TYPES: Final = {cls: number for number, cls in _CLASSES.items()}


def encode_control(record: ControlRecord, *, version: int = 0) -> tuple[bytes, bytes]:
    """Key and value of a control record."""
    cls = type(record)
    return _KEY.pack(0, _TYPES[cls]), _VERSION.pack(version) + writer(cls, version)(record)


def decode_control(key: bytes | None, value: bytes | None) -> ControlRecord | None:
    """The control record, or None if its type is none of those above. Raises `CorruptBatchError`."""
    # A later version of the key may be longer, but starts as this one does.
    if key is None or len(key) < _KEY.size:
        raise CorruptBatchError("a control record without a type")
    key_version, number = _KEY.unpack_from(key)
    if key_version < 0:
        raise CorruptBatchError(f"a control record whose key has version {key_version}")
    cls = _CLASSES.get(number)
    if cls is None:
        return None
    if value is None or len(value) < _VERSION.size:
        raise CorruptBatchError(f"a {cls.__name__} without a version")
    (version,) = _VERSION.unpack_from(value)
    if version not in cls.versions:
        raise CorruptBatchError(f"a {cls.__name__} of version {version}, known are those up to {cls.versions[-1]}")
    try:
        record, end = reader(cls, version)(value, _VERSION.size)
    except ProtocolError as error:
        raise CorruptBatchError(str(error)) from error
    if end != len(value):
        raise CorruptBatchError(f"{len(value) - end} stray bytes after a {cls.__name__}")
    return record


def control_batch(
    record: ControlRecord, *, base_offset: int, leader_epoch: int, timestamp: int, version: int = 0
) -> bytearray:
    """A whole batch with this record alone in it. No producer sent it, and it belongs to no transaction."""
    key, value = encode_control(record, version=version)
    return encode_batch([(timestamp, key, value, ())], base_offset=base_offset, leader_epoch=leader_epoch, control=True)


def read_control_batch(buffer: Buffer) -> list[ControlRecord]:
    """What the control batch that starts the buffer says. Raises `CorruptBatchError`.

    Ours hold one record; Kafka begins an epoch with several in one batch.
    """
    if not read_header(buffer).is_control:
        raise CorruptBatchError("the batch holds no control records")
    found = (decode_control(record.key, record.value) for record in decode_batch(buffer))
    return [record for record in found if record is not None]
