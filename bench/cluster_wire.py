"""Bytes of what is asked about a cluster, and as much of the answers as a benchmark must understand.

Like `bench.wire`: one fixed, flexible version per API, built and read with `struct` alone.
"""

from __future__ import annotations

import dataclasses
import struct

from bench.wire import array, frame, read_varint, text

METADATA, DESCRIBE_QUORUM = 3, 55
METADATA_VERSION, DESCRIBE_QUORUM_VERSION = 12, 1

_NO_TAGS = b"\0"
_NO_ID = bytes(16)
_QUORUM_TOPIC = "__cluster_metadata"


class NoAnswerError(OSError):
    """An error code where facts were asked for: nobody leads, or the topic is not known yet. Ask again."""


@dataclasses.dataclass(frozen=True, slots=True)
class Led:
    """A partition: who leads it (-1: nobody), and how many replicas are in sync."""

    leader: int
    in_sync: int


@dataclasses.dataclass(frozen=True, slots=True)
class Quorum:
    """Who leads the controllers, and where the log of each ends, as the leader knows it."""

    leader: int
    ends: dict[int, int]


class _Reader:
    """Goes through an answer from front to back."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._position = 4 + 1  # correlation id, tags

    def number(self, layout: str) -> int:
        (value,) = struct.unpack_from(f">{layout}", self._answer, self._position)
        self._position += struct.calcsize(f">{layout}")
        return int(value)

    def skip(self, size: int) -> None:
        self._position += size

    def count(self) -> int:
        """Of the entries that follow, or of the bytes."""
        value, self._position = read_varint(self._answer, self._position)
        return max(0, value - 1)

    def skip_text(self) -> None:
        self.skip(self.count())

    def skip_tags(self) -> None:
        tags, self._position = read_varint(self._answer, self._position)
        for _ in range(tags):
            _, self._position = read_varint(self._answer, self._position)
            size, self._position = read_varint(self._answer, self._position)
            self.skip(size)


def metadata(topic: str) -> bytes:
    entry = _NO_ID + text(topic) + _NO_TAGS
    return frame(METADATA, METADATA_VERSION, array([entry]) + b"\0\0" + _NO_TAGS)


def read_metadata(answer: bytes) -> list[Led]:
    """The partitions of the one topic that was asked for, by number."""
    reader = _Reader(answer)
    reader.skip(4)
    for _ in range(reader.count()):  # brokers
        reader.skip(4)
        reader.skip_text()
        reader.skip(4)
        reader.skip_text()
        reader.skip_tags()
    reader.skip_text()
    reader.skip(4)
    if reader.count() != 1 or reader.number("h"):
        raise NoAnswerError("the topic is not known")
    reader.skip_text()
    reader.skip(len(_NO_ID) + 1)
    found: dict[int, Led] = {}
    for _ in range(reader.count()):
        reader.skip(2)
        index, leader = reader.number("i"), reader.number("i")
        reader.skip(4)
        reader.skip(4 * reader.count())
        in_sync = reader.count()
        reader.skip(4 * in_sync)
        reader.skip(4 * reader.count())
        reader.skip_tags()
        found[index] = Led(leader, in_sync)
    return [found[index] for index in sorted(found)]


def describe_quorum() -> bytes:
    partition = struct.pack(">i", 0) + _NO_TAGS
    topic = text(_QUORUM_TOPIC) + array([partition]) + _NO_TAGS
    return frame(DESCRIBE_QUORUM, DESCRIBE_QUORUM_VERSION, array([topic]) + _NO_TAGS)


def read_quorum(answer: bytes) -> Quorum:
    reader = _Reader(answer)
    if reader.number("h") or reader.count() != 1:
        raise NoAnswerError("nobody leads the quorum")
    reader.skip_text()
    if reader.count() != 1:
        raise NoAnswerError("nobody leads the quorum")
    reader.skip(4)
    if reader.number("h"):
        raise NoAnswerError("nobody leads the quorum")
    leader = reader.number("i")
    if leader < 0:
        raise NoAnswerError("nobody leads the quorum")
    reader.skip(4 + 8)
    ends = {}
    for _ in range(reader.count()):
        voter = reader.number("i")
        ends[voter] = reader.number("q")
        reader.skip(8 + 8)
        reader.skip_tags()
    return Quorum(leader, ends)
