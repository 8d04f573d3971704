"""A key goes where the client's own partitioner says, on every broker: the partition count must be reported in full.

The expected partitions come from implementations in this file, not from any client.
"""

from __future__ import annotations

import zlib

from tests.compat.clients.base import Client, Record
from tests.compat.conftest import NewTopicFunction

PARTITIONS = 10
KEYS = [f"truck-{number}".encode() for number in range(40)] + [b"a", b"21", b"foobar", b"kafka", "Björn".encode()]


def murmur2(data: bytes) -> int:
    """The variant of MurmurHash2 that Kafka's Java client uses, as an unsigned number."""
    multiplier, mask = 0x5BD1E995, 0xFFFFFFFF
    hashed = (0x9747B28C ^ len(data)) & mask
    whole = len(data) & ~3
    for start in range(0, whole, 4):
        word = int.from_bytes(data[start : start + 4], "little") * multiplier & mask
        word = (word ^ word >> 24) * multiplier & mask
        hashed = hashed * multiplier & mask ^ word
    if len(data) > whole:
        hashed = (hashed ^ int.from_bytes(data[whole:], "little")) * multiplier & mask
    hashed = (hashed ^ hashed >> 13) * multiplier & mask
    return hashed ^ hashed >> 15


def expected_partition(client: Client, key: bytes) -> int:
    if client.partitioner == "crc32":
        return zlib.crc32(key) % PARTITIONS
    return (murmur2(key) & 0x7FFFFFFF) % PARTITIONS


def test_murmur2_matches_its_published_values() -> None:
    assert {key: murmur2(key) for key in (b"21", b"foobar", b"a")} == {
        b"21": 0xC5F2F8EC,
        b"foobar": 0xD0E47BBE,
        b"a": 0xA2D0B27C,
    }


def test_keys_land_in_the_partition_of_the_clients_partitioner(client: Client, new_topic: NewTopicFunction) -> None:
    topic = new_topic(PARTITIONS)
    client.produce(topic, [Record(b"value of " + key, key=key) for key in KEYS])
    found = client.consume(topic, dict.fromkeys(range(PARTITIONS), 0), len(KEYS))
    landed = {record.key: record.partition for record in found}
    assert landed == {key: expected_partition(client, key) for key in KEYS}
    assert len(set(landed.values())) > PARTITIONS // 2, "the keys should spread"


def test_a_named_partition_wins_over_the_partitioner(client: Client, new_topic: NewTopicFunction) -> None:
    topic = new_topic(PARTITIONS)
    client.produce(topic, [Record(b"here", key=b"a", partition=number) for number in range(PARTITIONS)])
    found = client.consume(topic, dict.fromkeys(range(PARTITIONS), 0), PARTITIONS)
    assert sorted(record.partition for record in found) == list(range(PARTITIONS))
