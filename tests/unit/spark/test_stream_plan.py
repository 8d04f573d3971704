"""What a batch of a stream reads, and which losses it notices."""

from __future__ import annotations

from bifrost.spark.ranges import OffsetRange
from bifrost.spark.stream_plan import plan_batch, plan_first_batch
from bifrost.types import TopicPartition

A, B, C = (TopicPartition("t", number) for number in range(3))


def test_an_ordinary_batch() -> None:
    plan = plan_batch({A: 1, B: 2}, {A: 5, B: 2}, {})
    assert (plan.ranges, plan.losses) == ([OffsetRange(A, 1, 5)], [])


def test_a_new_partition_is_read_from_its_beginning() -> None:
    plan = plan_batch({A: 1}, {A: 1, B: 3}, {B: 0})
    assert (plan.ranges, plan.losses) == ([OffsetRange(B, 0, 3)], [])


def test_a_new_partition_that_has_lost_its_beginning() -> None:
    plan = plan_batch({A: 1}, {A: 1, B: 3}, {B: 2})
    assert plan.ranges == [OffsetRange(B, 2, 3)]
    assert plan.losses == ["t-1 is new but starts at offset 2, so records before it were missed"]


def test_a_new_partition_that_has_gone_again() -> None:
    plan = plan_batch({A: 1}, {A: 2, B: 3}, {})
    assert plan.ranges == [OffsetRange(A, 1, 2)]
    assert plan.losses == ["t-1 appeared and vanished again before anything was read"]


def test_partitions_that_are_gone() -> None:
    plan = plan_batch({A: 1, B: 5, C: 6}, {A: 2}, {})
    assert plan.ranges == [OffsetRange(A, 1, 2)]
    assert plan.losses == ["t-1, t-2 can no longer be found"]


def test_a_topic_that_was_made_anew() -> None:
    plan = plan_batch({A: 10, B: 0}, {A: 4, B: 1}, {})
    assert plan.ranges == [OffsetRange(B, 0, 1)]
    assert plan.losses == ["t-0 was read up to offset 10 but ends at 4 now: was the topic deleted and made anew?"]


def test_a_first_batch_that_is_planned_again_reads_what_it_recorded() -> None:
    """The run before this one planned up to `end` and died; meanwhile the topic has grown, also by a partition."""
    plan = plan_first_batch({A: 8, B: 0, C: 7}, {A: 5, B: 3})
    assert (plan.ranges, plan.losses) == ([OffsetRange(B, 0, 3)], [])


def test_a_first_batch_that_is_planned_again_without_its_partition() -> None:
    plan = plan_first_batch({A: 1}, {A: 5, B: 3})
    assert plan.ranges == [OffsetRange(A, 1, 5)]
    assert plan.losses == ["t-1 can no longer be found"]
