"""What a member is told when it joins. The hosts of other languages read the same names from JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

Protocol = Literal["classic", "consumer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """Everything else stays as the client has it by default."""

    bootstrap: str
    group: str
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    """A regular expression, instead of topics; it begins with `^`, which librdkafka wants."""
    protocol: Protocol = "classic"
    assignor: str | None = None
    instance: str | None = None
    reset: Literal["earliest", "latest"] = "earliest"
    commit: Literal["auto", "manual", "always"] = "manual"
    """`always`: synchronously after every poll, and before partitions are given up."""
    session_ms: int = 3_000
    heartbeat_ms: int = 200
    max_poll_ms: int = 30_000
    slow_rebalances: bool = False
    """Whether joining may take seconds, because others die; matters to kafka-python only."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)
