"""Writes Metadata responses, the largest answers there are, and the ones that every client wants at the same moment.

A topic is encoded by itself: its bytes depend on nothing but the arguments, so that a cache may keep them for as long
as the metadata does not change. One partition costs one `struct` call. Requests, and the other direction, are rare and
small: the compiled codec serves them. Nothing here decides what a client may see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from struct import Struct
from typing import Final, NamedTuple
from uuid import UUID

from bifrost.protocol.codec import reader
from bifrost.protocol.messages import AUTHORIZED_OPERATIONS_OMITTED
from bifrost.protocol.messages.cluster import MetadataRequest
from bifrost.protocol.wire import UVARINT, Buffer

_FLEXIBLE: Final = MetadataRequest.flexible
_I16: Final = Struct(">h")
_I32: Final = Struct(">i")


class PartitionMetadata(NamedTuple):
    """One partition as clients see it."""

    error_code: int
    partition_index: int
    leader_id: int
    leader_epoch: int
    replica_nodes: Sequence[int]
    isr_nodes: Sequence[int]
    offline_replicas: Sequence[int] = ()


class BrokerMetadata(NamedTuple):
    """Where clients reach one broker."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


def read_request(buffer: Buffer, position: int, version: int) -> MetadataRequest:
    """The request whose body starts at `position`."""
    request, _ = reader(MetadataRequest, version)(buffer, position)
    return request


def encode_topic(
    version: int,
    *,
    error_code: int,
    name: str | None,
    topic_id: UUID,
    is_internal: bool = False,
    partitions: Sequence[PartitionMetadata] = (),
    authorized_operations: int = AUTHORIZED_OPERATIONS_OMITTED,
) -> bytes:
    """One topic of a response. A null name answers an id that nobody knows; before v12 it travels as an empty one."""
    flexible = version >= _FLEXIBLE
    parts = [_I16.pack(error_code), _string(name if version >= 12 else name or "", flexible)]
    if version >= 10:
        parts.append(topic_id.bytes)
    if version >= 1:
        parts.append(b"\1" if is_internal else b"\0")
    parts.append(_count(len(partitions), flexible))
    parts += _partitions(version, partitions)
    if version >= 8:
        parts.append(_I32.pack(authorized_operations))
    if flexible:
        parts.append(b"\0")
    return b"".join(parts)


def encode_response(
    version: int,
    *,
    throttle_time_ms: int = 0,
    brokers: Sequence[BrokerMetadata],
    cluster_id: str | None,
    controller_id: int,
    topics: Sequence[bytes],
    cluster_authorized_operations: int = AUTHORIZED_OPERATIONS_OMITTED,
    error_code: int = 0,
) -> bytes:
    """A response body; `topics` are results of `encode_topic` for the same version."""
    flexible = version >= _FLEXIBLE
    parts = [_I32.pack(throttle_time_ms)] if version >= 3 else []
    parts.append(_count(len(brokers), flexible))
    for broker in brokers:
        parts += (_I32.pack(broker.node_id), _string(broker.host, flexible), _I32.pack(broker.port))
        if version >= 1:
            parts.append(_string(broker.rack, flexible))
        if flexible:
            parts.append(b"\0")
    if version >= 2:
        parts.append(_string(cluster_id, flexible))
    if version >= 1:
        parts.append(_I32.pack(controller_id))
    parts.append(_count(len(topics), flexible))
    parts += topics
    if 8 <= version < 11:
        parts.append(_I32.pack(cluster_authorized_operations))
    if version >= 13:
        parts.append(_I16.pack(error_code))
    if flexible:
        parts.append(b"\0")
    return b"".join(parts)


def _partitions(version: int, partitions: Sequence[PartitionMetadata]) -> Iterator[bytes]:
    for error, index, leader, epoch, replicas, isr, offline in partitions:
        pack, replica_count, isr_count, offline_count = _layout(version, len(replicas), len(isr), len(offline))
        if version >= 7:
            yield pack(error, index, leader, epoch, replica_count, *replicas, isr_count, *isr, offline_count, *offline)
        elif version >= 5:
            yield pack(error, index, leader, replica_count, *replicas, isr_count, *isr, offline_count, *offline)
        else:
            yield pack(error, index, leader, replica_count, *replicas, isr_count, *isr)


@lru_cache(maxsize=256)
def _layout(version: int, replicas: int, isr: int, offline: int) -> tuple[Callable[..., bytes], bytes, bytes, bytes]:
    """The packer of partitions with so many replicas, and the three encoded counts that it takes."""
    flexible = version >= _FLEXIBLE
    counts = [_count(number, flexible) for number in (replicas, isr, offline)]
    lists = [f"{len(count)}s{number}i" for count, number in zip(counts, (replicas, isr, offline))]
    head = "hiii" if version >= 7 else "hii"
    if version < 5:
        del lists[2]
    pack = Struct(f">{head}{''.join(lists)}{'x' if flexible else ''}").pack
    return pack, counts[0], counts[1], counts[2]


def _string(text: str | None, flexible: bool) -> bytes:
    if text is None:
        return b"\0" if flexible else b"\xff\xff"
    encoded = text.encode()
    return (UVARINT[len(encoded) + 1] if flexible else _I16.pack(len(encoded))) + encoded


def _count(number: int, flexible: bool) -> bytes:
    return UVARINT[number + 1] if flexible else _I32.pack(number)
