"""ElectLeaders and the rebalancing of leaders: one test a rule, answers as Kafka's controller gives them."""

from __future__ import annotations

import pytest
from tests.unit.controller.stand_ins import apply, cluster_of, commit, topic_id

from bifrost.controller.core.elect_leaders import ElectionResult, ElectionType, elect_leaders, rebalance_leaders
from bifrost.controller.core.image import MetadataImage
from bifrost.controller.core.records import NO_LEADER, BrokerFenced, BrokerShuttingDown, PartitionCreated, TopicCreated
from bifrost.controller.core.unclean_elections import LogEnd
from bifrost.errors import ApiError, ErrorCode

T = topic_id(100)
PREFERRED, UNCLEAN = ElectionType.PREFERRED, ElectionType.UNCLEAN
NONE = ErrorCode.NONE


def cluster_with(*partitions: tuple[tuple[int, ...], tuple[int, ...], int]) -> MetadataImage:
    """Brokers 1 to 3 and a topic whose partitions are given as replicas, ISR and leader."""
    image = cluster_of(1, 2, 3)
    created = [PartitionCreated(T, number, *partition) for number, partition in enumerate(partitions)]
    apply(image, [TopicCreated("t", T), *created])
    return image


def leaders(image: MetadataImage) -> list[int]:
    return [part.leader for part in image.topics["t"].partitions]


def codes(image: MetadataImage, election: int, *partitions: int) -> list[ErrorCode]:
    decision = elect_leaders(image, election, [("t", partition) for partition in partitions])
    return [one.error for one in commit(image, decision)]


def test_the_first_replica_leads_again() -> None:
    image = cluster_with(((1, 2), (1, 2), 2))
    assert codes(image, PREFERRED, 0) == [NONE]
    part = image.topics["t"].partitions[0]
    assert (part.leader, part.leader_epoch, part.isr) == (1, 1, (1, 2))


def test_a_first_replica_that_leads_needs_no_election() -> None:
    image = cluster_with(((1, 2), (1, 2), 1))
    assert codes(image, PREFERRED, 0) == [ErrorCode.ELECTION_NOT_NEEDED]


def test_a_first_replica_that_is_not_in_sync_is_not_elected() -> None:
    image = cluster_with(((1, 2), (2,), 2))
    assert codes(image, PREFERRED, 0) == [ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE]
    assert leaders(image) == [2]


@pytest.mark.parametrize("gone", [BrokerFenced(1), BrokerShuttingDown(1)], ids=str)
def test_a_first_replica_that_is_away_is_not_elected(gone: BrokerFenced) -> None:
    image = cluster_with(((1, 2), (1, 2), 2))
    apply(image, [gone])
    assert codes(image, PREFERRED, 0) == [ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE]


def test_what_does_not_exist_is_not_led() -> None:
    image = cluster_with(((1, 2), (1, 2), 2))
    wanted = [("t", 1), ("nope", 0), ("t", -1)]
    for election in (PREFERRED, UNCLEAN):
        results = elect_leaders(image, election, wanted).result
        assert [(one.topic, one.partition) for one in results] == wanted
        assert {one.error for one in results} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_an_unknown_kind_of_election_is_refused() -> None:
    with pytest.raises(ApiError) as refusal:
        elect_leaders(cluster_of(1), 2, None)
    assert refusal.value.code is ErrorCode.INVALID_REQUEST


def test_an_unclean_election_takes_the_first_live_replica_and_nobody_else_is_in_sync() -> None:
    image = cluster_with(((1, 2, 3), (1,), NO_LEADER))
    apply(image, [BrokerFenced(1)])
    assert codes(image, UNCLEAN, 0) == [NONE]
    part = image.topics["t"].partitions[0]
    assert (part.leader, part.isr, part.leader_epoch) == (2, (2,), 1)


def test_an_unclean_election_takes_the_longest_log_that_is_known() -> None:
    image = cluster_with(((1, 2, 3), (1,), NO_LEADER))
    apply(image, [BrokerFenced(1)])
    known = {(T, 0): {2: LogEnd(4, 70), 3: LogEnd(5, 60)}}
    commit(image, elect_leaders(image, UNCLEAN, [("t", 0)], log_ends=known))
    assert leaders(image) == [3]


def test_a_partition_with_a_leader_needs_no_unclean_election() -> None:
    image = cluster_with(((1, 2), (1, 2), 2))
    assert codes(image, UNCLEAN, 0) == [ErrorCode.ELECTION_NOT_NEEDED]


def test_no_live_replica_cannot_be_elected() -> None:
    image = cluster_with(((1, 2), (1,), NO_LEADER))
    apply(image, [BrokerFenced(1), BrokerFenced(2)])
    assert codes(image, UNCLEAN, 0) == [ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE]


def test_one_partition_does_not_spoil_the_others_and_a_repeated_one_is_answered_once() -> None:
    image = cluster_with(((1, 2), (1, 2), 2), ((1, 2), (1, 2), 1))
    decision = elect_leaders(image, PREFERRED, [("t", 1), ("t", 0), ("t", 0)])
    assert [(one.partition, one.error) for one in decision.result] == [(1, ErrorCode.ELECTION_NOT_NEEDED), (0, NONE)]
    assert len(decision.records) == 1


def test_all_partitions_are_tried_when_none_is_named_and_those_well_led_not_mentioned() -> None:
    image = cluster_with(((1, 2), (1, 2), 2), ((1, 2), (1, 2), 1), ((2, 1), (1,), 1), ((3, 1), (1, 3), 1))
    results = commit(image, elect_leaders(image, PREFERRED, None))
    assert [(one.partition, one.error) for one in results] == [
        (0, NONE),
        (2, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (3, NONE),
    ]
    assert leaders(image) == [1, 1, 1, 3]


def test_all_lost_partitions_are_tried_when_none_is_named() -> None:
    image = cluster_with(((1, 2), (1,), NO_LEADER), ((2, 3), (2, 3), 2))
    apply(image, [BrokerFenced(1)])
    assert commit(image, elect_leaders(image, UNCLEAN, None)) == [ElectionResult("t", 0)]
    assert leaders(image) == [2, 2]


TEN = [((1, 2), (1, 2), 1)] * 9 + [((1, 2), (1, 2), 2)]


@pytest.mark.parametrize(("percentage", "expected"), [(0, 1), (9, 1), (10, 2), (11, 2)])
def test_leaders_are_brought_home_above_the_share_that_is_tolerated(percentage: int, expected: int) -> None:
    image = cluster_with(*TEN)
    assert commit(image, rebalance_leaders(image, imbalance_percentage=percentage, elections_max=99)) is False
    assert leaders(image)[9] == expected


def test_each_broker_has_its_own_share() -> None:
    image = cluster_with(*TEN, ((2, 1), (1, 2), 1))
    commit(image, rebalance_leaders(image, imbalance_percentage=10, elections_max=99))
    assert leaders(image) == [1] * 9 + [2, 2]


def test_only_brokers_that_are_active_and_in_sync_get_leaderships_back() -> None:
    image = cluster_with(((1, 2), (2,), 2), ((3, 2), (2, 3), 2), ((1, 2), (1, 2), 2))
    apply(image, [BrokerShuttingDown(3)])
    commit(image, rebalance_leaders(image, imbalance_percentage=0, elections_max=99))
    assert leaders(image) == [2, 2, 1]


def test_no_more_leaders_move_at_once_than_is_allowed() -> None:
    image = cluster_with(*[((1, 2), (1, 2), 2)] * 5)
    assert commit(image, rebalance_leaders(image, imbalance_percentage=0, elections_max=3)) is True
    assert leaders(image) == [1, 1, 1, 2, 2]
    assert commit(image, rebalance_leaders(image, imbalance_percentage=0, elections_max=2)) is False
    assert leaders(image) == [1] * 5
