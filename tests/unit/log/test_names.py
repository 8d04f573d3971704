"""Names on disk are Kafka's, and nothing that a client can send leads out of a log directory."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bifrost.log.names import (
    deleted_directory,
    offset_of,
    partition_directory,
    partition_of,
    segment_path,
    stray_directory,
)
from bifrost.types import TopicPartition


def test_segment_files_are_named_by_twenty_digits() -> None:
    assert segment_path("/d", 42, ".log") == "/d/00000000000000000042.log"
    assert offset_of("00000000000000000042.log", ".log") == 42
    assert offset_of("00000000000000000042.log.swap", ".log") is None
    assert offset_of("leader-epoch-checkpoint", ".log") is None
    assert offset_of("0000000000000000004x.log", ".log") is None


@pytest.mark.parametrize("name", ["orders-0", "a.b_c-d-12", "__consumer_offsets-49", "-0", "a--0"])
def test_partition_directories_round_trip(name: str) -> None:
    partition = partition_of(name)
    if name == "-0":
        assert partition is None, "a topic's name has at least one character"
    else:
        assert partition is not None
        assert partition_directory(partition) == name


@pytest.mark.parametrize(
    "name",
    ["orders", "orders-x", "orders-00", "..-0", ".-1", "a b-0", "orders-0.1f-delete", "orders-0.1f-stray", ".lock"],
)
def test_other_names_are_no_partitions(name: str) -> None:
    assert partition_of(name) is None


@pytest.mark.parametrize("topic", ["../etc", "a/b", "", ".", "..", "a" * 250, "naïve"])
def test_a_topic_never_leaves_its_directory(topic: str) -> None:
    with pytest.raises(AssertionError):
        partition_directory(TopicPartition(topic, 0))


@pytest.mark.parametrize(("rename", "suffix"), [(deleted_directory, "-delete"), (stray_directory, "-stray")])
def test_a_partition_that_leaves_gets_a_name_that_fits(
    rename: Callable[[TopicPartition, str], str], suffix: str
) -> None:
    unique = "0" * 32
    assert rename(TopicPartition("orders", 3), unique) == f"orders-3.{unique}{suffix}"
    longest = rename(TopicPartition("t" * 249, 7), unique)
    assert len(longest) == 255
    assert longest.endswith(suffix)
