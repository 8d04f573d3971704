"""Kafka's small files, as text and back: checkpoints, `meta.properties`, `partition.metadata`, the clean marker.

Pure: bytes in, values out, and the reverse. What a file means and when it is written is decided by its owner. A file
that cannot be read raises `CorruptCheckpointError`; whoever reads decides whether that is a warning or the end.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Final
from uuid import UUID

from bifrost.types import TopicPartition

RECOVERY_POINTS_FILE: Final = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS_FILE: Final = "log-start-offset-checkpoint"
CLEANED_OFFSETS_FILE: Final = "cleaner-offset-checkpoint"
HIGH_WATERMARKS_FILE: Final = "replication-offset-checkpoint"
CLEAN_SHUTDOWN_FILE: Final = ".kafka_cleanshutdown"
META_PROPERTIES_FILE: Final = "meta.properties"

_VERSION: Final = "0"
_DIGITS_MAX: Final = 19
"""Of the greatest offset."""


class CorruptCheckpointError(ValueError):
    """The text is not of the format that its file should have."""


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    """`topic partition offset` lines (Kafka: OffsetCheckpointFile)."""
    return _encode(f"{tp.topic} {tp.partition} {offset}" for tp, offset in offsets.items())


def decode_offsets(data: bytes) -> dict[TopicPartition, int]:
    offsets: dict[TopicPartition, int] = {}
    for line in _decode(data):
        topic, partition, offset = _fields(line, 3)
        offsets[TopicPartition(topic, _number(partition))] = _number(offset)
    return offsets


def encode_epochs(entries: Iterable[tuple[int, int]]) -> bytes:
    """`epoch startOffset` lines (Kafka: LeaderEpochCheckpointFile)."""
    return _encode(f"{epoch} {start_offset}" for epoch, start_offset in entries)


def decode_epochs(data: bytes) -> list[tuple[int, int]]:
    """Entries in rising order of both columns, or the file is not to be trusted."""
    entries = []
    for line in _decode(data):
        epoch, start_offset = _fields(line, 2)
        entries.append((_number(epoch), _number(start_offset)))
    for entry, following in pairwise(entries):
        if following[0] <= entry[0] or following[1] <= entry[1]:
            raise CorruptCheckpointError(f"epoch and offset {following} after {entry}")
    return entries


def encode_clean_shutdown(broker_epoch: int) -> bytes:
    """Kafka: CleanShutdownFileHandler. The broker epoch proves to the controller that nothing was lost (KIP-966)."""
    return json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()


def decode_clean_shutdown(data: bytes) -> int:
    """The broker epoch, -1 if the file does not tell: older Kafkas left it empty."""
    try:
        content = json.loads(data)
        return int(content["brokerEpoch"])
    except (ValueError, TypeError, KeyError):
        return -1


def encode_properties(properties: Mapping[str, str]) -> bytes:
    """A Java properties file of plain keys and values."""
    return "".join(f"{key}={value}\n" for key, value in sorted(properties.items())).encode()


def decode_properties(data: bytes) -> dict[str, str]:
    try:
        lines = data.decode().splitlines()
    except UnicodeDecodeError as error:
        raise CorruptCheckpointError(str(error)) from error
    pairs = (line.partition("=") for line in lines if line.strip() and not line.lstrip().startswith(("#", "!")))
    return {key.strip(): value.strip() for key, _, value in pairs}


def encode_topic_id(topic_id: UUID) -> bytes:
    """Kafka: PartitionMetadata."""
    return f"version: 0\ntopic_id: {encode_uuid(topic_id)}".encode()


def decode_topic_id(data: bytes) -> UUID:
    lines = dict(line.partition(":")[::2] for line in data.decode(errors="replace").splitlines())
    if lines.get("version", "").strip() != _VERSION:
        raise CorruptCheckpointError(f"unknown version {lines.get('version')!r}")
    return decode_uuid(lines.get("topic_id", "").strip())


def encode_uuid(value: UUID) -> str:
    """Kafka's text form of an id: base64url without padding, 22 characters."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def decode_uuid(text: str) -> UUID:
    try:
        raw = base64.b64decode(text + "==", altchars=b"-_", validate=True)
        return UUID(bytes=raw)
    except (binascii.Error, ValueError) as error:
        raise CorruptCheckpointError(f"{text!r} is no id") from error


def _encode(lines: Iterable[str]) -> bytes:
    entries = list(lines)
    return "\n".join([_VERSION, str(len(entries)), *entries, ""]).encode()


def _decode(data: bytes) -> list[str]:
    """The entries of a checkpoint (Kafka: CheckpointFile). An empty file is one that was created and never written."""
    try:
        lines = data.decode().splitlines()
    except UnicodeDecodeError as error:
        raise CorruptCheckpointError(str(error)) from error
    if not lines:
        return []
    if lines[0] != _VERSION or len(lines) < 2 or _number(lines[1]) != len(lines) - 2:
        raise CorruptCheckpointError(f"version and count {lines[:2]} before {len(lines) - 2} entries")
    return lines[2:]


def _fields(line: str, count: int) -> list[str]:
    fields = line.split()
    if len(fields) != count:
        raise CorruptCheckpointError(f"malformed line {line!r}")
    return fields


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX):
        raise CorruptCheckpointError(f"{text[:_DIGITS_MAX]!r} is no number")
    return int(text)
