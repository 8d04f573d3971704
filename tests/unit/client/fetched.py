"""A stand-in for librdkafka's message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bifrost.types import TopicPartition


@dataclass(frozen=True)
class Fetched:
    """As much of a fetched message as the client looks at."""

    place: TopicPartition
    at: int
    content: bytes | None = b"value"

    def topic(self) -> str:
        return self.place.topic

    def partition(self) -> int:
        return self.place.partition

    def offset(self) -> int:
        return self.at

    def key(self) -> bytes | None:
        return None

    def value(self) -> bytes | None:
        return self.content

    def timestamp(self) -> tuple[int, int]:
        return (1, 1_700_000_000_123)

    def headers(self) -> list[tuple[str, bytes]] | None:
        return None

    def leader_epoch(self) -> int:
        return 3

    def error(self) -> None:
        return None


def fetched(partition: int, *offsets: int) -> list[Any]:
    return [Fetched(TopicPartition("t", partition), offset) for offset in offsets]
