"""Log directories of brokers, as the controller knows them (KIP-858): one test a rule."""

from __future__ import annotations

import pytest
from tests.unit.controller.stand_ins import CLUSTER, apply, commit, create, directory_of, registration, topic_id

from bifrost.controller.core.brokers import register_broker
from bifrost.controller.core.cluster import open_cluster
from bifrost.controller.core.directories import Assigned, assign_directories
from bifrost.controller.core.elect_leaders import ElectionType, elect_leaders
from bifrost.controller.core.heartbeats import Heartbeat, heartbeat
from bifrost.controller.core.image import MetadataImage
from bifrost.controller.core.partition_changes import IsrChange, IsrMember, TopicIsrChanges, alter_partitions
from bifrost.controller.core.reassignments import TopicMoves, WantedMove, alter_reassignments
from bifrost.controller.core.records import NO_LEADER, PartitionChanged
from bifrost.controller.core.state import LOST_DIRECTORY, UNASSIGNED_DIRECTORY, Partition
from bifrost.controller.core.topics import NewTopic
from bifrost.errors import ApiError, ErrorCode
from bifrost.settings import Settings

T = topic_id(100)


def cluster(*counts: int) -> MetadataImage:
    """Brokers from 1 on, with so many directories each, and a topic of one partition on all of them."""
    image = MetadataImage()
    commit(image, open_cluster(image, CLUSTER))
    for broker, count in enumerate(counts, 1):
        directories = tuple(directory_of(broker, number) for number in range(count))
        commit(image, register_broker(image, registration(broker, directories=directories)))
    create(image, NewTopic("t", assignments=[(0, list(range(1, len(counts) + 1)))]))
    return image


def partition(image: MetadataImage) -> Partition:
    return image.topics["t"].partitions[0]


def assign(image: MetadataImage, broker: int, number: int, *, topic: bytes = T, index: int = 0) -> ErrorCode:
    wanted = [Assigned(directory_of(broker, number), topic, index)]
    decision = assign_directories(image, wanted, broker_id=broker, broker_epoch=image.brokers[broker].epoch)
    if decision.records:
        commit(image, decision)
    return decision.result[0]


def fail(image: MetadataImage, broker: int, *numbers: int) -> None:
    asked = Heartbeat(
        broker_id=broker,
        broker_epoch=image.brokers[broker].epoch,
        metadata_offset=image.offset,
        failed_directories=tuple(directory_of(broker, number) for number in numbers),
    )
    decision = heartbeat(image, asked, {})
    if decision.records:
        commit(image, decision)


def restart(image: MetadataImage, broker: int, *numbers: int, fenced: bool = False) -> None:
    directories = tuple(directory_of(broker, number) for number in numbers)
    commit(image, register_broker(image, registration(broker, 2, directories=directories), fenced=fenced))


def test_where_a_new_replica_is_follows_if_its_broker_has_one_directory_only() -> None:
    image = cluster(1, 2)
    assert partition(image).directories == (directory_of(1), UNASSIGNED_DIRECTORY)
    assert partition(cluster(2, 2)).directories == (), "nobody knows any of them"


def test_a_broker_says_where_its_replica_is() -> None:
    image = cluster(2, 2)
    before = partition(image)
    assert assign(image, 2, 1) is ErrorCode.NONE
    after = partition(image)
    assert after.directories == (UNASSIGNED_DIRECTORY, directory_of(2, 1))
    assert (after.leader, after.leader_epoch, after.isr) == (before.leader, before.leader_epoch, before.isr)
    assert after.partition_epoch == before.partition_epoch + 1
    offset = image.offset
    assert assign(image, 2, 1) is ErrorCode.NONE
    assert image.offset == offset, "to say it twice changes nothing"


def test_what_cannot_be_assigned_is_told_one_by_one() -> None:
    image = cluster(2, 2)
    create(image, NewTopic("other", assignments=[(0, [1])]))
    assert assign(image, 2, 0, topic=topic_id(7)) is ErrorCode.UNKNOWN_TOPIC_ID
    assert assign(image, 2, 0, index=5) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert assign(image, 2, 0, topic=topic_id(101)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    with pytest.raises(ApiError, match="not registered") as refused:
        assign_directories(image, [], broker_id=9, broker_epoch=0)
    assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_a_failed_directory_takes_leadership_and_isr_from_its_replicas_alone() -> None:
    image = cluster(2, 2)
    create(image, NewTopic("u", assignments=[(0, [1, 2])]))
    assign(image, 1, 0)
    assign(image, 1, 1, topic=topic_id(101))
    fail(image, 1, 0)
    assert (partition(image).leader, partition(image).isr) == (2, (2,))
    other = image.topics["u"].partitions[0]
    assert (other.leader, other.isr, other.leader_epoch) == (1, (1, 2), 0)
    assert image.brokers[1].directories == (directory_of(1, 1),)
    assert not image.brokers[1].fenced
    offset = image.offset
    fail(image, 1, 0)
    assert image.offset == offset, "a broker says it again with every heartbeat"


def test_a_replica_that_is_alone_in_sync_stays_so_and_leads_no_more() -> None:
    image = cluster(2)
    assign(image, 1, 0)
    fail(image, 1, 0)
    assert (partition(image).leader, partition(image).isr) == (NO_LEADER, (1,))


def test_a_replica_of_unknown_whereabouts_is_sound_until_its_broker_says_otherwise() -> None:
    image = cluster(2, 2)
    fail(image, 1, 0)
    assert partition(image).leader == 1
    assert assign(image, 1, 0) is ErrorCode.NONE
    assert (partition(image).leader, partition(image).isr) == (2, (2,)), "it was in the directory that failed"


def test_it_leads_again_when_its_directory_is_back() -> None:
    image = cluster(2)
    assign(image, 1, 0)
    fail(image, 1, 0)
    restart(image, 1, 0, 1)
    assert partition(image).leader == 1


@pytest.mark.parametrize("fenced", [False, True])
def test_another_directory_in_the_place_of_a_lost_one_does_not_make_an_empty_log_lead(fenced: bool) -> None:
    image = cluster(2)
    assign(image, 1, 0)
    fail(image, 1, 0)
    restart(image, 1, 1, 2, fenced=fenced)
    assert assign(image, 1, 2) is ErrorCode.NONE
    fail(image, 1)
    assert not image.brokers[1].fenced
    assert (partition(image).leader, partition(image).isr) == (NO_LEADER, (1,))
    result = commit(image, elect_leaders(image, ElectionType.UNCLEAN, [("t", 0)], log_ends={(T, 0): {1: (0, 0)}}))  # type: ignore[dict-item]
    assert result[0].error is ErrorCode.NONE
    assert (partition(image).leader, partition(image).directory_of(1)) == (1, UNASSIGNED_DIRECTORY)
    assign(image, 1, 2)
    assert partition(image).directory_of(1) == directory_of(1, 2)


def test_nobody_joins_an_isr_from_a_directory_that_has_failed() -> None:
    image = cluster(1, 2)
    assign(image, 2, 0)
    fail(image, 2, 0)
    state = partition(image)
    members = [IsrMember(1), IsrMember(2)]
    wanted = [TopicIsrChanges(T, [IsrChange(0, state.leader_epoch, state.partition_epoch, members)])]
    epoch = image.brokers[1].epoch
    ((answer,),) = [one.partitions for one in alter_partitions(image, wanted, broker_id=1, broker_epoch=epoch).result]
    assert answer.error is ErrorCode.INELIGIBLE_REPLICA
    assign(image, 2, 1)
    state = partition(image)
    wanted = [TopicIsrChanges(T, [IsrChange(0, state.leader_epoch, state.partition_epoch, members)])]
    commit(image, alter_partitions(image, wanted, broker_id=1, broker_epoch=epoch))
    assert partition(image).isr == (1, 2)


def test_replicas_that_move_to_other_brokers_take_their_directories_along() -> None:
    image = cluster(2, 2, 1)
    assign(image, 1, 1)
    commit(image, alter_reassignments(image, Settings(), [TopicMoves("t", [WantedMove(0, [3, 1])])]))
    state = partition(image)
    assert state.replicas == (3, 1)
    assert state.directories == (directory_of(3), directory_of(1, 1))
    apply(image, [PartitionChanged(T, 0, replicas=(1, 3))])
    assert partition(image).directories == (directory_of(1, 1), directory_of(3))


def test_a_broker_without_any_directory_left_has_none_that_works() -> None:
    image = cluster(2, 1)
    assign(image, 1, 1)
    fail(image, 1, 0, 1)
    assert image.brokers[1].directories == (LOST_DIRECTORY,)
    assert partition(image).leader == 2
    assert not image.brokers[1].has_online(LOST_DIRECTORY)


@pytest.mark.parametrize(
    ("directories", "reason"),
    [
        ((directory_of(2), directory_of(2)), "twice"),
        ((LOST_DIRECTORY,), "nobody's"),
        ((directory_of(1),), "same log directory as broker 1"),
    ],
)
def test_a_directory_is_one_brokers(directories: tuple[bytes, ...], reason: str) -> None:
    image = cluster(1)
    with pytest.raises(ApiError, match=reason) as refused:
        register_broker(image, registration(2, directories=directories))
    assert refused.value.code is ErrorCode.INVALID_REGISTRATION
