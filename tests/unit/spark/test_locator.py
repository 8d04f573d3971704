"""Partitions and offsets, asked of a cluster that answers from a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from bifrost.client.errors import UnknownPartitionError, UnknownTopicError, UnreachableError
from bifrost.spark.failures import OptionError
from bifrost.spark.limits import AtEdge, AtOffsets, AtTimestamp, AtTimestamps
from bifrost.spark.locator import Locator
from bifrost.spark.offsets import EARLIEST, LATEST
from bifrost.spark.option_table import Use
from bifrost.spark.read_options import read_options
from bifrost.types import TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


@dataclass(frozen=True)
class At:
    offset: int


@dataclass
class Table:
    """Partitions that begin at 10 and end at 100, and have records of the times 0 to 1000."""

    counts: dict[str, int] = field(default_factory=lambda: {"a": 2, "b": 1, "__consumer_offsets": 1})
    ends: list[int] = field(default_factory=list)
    """Told one by one before the true end."""
    failures: int = 0
    asked: int = 0

    def topics(self) -> list[str]:
        return list(self.counts)

    def partitions(self, topic: str) -> list[int]:
        self.asked += 1
        return list(range(self.counts[topic]))

    def list_offsets(
        self, questions: Mapping[tuple[str, int], int], isolation: str
    ) -> Mapping[tuple[str, int], At | None]:
        if self.failures:
            self.failures -= 1
            raise UnreachableError("nobody there")
        end = self.ends.pop(0) if self.ends else 100
        answers = {EARLIEST: At(10), LATEST: At(end)}
        return {
            each: answers.get(question, At(50) if question <= 1000 else None) for each, question in questions.items()
        }


def locator(table: Table, **given: str) -> Locator:
    common = {"kafka.bootstrap.servers": "x:1", "fetchOffset.retryIntervalMs": "0"}
    if not given.keys() & {"subscribePattern", "assign"}:
        common["subscribe"] = "a"
    return Locator(
        table, read_options(common | {name.replace("_", "."): value for name, value in given.items()}, Use.STREAM_READ)
    )


def test_partitions_of_topics() -> None:
    assert locator(Table(), subscribe="b,a").partitions() == [A0, A1, B0]


def test_a_pattern_is_searched_for_and_never_finds_what_belongs_to_the_broker() -> None:
    assert locator(Table(), subscribePattern="[ab]|offsets").partitions() == [A0, A1, B0]
    assert locator(Table(), subscribePattern="^x").partitions() == []


def test_assigned_partitions_must_exist() -> None:
    assert locator(Table(), assign='{"a":[1]}').partitions() == [A1]
    with pytest.raises(UnknownPartitionError, match=r"no partition a-7.*There are a-0, a-1"):
        locator(Table(), assign='{"a":[1,7]}').partitions()


def test_partitions_are_remembered_only_if_asked() -> None:
    table = Table()
    forgetful, remembering = locator(table), locator(table, partition_metadata_cache_ttl_ms="60000")
    for each, questions in ((forgetful, 2), (remembering, 1)):
        table.asked = 0
        each.partitions()
        each.partitions()
        assert table.asked == questions


def test_edges() -> None:
    assert locator(Table()).resolve(AtEdge(EARLIEST), "startingOffsets") == {A0: 10, A1: 10}
    assert locator(Table()).resolve(AtEdge(LATEST), "startingOffsets") == {A0: 100, A1: 100}
    assert locator(Table()).earliest([A1, B0]) == {A1: 10}, "b is not subscribed to"


def test_offsets_must_name_every_partition() -> None:
    found = locator(Table())
    assert found.resolve(AtOffsets({A0: EARLIEST, A1: 33}), "startingOffsets") == {A0: 10, A1: 33}
    with pytest.raises(OptionError, match="startingOffsets says nothing about a-1"):
        found.resolve(AtOffsets({A0: 1}), "startingOffsets")
    with pytest.raises(OptionError, match="endingOffsets names b-0"):
        found.resolve(AtOffsets({A0: 1, A1: 1, B0: 1}), "endingOffsets")


def test_timestamps() -> None:
    found = locator(Table())
    assert found.resolve(AtTimestamp(5, or_latest=False), "startingOffsets") == {A0: 50, A1: 50}
    later = AtTimestamps({A0: 5, A1: 2000}, or_latest=True)
    assert found.resolve(later, "startingOffsets") == {A0: 50, A1: 100}
    with pytest.raises(OptionError, match="a-1 has no record from the time 2000 on"):
        found.resolve(AtTimestamps({A0: 5, A1: 2000}, or_latest=False), "startingOffsets")
    with pytest.raises(OptionError, match="startingOffsetsByTimestamp says nothing about a-1"):
        found.resolve(AtTimestamps({A0: 5}, or_latest=False), "startingOffsets")


def test_an_end_before_what_was_read_is_asked_for_again() -> None:
    assert locator(Table(ends=[80])).latest({A0: 90}) == {A0: 100, A1: 100}


def test_an_end_before_what_was_read_is_believed_in_the_end() -> None:
    assert locator(Table(ends=[80, 80, 80])).latest({A0: 90}) == {A0: 80, A1: 80}


def test_a_broker_that_is_away_is_asked_again_but_not_for_ever() -> None:
    assert locator(Table(failures=2)).latest() == {A0: 100, A1: 100}
    with pytest.raises(UnreachableError):
        locator(Table(failures=3)).latest()


def test_a_cluster_that_never_answered_is_asked_once_and_its_option_named() -> None:
    """The client tries for ten seconds by itself; three times that is no better answer to a wrong address."""

    class Nobody(Table):
        def partitions(self, topic: str) -> list[int]:
            self.asked += 1
            raise UnreachableError("no broker answers at x:1", "Is it running?")

    nobody = Nobody()
    with pytest.raises(UnreachableError, match=r"kafka\.bootstrap\.servers: no broker answers at x:1\. Is it running"):
        locator(nobody, subscribe="a").partitions()
    assert nobody.asked == 1


@pytest.mark.parametrize(("option", "value"), [("subscribe", "a,gone"), ("assign", '{"gone":[0]}')])
def test_a_topic_that_does_not_exist_is_told_with_the_option_that_names_it(option: str, value: str) -> None:
    class Honest(Table):
        def partitions(self, topic: str) -> list[int]:
            if topic not in self.counts:
                raise UnknownTopicError(f"topic {topic} does not exist", "Create it.")
            return super().partitions(topic)

    with pytest.raises(UnknownTopicError, match=f"{option}: topic gone does not exist. Create it"):
        locator(Honest(), **{option: value}).partitions()
