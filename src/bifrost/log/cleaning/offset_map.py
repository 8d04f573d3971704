"""The last offset of each key, in bounded memory. Kafka: SkimpyOffsetMap.

A key is known by 16 bytes of digest, as in Kafka; one that is shorter than that stands for itself, which is quicker and
never wrong. What an entry takes is counted as Python takes it, some eight times as much as in Kafka: whoever sets
`log.cleaner.dedupe.buffer.size` means memory, and gets more rounds instead.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

DIGEST_BYTES: Final = 16
ENTRY_BYTES: Final = 192
"""A digest, an offset, and their place in a dictionary, which is up to half empty and at times copied as it grows."""


def entries_that_fit(buffer_bytes: int, load_factor: float) -> int:
    """How many keys a map of so much memory takes; at least one, or no cleaning would ever get anywhere."""
    return max(int(buffer_bytes * min(max(load_factor, 0.0), 1.0)) // ENTRY_BYTES, 1)


def digest(key: bytes) -> bytes:
    """What a key is known by."""
    return key if len(key) < DIGEST_BYTES else blake2b(key, digest_size=DIGEST_BYTES).digest()


class OffsetMap:
    """Keys to offsets."""

    __slots__ = ("end_offset", "entries_max", "offsets")

    def __init__(self, entries_max: int) -> None:
        self.entries_max = entries_max
        self.offsets: dict[bytes, int] = {}
        """By digest. Open to whoever looks up millions of keys in a row."""
        self.end_offset = 0
        """The map knows every key of the dirty part of the log up to here, and of nothing behind it."""

    def put(self, key: bytes, offset: int) -> None:
        self.offsets[digest(key)] = offset

    def get(self, key: bytes) -> int:
        """-1 for a key that was not written since the last cleaning."""
        return self.offsets.get(digest(key), -1)
