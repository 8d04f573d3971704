"""Moving replicas (KIP-455): one test a rule, answers as Kafka's controller gives them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.unit.controller.stand_ins import apply, cluster_of, commit, topic_id

from bifrost.controller.core.elections import broker_leaves
from bifrost.controller.core.image import MetadataImage
from bifrost.controller.core.partition_changes import (
    ChangedPartition,
    IsrChange,
    IsrMember,
    TopicIsrChanges,
    alter_partitions,
)
from bifrost.controller.core.partitions import MorePartitions, create_partitions
from bifrost.controller.core.reassignments import TopicMoves, WantedMove, alter_reassignments, list_reassignments
from bifrost.controller.core.records import BrokerFenced, ConfigChanged, PartitionCreated, TopicCreated, TopicDeleted
from bifrost.controller.core.state import Partition
from bifrost.errors import ErrorCode
from bifrost.settings import Settings

T = topic_id(100)
NONE = ErrorCode.NONE


def cluster(replicas: tuple[int, ...] = (1, 2), isr: tuple[int, ...] | None = None) -> MetadataImage:
    """Brokers 1 to 5 and one partition that the first of its ISR leads."""
    image = cluster_of(1, 2, 3, 4, 5)
    isr = replicas if isr is None else isr
    apply(image, [TopicCreated("t", T), PartitionCreated(T, 0, replicas, isr, isr[0], 4, 6)])
    return image


def part(image: MetadataImage) -> Partition:
    return image.topics["t"].partitions[0]


def move(
    image: MetadataImage,
    replicas: Sequence[int] | None,
    *,
    topic: str = "t",
    partition: int = 0,
    any_count: bool = True,
) -> ErrorCode:
    wanted = [TopicMoves(topic, [WantedMove(partition, replicas)])]
    decision = alter_reassignments(image, Settings(), wanted, allow_replication_factor_change=any_count)
    ((name, (answer,)),) = decision.result
    assert (name, answer.partition) == (topic, partition)
    if decision.records:
        commit(image, decision)
    return answer.error


def refused(image: MetadataImage, replicas: Sequence[int] | None, **wanted: object) -> ErrorCode:
    before = image.copy()
    code = move(image, replicas, **wanted)  # type: ignore[arg-type]
    assert image == before
    return code


def in_sync(image: MetadataImage, *members: int) -> ChangedPartition:
    """The leader says who is."""
    state = part(image)
    change = IsrChange(0, state.leader_epoch, state.partition_epoch, [IsrMember(one) for one in members])
    wanted = [TopicIsrChanges(T, [change])]
    epoch = image.brokers[state.leader].epoch
    decision = alter_partitions(image, wanted, broker_id=state.leader, broker_epoch=epoch)
    return commit(image, decision)[0].partitions[0]


def moving(image: MetadataImage) -> list[tuple[str, list[int]]]:
    return [(topic, [number for number, _ in parts]) for topic, parts in list_reassignments(image, None).result]


def test_new_replicas_stand_beside_the_old_ones_until_they_are_in_sync() -> None:
    image = cluster((1, 2))
    assert move(image, (3, 2)) is NONE
    assert part(image) == Partition((3, 2, 1), (2, 1), 1, 4, 7, (3,), (1,))
    assert moving(image) == [("t", [0])]


def test_a_move_ends_when_all_that_stay_are_in_sync_and_the_leader_that_goes_is_told() -> None:
    image = cluster((1, 2))
    move(image, (3, 2))
    assert in_sync(image, 1, 2, 3).error is ErrorCode.NEW_LEADER_ELECTED
    assert part(image) == Partition((3, 2), (3, 2), 3, 5, 8)
    assert moving(image) == []


def test_a_leader_that_stays_leads_on_in_a_new_epoch() -> None:
    image = cluster((1, 2))
    move(image, (1, 3))
    answer = in_sync(image, 1, 2, 3)
    assert (answer.error, answer.leader, answer.leader_epoch, answer.partition_epoch) == (NONE, 1, 5, 8)
    assert answer.isr == (1, 3)
    assert part(image) == Partition((1, 3), (1, 3), 1, 5, 8)


def test_a_move_goes_on_while_one_that_stays_is_missing() -> None:
    image = cluster((1, 2))
    move(image, (3, 4))
    assert in_sync(image, 1, 2, 3).error is NONE
    assert part(image) == Partition((3, 4, 1, 2), (3, 1, 2), 1, 4, 8, (3, 4), (1, 2))
    assert in_sync(image, 1, 3, 4).error is ErrorCode.NEW_LEADER_ELECTED
    assert part(image) == Partition((3, 4), (3, 4), 3, 5, 9)


def test_an_old_replica_that_is_out_of_sync_holds_nothing_up_when_it_goes() -> None:
    image = cluster((1, 2), isr=(1,))
    move(image, (1, 3))
    in_sync(image, 1, 3)
    assert part(image) == Partition((1, 3), (1, 3), 1, 5, 8)


def test_replicas_that_only_go_are_gone_at_once() -> None:
    image = cluster((1, 2, 3))
    assert move(image, (2, 3)) is NONE
    assert part(image) == Partition((2, 3), (2, 3), 2, 5, 7)


def test_replicas_that_only_go_stay_while_the_others_are_not_in_sync() -> None:
    image = cluster((1, 2, 3), isr=(1,))
    assert move(image, (2, 3)) is NONE
    assert part(image) == Partition((2, 3, 1), (1,), 1, 4, 7, (), (1,))
    in_sync(image, 1, 2, 3)
    assert part(image) == Partition((2, 3), (2, 3), 2, 5, 8)


def test_another_order_is_no_move_and_starts_no_leader_epoch() -> None:
    image = cluster((1, 2, 3))
    assert move(image, (3, 1, 2)) is NONE
    assert part(image) == Partition((3, 1, 2), (3, 1, 2), 1, 4, 7)
    assert image.index.not_led(3) == {T: 1}


def test_what_is_asked_for_twice_changes_nothing() -> None:
    image = cluster((1, 2))
    move(image, (3, 2))
    before = image.copy()
    assert move(image, (3, 2)) is NONE
    assert move(cluster((1, 2)), (1, 2)) is NONE
    assert image == before


def test_giving_up_brings_the_old_replicas_back() -> None:
    image = cluster((1, 2))
    move(image, (3, 2))
    assert move(image, None) is NONE
    assert part(image) == Partition((2, 1), (2, 1), 1, 5, 8)
    assert moving(image) == []


def test_giving_up_takes_the_lead_from_a_new_replica() -> None:
    image = cluster((1, 2))
    move(image, (3, 4))
    in_sync(image, 1, 2, 3)
    apply(image, [*broker_leaves(image, 1), BrokerFenced(1)])
    assert part(image).leader == 3
    assert move(image, None) is NONE
    assert part(image) == Partition((1, 2), (2,), 2, 6, 10)


def test_giving_up_is_refused_where_only_new_replicas_are_in_sync() -> None:
    image = cluster((1,))
    move(image, (3, 4))
    in_sync(image, 1, 3)
    apply(image, [*broker_leaves(image, 1), BrokerFenced(1)])
    assert refused(image, None) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    apply(image, [ConfigChanged(2, "t", "unclean.leader.election.enable", "true")])
    assert move(image, None) is NONE
    assert (part(image).replicas, part(image).isr, part(image).leader) == ((1,), (1,), -1)


def test_giving_up_what_does_not_move() -> None:
    assert refused(cluster(), None) is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_a_move_that_is_overtaken_is_given_up_to_what_was_before_the_first() -> None:
    image = cluster((1, 2))
    move(image, (3, 2))
    in_sync(image, 1, 2)
    assert move(image, (4, 2)) is NONE
    state = part(image)
    assert (state.replicas, state.adding, state.removing) == ((4, 2, 1, 3), (3, 4), (1, 3))
    assert (state.target, state.origin) == ((4, 2), (2, 1))
    assert move(image, None) is NONE
    assert part(image).replicas == (2, 1)


def test_a_move_that_is_overtaken_ends_with_the_second() -> None:
    image = cluster((1, 2))
    move(image, (3, 2))
    move(image, (4, 2))
    in_sync(image, 1, 2, 4)
    assert (part(image).replicas, part(image).isr, part(image).is_moving) == ((4, 2), (4, 2), False)


def test_a_new_replica_that_dies_is_waited_for() -> None:
    image = cluster((1, 2))
    move(image, (3, 2))
    before = part(image)
    apply(image, [*broker_leaves(image, 3), BrokerFenced(3)])
    assert part(image) == before


def test_a_leader_that_dies_on_the_way_is_replaced_and_the_move_goes_on() -> None:
    image = cluster((1, 2))
    move(image, (3, 4))
    apply(image, [*broker_leaves(image, 1), BrokerFenced(1)])
    assert (part(image).leader, part(image).isr, part(image).adding) == (2, (2,), (3, 4))
    in_sync(image, 2, 3, 4)
    assert (part(image).replicas, part(image).leader) == ((3, 4), 3)


@pytest.mark.parametrize("wanted", [{"topic": "u"}, {"partition": 1}, {"partition": -1}])
def test_what_is_not_there_is_not_moved(wanted: dict[str, object]) -> None:
    assert refused(cluster(), (1, 2), **wanted) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert refused(cluster(), None, **wanted) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("replicas", [(), (1, 1), (1, -1), (1, 9)])
def test_brokers_that_cannot_hold_a_partition(replicas: tuple[int, ...]) -> None:
    assert refused(cluster(), replicas) is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_a_fenced_broker_may_be_named_and_is_waited_for() -> None:
    image = cluster((1, 2))
    apply(image, [BrokerFenced(3)])
    assert move(image, (3,)) is NONE
    assert part(image).adding == (3,)


def test_the_number_of_replicas_may_be_insisted_on() -> None:
    image = cluster((1, 2))
    assert refused(image, (1, 2, 3), any_count=False) is ErrorCode.INVALID_REPLICATION_FACTOR
    assert move(image, (1, 3), any_count=False) is NONE
    assert refused(image, (1, 2, 3), any_count=False) is ErrorCode.INVALID_REPLICATION_FACTOR
    assert move(image, (1, 4), any_count=False) is NONE
    assert move(image, None, any_count=False) is NONE


def test_one_partition_does_not_spoil_the_others_and_is_moved_once() -> None:
    wanted = [TopicMoves("t", [WantedMove(7, (1,)), WantedMove(0, (1, 3)), WantedMove(0, (1, 4))])]
    decision = alter_reassignments(cluster(), Settings(), wanted)
    codes = [answer.error for answer in decision.result[0].partitions]
    assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NONE, ErrorCode.INVALID_REQUEST]
    assert len(decision.records) == 1


def test_moves_are_listed_by_name_and_forgotten_with_their_topic() -> None:
    image = cluster((1, 2))
    apply(image, [PartitionCreated(T, 1, (1, 2), (1, 2), 1)])
    move(image, (3, 2))
    assert list_reassignments(image, {"t": [1], "u": [0]}).result == []
    ((name, ((number, state),)),) = list_reassignments(image, {"t": [0, 1, 5]}).result
    assert (name, number, state) == ("t", 0, part(image))
    apply(image, [TopicDeleted(T)])
    assert moving(image) == []


def test_new_partitions_have_as_many_replicas_as_there_shall_be_in_the_end() -> None:
    image = cluster((1, 2))
    move(image, (3, 4))
    commit(image, create_partitions(image, [MorePartitions("t", 2)]))
    assert len(image.topics["t"].partitions[1].replicas) == 2
