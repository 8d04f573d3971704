"""The records of the metadata log: every fact that the cluster agrees on, and how a change is written down.

One value in the log is one *change*: all records of one decision, so that a decision is stored whole or not at all.
Its first byte is the version of this format, the rest is MessagePack: an array of records, each an array that starts
with the record's number.

What stays readable: a field may be added at the end of a record, with a default, if a node that does not know it may
ignore it; such a node reads the record without it. Anything else takes a new record number or a new format version, and
both are refused by a node that does not know them, because an image with a hole in it is worse than no image.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

FORMAT_VERSION = 1
NO_LEADER = -1

# Why a broker is fenced. Numbers, not an enum: a node that does not know one of them can read the record all the same.
UNSAID = 0
"""The record was written before reasons were."""
SILENT = 1
"""It was not heard of for as long as a session lasts, or its connection broke and it is there all the same."""
DIED = 2
"""Its connection closed, and nobody listens any more where it did: the process is gone."""
LEFT = 3
"""It asked to stop, and may."""
ASKED = 4
"""It asked to be fenced, and goes on."""


QuotaEntity = tuple[tuple[str, str | None], ...]
"""Who is limited: names by type (user, client-id, ip), in the order of the types; None is the default of its type."""


class Endpoint(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where a broker can be reached through one of its listeners."""

    listener: str
    host: str
    port: int
    protocol: str = "PLAINTEXT"

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class ClusterCreated(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=1):
    """The cluster got its id; the first record of every metadata log."""

    cluster_id: str


class BrokerRegistered(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=2):
    """A broker started; its epoch is the offset of this record."""

    broker_id: int
    incarnation: bytes
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    fenced: bool = False
    directories: tuple[bytes, ...] = ()  # the ids of its log directories; none: it did not tell


class BrokerFenced(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=3):
    """A broker may not lead or be in sync until it is unfenced; if it was shutting down, that is over."""

    broker_id: int
    reason: int = UNSAID  # for those who watch: what follows for the cluster is the same


class BrokerUnfenced(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=4):
    """A broker takes part again."""

    broker_id: int


class TopicCreated(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=5):
    """A topic exists; its partitions follow in records of their own."""

    name: str
    topic_id: bytes


class TopicDeleted(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=6):
    """A topic is gone, with its partitions and configs."""

    topic_id: bytes


class PartitionCreated(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=7):
    """A partition exists. Partitions of a topic are created in order, from 0."""

    topic_id: bytes
    partition: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int = 0
    partition_epoch: int = 0
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    directories: tuple[bytes, ...] = ()  # of its replicas, in their order; none: nobody knows any of them


class PartitionChanged(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=8):
    """What changed in a partition; None is what did not.

    The epochs follow from it and are not written: a leader, even the same one, starts a leader epoch, and every change
    starts a partition epoch (Kafka: PartitionRegistration.merge).
    """

    topic_id: bytes
    partition: int
    leader: int | None = None
    isr: tuple[int, ...] | None = None
    replicas: tuple[int, ...] | None = None
    adding: tuple[int, ...] | None = None
    removing: tuple[int, ...] | None = None
    directories: tuple[bytes, ...] | None = None  # as replicas are after the change


class ConfigChanged(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=9):
    """A config was set, or removed when there is no value. Types: 2 topic, 4 broker ("" is every broker)."""

    resource_type: int
    resource_name: str
    name: str
    value: str | None


class ProducerIdsAllocated(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=10):
    """A broker got every producer id from the one before up to `next_producer_id`, exclusive."""

    broker_id: int
    next_producer_id: int


class BrokerUnregistered(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=11):
    """A broker is not expected back. Partitions may still name it as a replica."""

    broker_id: int
    epoch: int  # of the registration that is gone


class BrokerShuttingDown(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=12):
    """A broker asked to go and still answers; the offset of this record is what the others must have seen first."""

    broker_id: int


class BrokerRestored(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=13):
    """In snapshots only: a broker as it was, whose epoch is not the offset of this record."""

    broker_id: int
    epoch: int
    incarnation: bytes
    endpoints: tuple[Endpoint, ...]
    rack: str | None
    fenced: bool
    shutdown_offset: int
    fenced_at: int = -1
    directories: tuple[bytes, ...] = ()


class TopicRestored(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=14):
    """In snapshots only, behind the partitions of a topic: when any of it last changed."""

    topic_id: bytes
    changed_at: int


class SnapshotEnded(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=15):
    """The last record of every snapshot, with what is counted and not listed."""

    brokers_changed_at: int
    next_producer_id: int
    partitions_created: int


class ClientQuotaChanged(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=16):
    """A limit was set for some clients, or removed when there is no value (Kafka: ClientQuotaRecord)."""

    entity: QuotaEntity
    key: str
    value: float | None


class FeatureLevelChanged(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=17):
    """The cluster does what this level of a feature says, from now on (KIP-584)."""

    name: str
    level: int


class BrokerDirectoriesChanged(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=18):
    """Some of a broker's log directories have failed; these are left (KIP-858)."""

    broker_id: int
    directories: tuple[bytes, ...]


MetadataRecord = (
    ClusterCreated
    | BrokerRegistered
    | BrokerFenced
    | BrokerUnfenced
    | TopicCreated
    | TopicDeleted
    | PartitionCreated
    | PartitionChanged
    | ConfigChanged
    | ProducerIdsAllocated
    | BrokerUnregistered
    | BrokerShuttingDown
    | BrokerRestored
    | TopicRestored
    | SnapshotEnded
    | ClientQuotaChanged
    | FeatureLevelChanged
    | BrokerDirectoriesChanged
)

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[MetadataRecord])
_VERSION_BYTE = bytes([FORMAT_VERSION])
_CHANGE_RECORDS: Final = 8
"""A change of so many records may end where the next topic begins."""
_CHANGE_PARTITIONS: Final = 64
"""One that changes partitions may end after so many, where those of another topic begin."""


class UnreadableChangeError(ValueError):
    """A committed change that this version cannot read; the node must not start on half of the metadata."""


def in_changes(records: Sequence[MetadataRecord]) -> list[Sequence[MetadataRecord]]:
    """The same in parts that may be applied one after the other: a topic with all that is its own stays whole.

    What a thousand topics mean to a broker takes a second, the death of a broker that led ten thousand partitions
    nearly as much, and others want a turn meanwhile. All parts are in the log, or none: nobody elects half a cluster.
    """
    cuts = [0]
    for slot, record in enumerate(records):
        if slot - cuts[-1] >= _CHANGE_RECORDS and _may_begin(record, records[slot - 1], slot - cuts[-1]):
            cuts.append(slot)
    return [records[start:end] for start, end in zip(cuts, [*cuts[1:], len(records)])]


def _may_begin(record: MetadataRecord, before: MetadataRecord, size: int) -> bool:
    """Whether a part may begin with the record, where the one before it has this size."""
    if isinstance(record, PartitionChanged):
        is_another_topic = isinstance(before, PartitionChanged) and before.topic_id != record.topic_id
        return size >= _CHANGE_PARTITIONS and is_another_topic
    return isinstance(record, TopicCreated | TopicDeleted)


def encode_change(records: Sequence[MetadataRecord]) -> bytes:
    """The value that goes into the log for one decision."""
    return _VERSION_BYTE + _encoder.encode(records)


def decode_change(value: bytes) -> list[MetadataRecord]:
    """The records of one decision, in order; UnreadableChangeError says why not."""
    if not value:
        raise UnreadableChangeError("the change is empty")
    if value[0] != FORMAT_VERSION:
        raise UnreadableChangeError(
            f"it is written in format {value[0]} and this version reads format {FORMAT_VERSION};"
            " start the version that wrote it, or a newer one"
        )
    try:
        return _decoder.decode(memoryview(value)[1:])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:  # the second where a name is not text
        raise UnreadableChangeError(f"{error}; a newer version may have written it, or it is damaged") from None
