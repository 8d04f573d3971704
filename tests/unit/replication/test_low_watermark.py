"""Records that are deleted on request: what is refused, and when no replica shows them any more (KIP-107)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bifrost.errors import ErrorCode
from bifrost.types import NodeId
from tests.unit.replication.test_leader_isr import EPOCHS, ME, SECOND, THIRD, Led
from tests.unit.replication.test_partition import Hosted, code_of, led


def fetch(it: Led, follower: NodeId, start: int) -> bool:
    """Whether whoever waits for deletions should look again."""
    return it.core.on_fetch(follower, EPOCHS[follower], 10, it.now_ms, start).start_moved


def test_it_is_where_the_last_replica_begins() -> None:
    it = Led(end=10)
    assert it.core.low_watermark(5) == -1, "nobody has been heard of"
    assert fetch(it, SECOND, 5)
    assert fetch(it, THIRD, 3)
    assert it.core.low_watermark(5) == 3
    assert fetch(it, THIRD, 7)
    assert it.core.low_watermark(5) == 5
    assert not fetch(it, THIRD, 7)


def test_a_broker_that_is_gone_is_not_waited_for() -> None:
    it = Led(end=10)
    fetch(it, SECOND, 5)
    assert it.core.low_watermark(5) == -1
    del it.live[THIRD]
    assert it.core.low_watermark(5) == 5


def test_alone_it_is_the_leaders_own() -> None:
    it = Led(isr=(1,), end=10)
    it.core.on_partition((ME,), frozenset({ME}), 99)
    assert it.core.low_watermark(6) == 6


def filled(count: int = 4) -> Hosted:
    hosted = led()
    for _ in range(count):
        hosted.append()
    hosted.log.flush()
    return hosted


def test_records_before_the_offset_are_gone() -> None:
    hosted = filled()
    assert hosted.partition.delete_records(3) == 3
    assert hosted.log.log_start_offset == 3
    assert code_of(lambda: hosted.read(2)) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert len(hosted.read(3)) == 1


def test_minus_one_stands_for_all_that_is_committed() -> None:
    hosted = filled()
    hosted.append()
    assert hosted.partition.delete_records(-1) == 4, "the fifth is not on disk yet"


@pytest.mark.parametrize("offset", [5, 1 << 62, -2, -5])
def test_what_is_not_committed_cannot_be_deleted(offset: int) -> None:
    hosted = filled()
    assert code_of(lambda: hosted.partition.delete_records(offset)) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert hosted.log.log_start_offset == 0


def test_what_is_gone_already_may_be_deleted_again() -> None:
    hosted = filled()
    hosted.partition.delete_records(3)
    assert hosted.partition.delete_records(1) == 1
    assert hosted.log.log_start_offset == 3


def test_a_topic_whose_policy_is_empty_lets_records_go() -> None:
    """Kafka: Partition.deleteRecordsOnLeader."""
    hosted = filled()
    hosted.log.config = replace(hosted.log.config, deletes=False)
    assert hosted.partition.delete_records(3) == 3


def test_a_topic_that_is_only_compacted_keeps_its_records() -> None:
    hosted = filled()
    hosted.log.config = replace(hosted.log.config, deletes=False, compacted=True)
    assert code_of(lambda: hosted.partition.delete_records(1)) is ErrorCode.POLICY_VIOLATION


def test_only_a_leader_deletes() -> None:
    hosted = filled()
    hosted.partition.follow(NodeId(2), 1, (ME, NodeId(2)))
    assert code_of(lambda: hosted.partition.delete_records(1)) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_the_leader_counts_from_when_its_start_is_on_disk() -> None:
    hosted = filled()
    hosted.partition.delete_records(3)
    woken, nudged = hosted.woken, hosted.nudged
    assert hosted.partition.low_watermark == 0
    hosted.log.start_is_stored(3)
    assert hosted.partition.low_watermark == 3
    assert (hosted.woken, hosted.nudged) == (woken, nudged + 1), "readers have nothing to look at"
