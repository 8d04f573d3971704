"""One blocking connection to a peer: topics are made and removed through it, and the first write is tried on it.

Everything retries until a deadline, because a broker that is just starting refuses, closes or does not know its topics
yet; what is measured is when it finally succeeds.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable

from bench import group_wire, wire

RETRY_SECONDS = 0.002
ANSWER_SECONDS_MAX = 60.0

UNKNOWN_TOPIC_OR_PARTITION = 3
TOPIC_ALREADY_EXISTS = 36


class PeerError(RuntimeError):
    """The peer did not do in time what every question depends on."""


class Admin:
    """Builds its connection at first use and again whenever it broke."""

    def __init__(self, port: int, gave_up: Callable[[], str | None] = lambda: None) -> None:
        self._port = port
        self._gave_up = gave_up  # tells why waiting is pointless, e.g. that the process has died
        self._socket: socket.socket | None = None

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def create_topics(
        self, topics: list[str], partitions: int, configs: dict[str, str], *, deadline: float, replicas: int = 1
    ) -> None:
        """In one request. Returns when that is answered; if the first of them is there, they all are."""
        request = wire.create_topics(topics, partitions, replicas, configs)
        done = (0, TOPIC_ALREADY_EXISTS)
        self.until(lambda: _create_error(self.ask(request)) in done, deadline, f"create {topics[0]}")

    def await_leaders(self, topic: str, partitions: list[int], *, deadline: float) -> None:
        """Until this node lets them be read: a topic that is merely created may not have its leaders yet."""
        for first in range(0, len(partitions), 100):
            group = [(partition, 0) for partition in partitions[first : first + 100]]
            probe = wire.fetch(topic, group, partition_max_bytes=1, max_wait_ms=0)
            self.until(lambda probe=probe: not any(_fetch_errors(self.ask(probe))), deadline, f"leaders of {topic}")  # type: ignore[misc]

    def delete_topics(self, topics: list[str], *, deadline: float) -> None:
        """In one request. One that timed out may have been heard all the same: then they are gone when asked again."""
        request = wire.delete_topics(topics)
        done = (0, UNKNOWN_TOPIC_OR_PARTITION)
        self.until(lambda: _delete_error(self.ask(request)) in done, deadline, f"delete {topics[0]}")

    def await_coordinators(self, *, deadline: float) -> None:
        """Asking for a coordinator creates the topic of the groups; then all its partitions must be led and loaded."""
        names = [f"probe{number}" for number in range(500)]  # hit each of the fifty
        find, describe = group_wire.find_coordinator(names[0]), group_wire.describe_groups(names)
        self.until(lambda: not any(group_wire.coordinator_errors(self.ask(find))), deadline, "find a coordinator")
        self.until(lambda: not any(group_wire.described_errors(self.ask(describe))), deadline, "reach all groups")

    def write(self, topic: str, batches: list[tuple[int, bytes]], *, deadline: float) -> None:
        """Produces with acks=1 until every batch was acknowledged."""
        request = wire.produce(topic, batches, acks=1)
        expected = len(wire.produce_answer(topic, [partition for partition, _ in batches])) - wire.LENGTH_BYTES
        first = wire.produce_error_position(topic) - wire.LENGTH_BYTES
        positions = [first + index * wire.PRODUCED_PARTITION_BYTES for index in range(len(batches))]

        def written() -> bool:
            answer = self.ask(request)
            return len(answer) == expected and not any(_int16(answer, position) for position in positions)

        self.until(written, deadline, f"write to {topic}")

    def until(self, done: Callable[[], bool], deadline: float, what: str) -> None:
        """Asks again until it is done, also of a node that is just coming up."""
        while True:
            try:
                if done():
                    return
            except (OSError, struct.error):
                self.close()
            if (reason := self._gave_up()) is not None:
                raise PeerError(f"{what}: {reason}")
            if time.monotonic() > deadline:
                raise PeerError(f"{what}: not done in time")
            time.sleep(RETRY_SECONDS)

    def ask(self, request: bytes) -> bytes:
        """One attempt; OSError if there is no answer."""
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self._port), timeout=ANSWER_SECONDS_MAX)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.sendall(request)
        (length,) = struct.unpack(">i", self._read(4))
        return self._read(length)

    def _read(self, count: int) -> bytes:
        assert self._socket is not None
        out = bytearray()
        while len(out) < count:
            chunk = self._socket.recv(count - len(out))
            if not chunk:
                raise ConnectionError("closed by the peer")
            out += chunk
        return bytes(out)


def _create_error(answer: bytes) -> int:
    return _int16(answer, _after_first_name(answer) + 16)  # behind the topic's id


def _delete_error(answer: bytes) -> int:
    return _int16(answer, _after_first_name(answer))


def _after_first_name(answer: bytes) -> int:
    """Behind correlation id, tags, throttle time, the number of topics, and the name of the first."""
    _, position = wire.read_varint(answer, 4 + 1 + 4)
    length, position = wire.read_varint(answer, position)
    return position + length - 1


def _fetch_errors(answer: bytes) -> list[int]:
    """The error of the request and of each partition, for an answer whose partitions hold no records."""
    top = _int16(answer, 4 + 1 + 4)
    topics, position = wire.read_varint(answer, 4 + 1 + 4 + 2 + 4)
    if top or topics < 2:
        return [top or -1]
    length, position = wire.read_varint(answer, position)
    partitions, position = wire.read_varint(answer, position + length - 1)
    errors = []
    for _ in range(partitions - 1):
        errors.append(_int16(answer, position + 4))
        if errors[-1]:
            break  # an error may come with tagged fields; the first one is enough to try again
        length, position = wire.read_varint(answer, position + 6 + 24 + 1 + 4)
        position += max(0, length - 1) + 1
    return errors


def _int16(answer: bytes, position: int) -> int:
    return int(struct.unpack_from(">h", answer, position)[0])
