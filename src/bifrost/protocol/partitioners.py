"""Which partition a key belongs to, computed exactly as clients compute it.

Two clients that share a keyed topic agree on the partition only if they share a formula. Both formulas here count
all partitions of the topic, whether they have a leader or not. Never "improve" one: existing topics rely on it.
"""

from __future__ import annotations

import struct
import zlib
from typing import Final

_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = 0x5BD1E995
_UINT32: Final = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """MurmurHash2 with the Java client's seed, as an unsigned 32-bit number (Kafka: Utils.murmur2)."""
    hashed = _SEED ^ len(data)
    whole = len(data) & ~3
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        mixed = word * _MULTIPLIER & _UINT32
        mixed = (mixed ^ mixed >> 24) * _MULTIPLIER & _UINT32
        hashed = hashed * _MULTIPLIER & _UINT32 ^ mixed
    if len(data) > whole:
        hashed = (hashed ^ int.from_bytes(data[whole:], "little")) * _MULTIPLIER & _UINT32
    hashed = (hashed ^ hashed >> 13) * _MULTIPLIER & _UINT32
    return hashed ^ hashed >> 15


def partition_for_key(key: bytes, partition_count: int) -> int:
    """The partition that the Java client, kafka-python, aiokafka, kafkajs and franz-go choose for a key."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


def consistent_partition_for_key(key: bytes, partition_count: int) -> int:
    """The partition that librdkafka's default partitioner chooses; it treats an empty key as none at all."""
    return zlib.crc32(key) % partition_count
