"""A record between a topic and a file, and what goes wrong with files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bifrost.client.errors import BifrostError

APPEND_TIME = 1


class Row(NamedTuple):
    """One record. `partition`, `offset` and `timestamp_ms` are None where a file does not say."""

    value: bytes | None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    partition: int | None = None
    offset: int | None = None
    timestamp_ms: int | None = None
    timestamp_type: int = 0
    """0: the producer's clock; 1: the broker's (APPEND_TIME)."""

    @property
    def size_bytes(self) -> int:
        headers = sum(len(name) + len(value or b"") for name, value in self.headers)
        return len(self.value or b"") + len(self.key or b"") + headers


class DumpFileError(BifrostError, ValueError):
    """A file that cannot be written or read; says where in it."""
