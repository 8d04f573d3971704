"""Producer states on disk: `.snapshot` files, one per segment start and one at a clean end. Kafka: ProducerSnapshot.

This file decides the bytes and which snapshots are kept. A snapshot named N holds the state before offset N; only the
last batch of each producer is stored. Layout, big endian: i16 version 1, u32 CRC-32C of all that follows, i32 count,
then per producer: i64 id, i16 epoch, i32 last sequence, i64 last offset, i32 offset delta, i64 timestamp, i32
coordinator epoch, i64 first offset of the open transaction or -1.

A snapshot that does not match its CRC is deleted and an older one is used: all it costs is reading more headers.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Collection
from typing import Final

from crc32c import crc32c

from bifrost.log.disk import Disk, File
from bifrost.log.names import SNAPSHOT, offset_of, segment_path
from bifrost.log.producers import AppendedBatch, ProducerEntry, ProducerStates, first_sequence

_log = logging.getLogger(__name__)

_VERSION: Final = 1
_HEAD = struct.Struct(">hIi")
_CRC_END: Final = 6
_ENTRY = struct.Struct(">qhiqiqiq")


class CorruptSnapshotError(ValueError):
    """The bytes are no snapshot, or not the one that was written."""


def encode(states: ProducerStates) -> bytes:
    parts = [_HEAD.pack(_VERSION, 0, len(states.entries))]
    for producer_id, entry in states.entries.items():
        last = entry.batches[-1] if entry.batches else AppendedBatch(-1, -1, -1, 0, -1)
        parts.append(
            _ENTRY.pack(
                producer_id,
                entry.producer_epoch,
                last.last_sequence,
                last.last_offset,
                last.offset_delta,
                entry.last_timestamp,
                entry.coordinator_epoch,
                entry.current_txn_first_offset,
            )
        )
    data = bytearray(b"".join(parts))
    _HEAD.pack_into(data, 0, _VERSION, crc32c(memoryview(data)[_CRC_END:]), len(states.entries))
    return bytes(data)


def decode(data: bytes) -> ProducerStates:
    if len(data) < _HEAD.size:
        raise CorruptSnapshotError(f"{len(data)} bytes")
    version, crc, count = _HEAD.unpack_from(data)
    if version != _VERSION or len(data) != _HEAD.size + count * _ENTRY.size:
        raise CorruptSnapshotError(f"version {version}, {count} producers in {len(data)} bytes")
    if crc32c(memoryview(data)[_CRC_END:]) != crc:
        raise CorruptSnapshotError("checksum does not match")
    states = ProducerStates()
    for fields in _ENTRY.iter_unpack(memoryview(data)[_HEAD.size :]):
        producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator_epoch, txn_first_offset = fields
        entry = ProducerEntry(
            epoch,
            last_timestamp=timestamp,
            coordinator_epoch=coordinator_epoch,
            current_txn_first_offset=txn_first_offset,
        )
        if last_offset >= 0:
            first = first_sequence(last_sequence, delta)
            entry.batches.append(AppendedBatch(first, last_sequence, last_offset, delta, timestamp))
        states.entries[producer_id] = entry
    return states


def write(disk: Disk, directory: str, offset: int, states: ProducerStates) -> File:
    """Stores the state before `offset`; the file, not yet synced."""
    file = disk.open(segment_path(directory, offset, SNAPSHOT), create=True)
    data = encode(states)
    if file.size() > len(data):
        file.truncate(0)
    file.write_at(data, 0)
    return file


def offsets(names: Collection[str]) -> list[int]:
    """The offsets that have a snapshot, among the names of a directory, rising."""
    found = (offset_of(name, SNAPSHOT) for name in names)
    return sorted(offset for offset in found if offset is not None)


def load_newest(disk: Disk, directory: str, candidates: Collection[int]) -> tuple[int, ProducerStates] | None:
    """The newest readable one of the candidates, and its offset. Unreadable newer ones are deleted."""
    for offset in sorted(candidates, reverse=True):
        path = segment_path(directory, offset, SNAPSHOT)
        try:
            return offset, decode(disk.read_bytes(path))
        except CorruptSnapshotError as error:
            _log.warning("producer snapshot dropped path=%s reason=%r", path, str(error))
            disk.remove(path)
    return None


def remove_beyond(disk: Disk, directory: str, end_offset: int) -> None:
    """Deletes snapshots of a log that no longer reaches so far."""
    for offset in offsets(disk.listdir(directory)):
        if offset > end_offset:
            disk.remove(segment_path(directory, offset, SNAPSHOT))


def remove_stray(
    disk: Disk, directory: str, snapshots: Collection[int], base_offsets: Collection[int], end_offset: int
) -> list[int]:
    """Deletes all but one snapshot per segment and the one of the end; what is left.

    Kafka: ProducerStateManager.removeStraySnapshots.
    """
    kept = [offset for offset in snapshots if offset in base_offsets or offset == end_offset]
    for offset in snapshots:
        if offset not in kept:
            disk.remove(segment_path(directory, offset, SNAPSHOT))
    return kept
