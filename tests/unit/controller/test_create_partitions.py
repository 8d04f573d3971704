"""CreatePartitions: one test a rule, answers as a 4.3 controller gives them."""

from __future__ import annotations

import pytest
from tests.unit.controller.stand_ins import apply, cluster_of, commit, create

from bifrost.controller.core.image import MetadataImage
from bifrost.controller.core.partitions import MorePartitions, create_partitions
from bifrost.controller.core.records import BrokerFenced, BrokerShuttingDown, BrokerUnregistered
from bifrost.controller.core.topics import NewTopic
from bifrost.errors import ApiError, ErrorCode


@pytest.fixture
def image() -> MetadataImage:
    image = cluster_of(0, 1, 2)
    create(image, NewTopic("t", 2, 2))
    return image


def codes(image: MetadataImage, *wanted: MorePartitions) -> list[tuple[str, ErrorCode]]:
    return [one[:2] for one in commit(image, create_partitions(image, wanted))]


def test_new_partitions_go_on_in_the_rotation(image: MetadataImage) -> None:
    assert codes(image, MorePartitions("t", 4)) == [("t", ErrorCode.NONE)]
    assert [part.replicas for part in image.topics["t"].partitions] == [(0, 1), (1, 2), (2, 0), (0, 2)]


def test_the_rotation_goes_on_when_its_first_broker_is_away(image: MetadataImage) -> None:
    apply(image, [BrokerFenced(0)])
    codes(image, MorePartitions("t", 4))
    assert {broker for part in image.topics["t"].partitions[2:] for broker in part.replicas} == {1, 2}


@pytest.mark.parametrize("total", [2, 1, 0, -1])
def test_the_number_only_grows(image: MetadataImage, total: int) -> None:
    assert codes(image, MorePartitions("t", total)) == [("t", ErrorCode.INVALID_PARTITIONS)]


def test_the_topic_must_exist(image: MetadataImage) -> None:
    assert codes(image, MorePartitions("nope", 5)) == [("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]


def test_a_manual_assignment_is_taken_as_it_is(image: MetadataImage) -> None:
    assert codes(image, MorePartitions("t", 3, [[2, 1]])) == [("t", ErrorCode.NONE)]
    assert image.topics["t"].partitions[2].replicas == (2, 1)


@pytest.mark.parametrize("assignments", [[[0, 1]], [], [[0], [1]], [[0, 0], [1, 2]], [[0, 9], [1, 2]], [[], [1, 2]]])
def test_an_impossible_assignment_is_refused(image: MetadataImage, assignments: list[list[int]]) -> None:
    assert codes(image, MorePartitions("t", 4, assignments)) == [("t", ErrorCode.INVALID_REPLICA_ASSIGNMENT)]
    assert len(image.topics["t"].partitions) == 2


def test_a_topic_named_twice_is_answered_once_and_the_others_grow(image: MetadataImage) -> None:
    create(image, NewTopic("u"))
    assert codes(image, MorePartitions("t", 4), MorePartitions("t", 5), MorePartitions("u", 2)) == [
        ("t", ErrorCode.INVALID_REQUEST),
        ("u", ErrorCode.NONE),
    ]


def test_validate_only_records_nothing(image: MetadataImage) -> None:
    decision = create_partitions(image, [MorePartitions("t", 4)], validate_only=True)
    assert list(decision.records) == []
    assert decision.result[0].error is ErrorCode.NONE


def test_too_many_refuse_the_whole_request(image: MetadataImage) -> None:
    with pytest.raises(ApiError) as refused:
        create_partitions(image, [MorePartitions("t", 10_003)])
    assert refused.value.code is ErrorCode.POLICY_VIOLATION


def test_fenced_brokers_follow_where_live_ones_are_too_few(image: MetadataImage) -> None:
    apply(image, [BrokerFenced(0), BrokerFenced(1)])
    assert codes(image, MorePartitions("t", 4)) == [("t", ErrorCode.NONE)]
    added = image.topics["t"].partitions[2:]
    assert [(part.leader, part.isr) for part in added] == [(2, (2,)), (2, (2,))]
    assert {part.replicas for part in added} == {(2, 0), (2, 1)}


def test_more_replicas_than_brokers_are_refused(image: MetadataImage) -> None:
    create(image, NewTopic("u", 1, 3))
    apply(image, [BrokerUnregistered(0, image.brokers[0].epoch)])
    assert codes(image, MorePartitions("u", 2)) == [("u", ErrorCode.INVALID_REPLICATION_FACTOR)]


def test_nobody_lives_to_lead(image: MetadataImage) -> None:
    apply(image, [BrokerFenced(0), BrokerFenced(1), BrokerShuttingDown(2)])
    assert codes(image, MorePartitions("t", 3)) == [("t", ErrorCode.INVALID_REPLICATION_FACTOR)]
