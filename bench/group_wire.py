"""Bytes of the group requests that the benchmark sends, and as much of their answers as a member must understand.

Like `bench.wire`: one fixed, flexible version per API, built and read with `struct` alone, so that a hundred members
in one process are no load worth mentioning.
"""

from __future__ import annotations

import dataclasses
import struct
import uuid

from bench.wire import array, frame, read_varint, text, varint

FIND_COORDINATOR, JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP = 10, 11, 12, 13, 14
DESCRIBE_GROUPS, OFFSET_COMMIT, CONSUMER_GROUP_HEARTBEAT = 15, 8, 68

REBALANCE_IN_PROGRESS, MEMBER_ID_REQUIRED = 27, 79

_NO_TAGS = b"\0"
_NULL = b"\0"


def _bytes(value: bytes) -> bytes:
    return varint(len(value) + 1) + value


def find_coordinator(group: str) -> bytes:
    return frame(FIND_COORDINATOR, 4, b"\0" + array([text(group)]) + _NO_TAGS)


def describe_groups(groups: list[str]) -> bytes:
    return frame(DESCRIBE_GROUPS, 5, array([text(group) for group in groups]) + b"\0" + _NO_TAGS)


def join(group: str, member_id: str, topic: str, session_ms: int) -> bytes:
    """As a consumer of one topic that knows the range assignor."""
    subscription = struct.pack(">hih", 0, 1, len(topic)) + topic.encode() + struct.pack(">i", -1)
    body = text(group) + struct.pack(">ii", session_ms, 60_000) + text(member_id) + _NULL + text("consumer")
    body += array([text("range") + _bytes(subscription) + _NO_TAGS]) + _NULL
    return frame(JOIN_GROUP, 9, body + _NO_TAGS)


def sync(group: str, member_id: str, generation: int, shares: list[tuple[str, bytes]]) -> bytes:
    """A leader brings everybody's share, others bring none."""
    body = text(group) + struct.pack(">i", generation) + text(member_id) + _NULL + text("consumer") + text("range")
    parts = [text(each) + _bytes(share) + _NO_TAGS for each, share in shares]
    return frame(SYNC_GROUP, 5, body + array(parts) + _NO_TAGS)


def share(topic: str, partition: int) -> bytes:
    """An assignment of one partition, as clients write it."""
    return struct.pack(f">hih{len(topic)}siii", 0, 1, len(topic), topic.encode(), 1, partition, -1)


def heartbeat(group: str, member_id: str, generation: int) -> bytes:
    body = text(group) + struct.pack(">i", generation) + text(member_id) + _NULL
    return frame(HEARTBEAT, 4, body + _NO_TAGS)


def leave(group: str, member_id: str) -> bytes:
    member = text(member_id) + _NULL + _NULL + _NO_TAGS
    return frame(LEAVE_GROUP, 5, text(group) + array([member]) + _NO_TAGS)


def commit(group: str, topic: str, partition: int, offset: int) -> bytes:
    """One partition, from outside any group: a simple consumer's commit."""
    where = struct.pack(">iqi", partition, offset, -1) + text("") + _NO_TAGS
    topics = array([text(topic) + array([where]) + _NO_TAGS])
    return frame(OFFSET_COMMIT, 9, text(group) + struct.pack(">i", -1) + text("") + _NULL + topics + _NO_TAGS)


def commit_error_position(topic: str) -> int:
    """Where the error code is in the answer to a commit of one partition, its length included."""
    return 4 + 4 + 1 + 4 + 1 + len(text(topic)) + 1 + 4


def commit_answer_bytes(topic: str) -> int:
    return commit_error_position(topic) + 2 + 1 + 1 + 1


def consumer_heartbeat(
    group: str, member_id: str, epoch: int, topic: str, owned: tuple[uuid.UUID, list[int]] | None
) -> bytes:
    """KIP-848. Who joins (epoch 0) says everything; later only what it owns, or nothing at all (None)."""
    joins = epoch == 0
    body = text(group) + text(member_id) + struct.pack(">i", epoch) + _NULL + _NULL
    body += struct.pack(">i", 60_000 if joins else -1)
    body += array([text(topic)]) if joins else _NULL
    body += _NULL + _NULL  # no regular expression, the broker's assignor
    if joins or (owned is not None and not owned[1]):
        body += array([])
    elif owned is None:
        body += _NULL
    else:
        partitions = array([struct.pack(">i", partition) for partition in owned[1]])
        body += array([owned[0].bytes + partitions + _NO_TAGS])
    return frame(CONSUMER_GROUP_HEARTBEAT, 1, body + _NO_TAGS)


class Reader:
    """Walks through an answer from behind its header: correlation id, tags, throttle time."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._position = 4 + 1 + 4

    def number(self, code: str) -> int:
        (value,) = struct.unpack_from(f">{code}", self._answer, self._position)
        self._position += struct.calcsize(code)
        return int(value)

    def length(self) -> int:
        """Of a string, of bytes or of an array; -1 for null."""
        value, self._position = read_varint(self._answer, self._position)
        return value - 1

    def bytes(self) -> bytes:
        size = max(0, self.length())
        self._position += size
        return self._answer[self._position - size : self._position]

    def text(self) -> str:
        return self.bytes().decode()

    def uuid(self) -> uuid.UUID:
        self._position += 16
        return uuid.UUID(bytes=self._answer[self._position - 16 : self._position])

    def no_tags(self) -> None:
        assert self._answer[self._position] == 0, "an answer with tags"
        self._position += 1


@dataclasses.dataclass(frozen=True, slots=True)
class Joined:
    error: int
    generation: int
    leader: str
    member_id: str
    members: list[str]


def joined(answer: bytes) -> Joined:
    reader = Reader(answer)
    error, generation = reader.number("h"), reader.number("i")
    reader.bytes()
    reader.bytes()
    leader = reader.text()
    reader.number("b")
    member_id = reader.text()
    members = []
    for _ in range(reader.length()):
        members.append(reader.text())
        reader.bytes()
        reader.bytes()
        reader.no_tags()
    return Joined(error, generation, leader, member_id, members)


def error_of(answer: bytes) -> int:
    """Of Heartbeat, SyncGroup, LeaveGroup and the like, whose answers begin with it."""
    return Reader(answer).number("h")


@dataclasses.dataclass(frozen=True, slots=True)
class Beaten:
    """`assigned` is None when nothing changed."""

    error: int
    epoch: int
    topic_id: uuid.UUID | None
    assigned: list[int] | None


def beaten(answer: bytes) -> Beaten:
    reader = Reader(answer)
    error = reader.number("h")
    reader.bytes()
    reader.bytes()
    epoch, _ = reader.number("i"), reader.number("i")
    if reader.number("b") < 0:
        return Beaten(error, epoch, None, None)
    topic_id, assigned = None, []
    for _ in range(reader.length()):
        topic_id = reader.uuid()
        assigned = [reader.number("i") for _ in range(reader.length())]
        reader.no_tags()
    return Beaten(error, epoch, topic_id, assigned)


def coordinator_errors(answer: bytes) -> list[int]:
    reader = Reader(answer)
    errors = []
    for _ in range(reader.length()):
        reader.bytes()
        reader.number("i")
        reader.bytes()
        reader.number("i")
        errors.append(reader.number("h"))
        reader.bytes()
        reader.no_tags()
    return errors


def described_errors(answer: bytes) -> list[int]:
    """For groups that have no members."""
    reader = Reader(answer)
    errors = []
    for _ in range(reader.length()):
        errors.append(reader.number("h"))
        for _ in range(4):
            reader.bytes()
        assert reader.length() == 0
        reader.number("i")
        reader.no_tags()
    return errors
