"""Counters of one node: plain integers that the loop thread adds to, read by whoever exposes them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Metrics:
    """What happened since the node started."""

    requests: Counter[int] = field(default_factory=Counter)
    """Requests by api key."""
    connections_opened: int = 0
    connections_closed: int = 0
    connections_refused: int = 0
    """Not let in because of `max.connections`, or of a limit on how often their address may come."""
    connections_expired: int = 0
    """Closed after `connections.max.idle.ms` without a byte."""
    protocol_errors: int = 0
    """Connections closed because of bytes that make no sense."""
    unexpected_errors: int = 0
    """Requests that met a bug; zero in a healthy node."""
    storage_errors: int = 0
    uncleanable_partitions: int = 0
    """Logs that compaction leaves alone for now, because they are damaged or end in a bug. Kafka:
    uncleanable-partitions-count."""
    bytes_in: int = 0
    bytes_out: int = 0
    throttled: Counter[str] = field(default_factory=Counter)
    """Requests whose client was told to wait, by the limit that it had passed."""
    throttle_ms: Counter[str] = field(default_factory=Counter)
    """For how long, altogether."""
    http_answers: Counter[int] = field(default_factory=Counter)
    """By status."""
    http_streams: int = 0
    """Streams of events that are open."""
