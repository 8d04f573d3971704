"""Which partition of `__consumer_offsets` a group lives in: the same one as with Kafka, or moved data would be lost."""

from __future__ import annotations

from functools import lru_cache

OFFSETS_TOPIC = "__consumer_offsets"

_INT32 = 1 << 31
_KNOWN_LENGTH_MAX = 255


def java_hash(text: str) -> int:
    """Java's String.hashCode: over UTF-16 units, in 32 bits with a sign."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2]):
        value = (31 * value + (high << 8 | low)) & 0xFFFF_FFFF
    return value - (value & _INT32) * 2


def partition_for(key: str, partitions: int) -> int:
    """The partition of a group, or of any other key that a coordinator is looked up by. Kafka: Utils.abs."""
    hashed = _known_hash(key) if len(key) <= _KNOWN_LENGTH_MAX else java_hash(key)
    return 0 if hashed == -_INT32 else abs(hashed) % partitions


@lru_cache(maxsize=10_000)
def _known_hash(key: str) -> int:
    """Every heartbeat of every member asks."""
    return java_hash(key)
