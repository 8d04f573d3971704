"""Partitions of keys, against values that clients computed."""

from __future__ import annotations

import pytest

from bifrost.protocol.partitioners import consistent_partition_for_key, murmur2, partition_for_key
from tests.unit.protocol.other_clients import kafka_python_murmur2

KEYS = [b"k0", b"k1", b"k2", b"k3", b"k4", b"k5"]


@pytest.mark.parametrize(
    ("key", "expected"),
    [(b"", 0x106E08D9), (b"a", 0xA2D0B27C), (b"21", 0xC5F2F8EC), (b"foobar", 0xD0E47BBE), (b"kafka", 0xD067CF64)],
)
def test_murmur2_check_values(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected


def test_murmur2_agrees_with_kafka_python_for_every_length_of_tail() -> None:
    for size in range(40):
        key = bytes((7 * size + index) & 0xFF for index in range(size))
        assert murmur2(key) == kafka_python_murmur2(key) & 0xFFFFFFFF


def test_partitions_as_the_java_client_chooses_them() -> None:
    assert [partition_for_key(key, 3) for key in KEYS] == [2, 2, 0, 1, 1, 0]


def test_partitions_as_librdkafka_chooses_them() -> None:
    assert [consistent_partition_for_key(key, 3) for key in KEYS] == [0, 1, 0, 2, 2, 1]
