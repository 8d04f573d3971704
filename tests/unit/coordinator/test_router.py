"""Groups are where Kafka would look for them."""

from __future__ import annotations

import pytest

from bifrost.coordinator.router import java_hash, partition_for


@pytest.mark.parametrize(("group", "partition"), [("my-group", 12), ("test", 48), ("g1", 42), ("tx1", 45)])
def test_the_partition_is_the_one_that_kafka_takes(group: str, partition: int) -> None:
    assert partition_for(group, 50) == partition


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), ("a", 97), ("Grüße", 69_215_351), ("\U0001d538", 1_772_451), ("polygenelubricants", -(1 << 31))],
)
def test_the_hash_is_that_of_a_java_string(text: str, expected: int) -> None:
    assert java_hash(text) == expected


def test_the_one_number_without_a_positive_twin_goes_to_the_first_partition() -> None:
    assert partition_for("polygenelubricants", 50) == 0
