"""AlterPartition: one test a rule; of several faults Kafka's first is answered."""

from __future__ import annotations

import pytest
from tests.unit.controller.stand_ins import apply, cluster_of, commit, topic_id

from bifrost.controller.core.image import MetadataImage
from bifrost.controller.core.partition_changes import (
    ChangedPartition,
    IsrChange,
    IsrMember,
    TopicIsrChanges,
    alter_partitions,
)
from bifrost.controller.core.records import (
    BrokerFenced,
    BrokerShuttingDown,
    BrokerUnregistered,
    MetadataRecord,
    PartitionChanged,
    PartitionCreated,
    TopicCreated,
)
from bifrost.controller.core.state import Partition
from bifrost.errors import ApiError, ErrorCode

T = topic_id(100)
LEADER_EPOCH, PARTITION_EPOCH = 5, 7


def cluster() -> MetadataImage:
    """Broker 1 leads partition 0 of `t` with 2 in sync; brokers 1 to 4 have the epochs 1 to 4."""
    image = cluster_of(1, 2, 3, 4)
    partition = PartitionCreated(T, 0, (1, 2, 3), (1, 2), 1, LEADER_EPOCH, PARTITION_EPOCH)
    apply(image, [TopicCreated("t", T), partition])
    return image


def change(
    *members: int | tuple[int, int], leader_epoch: int = LEADER_EPOCH, epoch: int = PARTITION_EPOCH
) -> IsrChange:
    isr = [IsrMember(*one) if isinstance(one, tuple) else IsrMember(one) for one in members]
    return IsrChange(0, leader_epoch, epoch, isr)


def alter(image: MetadataImage, asked: IsrChange, *, broker: int = 1, topic: bytes = T) -> ChangedPartition:
    decision = alter_partitions(image, [TopicIsrChanges(topic, [asked])], broker_id=broker, broker_epoch=broker)
    ((topic_id_answered, (answer,)),) = decision.result
    assert topic_id_answered == topic
    if decision.records:
        commit(image, decision)
    return answer


def code(image: MetadataImage, asked: IsrChange, *, broker: int = 1, topic: bytes = T) -> ErrorCode:
    """The error for a change that must not happen."""
    before = image.copy()
    answer = alter(image, asked, broker=broker, topic=topic)
    assert image == before
    return answer.error


def test_a_follower_joins_the_isr() -> None:
    image = cluster()
    answer = alter(image, change((1, 1), (2, 2), (3, 3)))
    assert answer == ChangedPartition(0, ErrorCode.NONE, None, 1, LEADER_EPOCH, PARTITION_EPOCH + 1, (1, 2, 3))
    assert image.partition("t", 0) == Partition((1, 2, 3), (1, 2, 3), 1, LEADER_EPOCH, PARTITION_EPOCH + 1)


def test_a_follower_leaves_the_isr_and_the_leader_epoch_stays() -> None:
    image = cluster()
    assert alter(image, change(1)).isr == (1,)
    assert image.partition("t", 0) == Partition((1, 2, 3), (1,), 1, LEADER_EPOCH, PARTITION_EPOCH + 1)


def test_an_isr_is_kept_in_the_order_of_the_assignment() -> None:
    assert alter(cluster(), change(3, 1, 2)).isr == (1, 2, 3)


def test_the_isr_that_there_is_changes_nothing_and_is_answered() -> None:
    image = cluster()
    before = image.copy()
    answer = alter(image, change(2, 1))
    assert (answer.error, answer.isr, answer.partition_epoch) == (ErrorCode.NONE, (1, 2), PARTITION_EPOCH)
    assert image == before


@pytest.mark.parametrize(("broker", "epoch"), [(1, 0), (1, 2), (9, 1)])
def test_an_earlier_start_of_the_leader_is_refused_as_a_whole(broker: int, epoch: int) -> None:
    with pytest.raises(ApiError) as refusal:
        alter_partitions(cluster(), [], broker_id=broker, broker_epoch=epoch)
    assert refusal.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_an_unknown_topic() -> None:
    assert code(cluster(), change(1), topic=topic_id(9)) is ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize("partition", [1, -1])
def test_an_unknown_partition(partition: int) -> None:
    asked = change(1)._replace(partition=partition)
    assert code(cluster(), asked) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(
    "asked", [change(1, leader_epoch=6), change(1, epoch=8), change(1, leader_epoch=4, epoch=8)], ids=str
)
def test_a_leader_that_knows_more_makes_this_not_the_controller(asked: IsrChange) -> None:
    assert code(cluster(), asked) is ErrorCode.NOT_CONTROLLER
    assert code(cluster(), asked, broker=2) is ErrorCode.NOT_CONTROLLER


def test_a_leader_of_an_earlier_epoch() -> None:
    assert code(cluster(), change(1, leader_epoch=4)) is ErrorCode.FENCED_LEADER_EPOCH
    assert code(cluster(), change(1, leader_epoch=4, epoch=6), broker=2) is ErrorCode.FENCED_LEADER_EPOCH


def test_a_broker_that_does_not_lead() -> None:
    assert code(cluster(), change(2), broker=2) is ErrorCode.INVALID_REQUEST
    assert code(cluster(), change(2, epoch=6), broker=2) is ErrorCode.INVALID_REQUEST


def test_a_leader_that_missed_a_change() -> None:
    assert code(cluster(), change(1, epoch=6)) is ErrorCode.INVALID_UPDATE_VERSION
    assert code(cluster(), change(9, epoch=6)) is ErrorCode.INVALID_UPDATE_VERSION


@pytest.mark.parametrize("members", [(1, 4), (1, 9), (1, 2, 2), (2, 3), ()])
def test_an_isr_that_cannot_be_one(members: tuple[int, ...]) -> None:
    assert code(cluster(), change(*members)) is ErrorCode.INVALID_REQUEST


def test_a_leader_that_has_recovered_cannot_be_recovering() -> None:
    assert code(cluster(), change(1)._replace(recovering=True)) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("gone", [BrokerFenced(3), BrokerShuttingDown(3), BrokerUnregistered(3, 3)], ids=str)
def test_a_member_that_is_away(gone: MetadataRecord) -> None:
    image = cluster()
    apply(image, [gone])
    assert code(image, change(1, 2, 3)) is ErrorCode.INELIGIBLE_REPLICA
    assert code(image, change(1, 3, 3)) is ErrorCode.INVALID_REQUEST


def test_a_leader_that_shuts_down_is_no_member_either() -> None:
    image = cluster()
    apply(image, [BrokerShuttingDown(1)])
    assert code(image, change(1)) is ErrorCode.INELIGIBLE_REPLICA


def test_another_start_of_a_member_than_the_leader_knows() -> None:
    assert code(cluster(), change((1, 1), (3, 2))) is ErrorCode.INELIGIBLE_REPLICA
    assert alter(cluster(), change((1, 1), (3, -1))).error is ErrorCode.NONE


def test_one_partition_does_not_spoil_the_others() -> None:
    image = cluster()
    apply(image, [PartitionCreated(T, 1, (1, 2), (1, 2), 1)])
    other = IsrChange(1, 0, 0, [IsrMember(1)])
    wanted = [TopicIsrChanges(topic_id(9), [change(1)]), TopicIsrChanges(T, [change(4), other])]
    decision = alter_partitions(image, wanted, broker_id=1, broker_epoch=1)
    assert [[one.error for one in topic.partitions] for topic in decision.result] == [
        [ErrorCode.UNKNOWN_TOPIC_ID],
        [ErrorCode.INVALID_REQUEST, ErrorCode.NONE],
    ]
    assert list(decision.records) == [PartitionChanged(T, 1, isr=(1,))]


def test_a_partition_is_changed_once_in_a_request() -> None:
    wanted = [TopicIsrChanges(T, [change(1), change(1, 2, 3)])]
    decision = alter_partitions(cluster(), wanted, broker_id=1, broker_epoch=1)
    assert [one.error for one in decision.result[0].partitions] == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
    assert list(decision.records) == [PartitionChanged(T, 0, isr=(1,))]
