"""Where the leader went: the tagged fields that Produce and Fetch answers share (KIP-951).

An answer that says "not the leader" may name the leader it knows and that node's address, which saves the client a
Metadata round trip. Both are tagged fields, so older clients skip them.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import msgspec

from bifrost.protocol.wire import (
    Buffer,
    compact_array_length,
    compact_string,
    read_compact_count,
    read_compact_nullable_string,
    read_compact_string,
    skip_tags,
)

_LEADER = struct.Struct(">iix")
_INT32 = struct.Struct(">i")
_ENDPOINT_BYTES_MIN = 11


class NodeEndpoint(msgspec.Struct, gc=False):
    """A node that a `current_leader` of the same answer refers to."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


def encode_leader(leader: tuple[int, int]) -> bytes:
    """Leader id and leader epoch, with their own empty tag section."""
    return _LEADER.pack(*leader)


def decode_leader(field: Buffer) -> tuple[int, int]:
    """Leader id and leader epoch."""
    leader_id, leader_epoch = _LEADER.unpack_from(field)
    return leader_id, leader_epoch


def encode_endpoints(endpoints: Sequence[NodeEndpoint]) -> bytes:
    """The value of the `node_endpoints` field."""
    encoded = [compact_array_length(len(endpoints))]
    for endpoint in endpoints:
        encoded += (
            _INT32.pack(endpoint.node_id),
            compact_string(endpoint.host),
            _INT32.pack(endpoint.port),
            compact_string(endpoint.rack),
            b"\0",
        )
    return b"".join(encoded)


def decode_endpoints(field: Buffer) -> list[NodeEndpoint]:
    """The nodes of a `node_endpoints` field."""
    count, position = read_compact_count(field, 0, _ENDPOINT_BYTES_MIN)
    endpoints = []
    for _ in range(count):
        (node_id,) = _INT32.unpack_from(field, position)
        host, position = read_compact_string(field, position + 4)
        (port,) = _INT32.unpack_from(field, position)
        rack, position = read_compact_nullable_string(field, position + 4)
        position = skip_tags(field, position)
        endpoints.append(NodeEndpoint(node_id, host, port, rack))
    return endpoints
