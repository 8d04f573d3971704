"""What a client process is told and what it tells: one `Job` in, one `Result` out."""

from __future__ import annotations

import dataclasses
import socket
import struct

from bench.procfs import Usage

ANSWER_SECONDS_MAX = 60.0

Result = dict[str, float]


class RefusedError(RuntimeError):
    """The broker answered with an error code, or with something of another shape."""


@dataclasses.dataclass(slots=True, kw_only=True)
class Job:
    """What to do; every field comes from the question."""

    kind: str
    port: int
    pids: list[int]
    bootstrap: str = ""
    leader_ports: list[int] = dataclasses.field(default_factory=list)  # of each partition, where nodes share them
    topic: str = ""
    partition: int = 0
    partitions: int = 3
    record_bytes: int = 1000
    records: int = 1
    acks: int = 1
    in_flight: int = 5
    batches_per_request: int = 1
    partition_max_bytes: int = 8 << 20
    warm_seconds: float = 0.3
    seconds: float = 1.5
    bytes_max: int = 2 << 30
    batches: int = 0
    messages: int = 1_000_000
    rate: float = 10_000.0
    connections: int = 10_000
    group: str = ""
    protocol: str = "classic"
    members: int = 1
    rounds: int = 0
    session_ms: int = 10_000
    beat_seconds: float = 0.025
    copied: str = ""  # a topic that a replica catches up with
    copies: int = 0
    pause_seconds: float = 0.0  # before it does that
    victims: list[int] = dataclasses.field(default_factory=list)  # processes that the job kills

    def port_of(self, partition: int) -> int:
        """Where the leader of the topic's partition listens."""
        return self.leader_ports[partition] if self.leader_ports else self.port


def connect(port: int) -> socket.socket:
    """A blocking socket whose reads give up in the end.

    Not Python's own timeout, which makes the socket non-blocking underneath: MSG_WAITALL would not wait.
    """
    sock = socket.create_connection(("127.0.0.1", port))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", int(ANSWER_SECONDS_MAX), 0))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def costs(usage: Usage, seconds: float) -> Result:
    """What every job reports besides its own figures."""
    return {
        "seconds": seconds,
        "peer_cpu_seconds": usage.peer,
        "client_cpu_seconds": usage.client,
        "foreign_cpu_seconds": usage.foreign,
    }


def percentiles(nanoseconds: list[int]) -> Result:
    """In microseconds, by nearest rank."""
    ranked = sorted(nanoseconds)
    last = len(ranked) - 1
    ranks = {"p50_us": 0.5, "p99_us": 0.99, "p999_us": 0.999, "max_us": 1.0}
    return {name: ranked[min(last, int(part * len(ranked)))] / 1000 for name, part in ranks.items()}
