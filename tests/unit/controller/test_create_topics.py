"""CreateTopics: one test a rule. Codes and their order were captured from a 4.3 controller."""

from __future__ import annotations

import pytest
from tests.unit.controller.stand_ins import apply, cluster_of, create, create_one, refusal, topic_id

from bifrost.controller.core.records import BrokerFenced, BrokerShuttingDown
from bifrost.controller.core.topics import NewTopic, create_topics
from bifrost.errors import ApiError, ErrorCode
from bifrost.settings import Settings


def test_a_topic_gets_partitions_replicas_and_leaders() -> None:
    image = cluster_of(0, 1, 2)
    created = create_one(image, NewTopic("t", partitions=3, replication_factor=3))
    assert (created.error, created.message, created.topic_id) == (ErrorCode.NONE, None, topic_id(100))
    assert (created.partitions, created.replication_factor) == (3, 3)
    parts = image.topics["t"].partitions
    assert [part.replicas for part in parts] == [(0, 1, 2), (1, 2, 0), (2, 0, 1)]
    assert all(part.isr == part.replicas and part.leader == part.replicas[0] for part in parts)
    assert all((part.leader_epoch, part.partition_epoch) == (0, 0) for part in parts)


def test_topics_of_the_cluster_itself_do_not_move_the_rotation_of_others() -> None:
    image = cluster_of(0, 1, 2)
    rounds = [(0, 1, 2), (1, 2, 0), (2, 0, 1)]
    create_one(image, NewTopic("__consumer_offsets", partitions=50, replication_factor=3))
    create_one(image, NewTopic("t", partitions=3, replication_factor=3))
    assert [part.replicas for part in image.topics["t"].partitions] == rounds
    wanted = [NewTopic("one", 1, 3), NewTopic("__transaction_state", 4, 3), NewTopic("two", 1, 3)]
    create(image, *wanted)
    leaders = [image.topics[name].partitions[0].leader for name in ("one", "two")]
    assert leaders == [0, 1], "nor do they within one request"


def test_minus_one_takes_the_defaults() -> None:
    image = cluster_of(1, 2)
    created = create_one(image, NewTopic("t"), Settings(num_partitions=4, default_replication_factor=2))
    assert (created.partitions, created.replication_factor) == (4, 2)


def test_configs_are_stored_in_canonical_form_and_the_last_value_counts() -> None:
    image = cluster_of(1)
    created = create_one(image, NewTopic("t", configs=[("retention.ms", "1"), ("retention.ms", " 2 ")]))
    assert created.configs == image.topic_configs("t") == {"retention.ms": "2"}


def test_validate_only_answers_alike_and_records_nothing() -> None:
    image = cluster_of(1)
    decision = create_topics(
        image,
        Settings(),
        [NewTopic("t", 4), NewTopic("u", 0)],
        topic_ids=[topic_id(1), topic_id(2)],
        validate_only=True,
    )
    assert list(decision.records) == []
    assert [(one.error, one.partitions) for one in decision.result] == [
        (ErrorCode.NONE, 4),
        (ErrorCode.INVALID_PARTITIONS, -1),
    ]


@pytest.mark.parametrize("name", ["", ".", "..", "a" * 250, "a b", "a/b", "../etc", "ä", "a\n"])
def test_names_that_could_not_name_a_directory_are_refused(name: str) -> None:
    assert refusal(cluster_of(1), NewTopic(name))[0] is ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("name", ["a", "a" * 249, "A.b_C-9", "...", "__consumer_offsets"])
def test_other_names_are_fine(name: str) -> None:
    assert create_one(cluster_of(1), NewTopic(name)).error is ErrorCode.NONE


def test_the_metadata_log_is_not_a_topic_to_create() -> None:
    assert refusal(cluster_of(1), NewTopic("__cluster_metadata"))[0] is ErrorCode.INVALID_REQUEST


def test_an_existing_topic_is_answered_as_such_whatever_else_is_wrong() -> None:
    image = cluster_of(1)
    create(image, NewTopic("a.b"))
    assert refusal(image, NewTopic("a.b", partitions=0, replication_factor=9)) == (
        ErrorCode.TOPIC_ALREADY_EXISTS,
        "topic a.b already exists",
    )


def test_a_name_that_collides_is_refused() -> None:
    image = cluster_of(1)
    create(image, NewTopic("x.y"))
    code, message = refusal(image, NewTopic("x_y"))
    assert code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert "collides with x.y" in message


def test_names_that_collide_within_a_request_are_refused_too() -> None:
    # Kafka compares with existing topics only and lets both through when they come together.
    first, second = create(cluster_of(1), NewTopic("x.y"), NewTopic("x_y"))
    assert (first.error, second.error) == (ErrorCode.NONE, ErrorCode.INVALID_TOPIC_EXCEPTION)


def test_a_topic_named_twice_is_answered_once_and_the_others_are_created() -> None:
    image = cluster_of(1)
    twice, other = create(image, NewTopic("d"), NewTopic("e"), NewTopic("d"))
    assert (twice.name, twice.error) == ("d", ErrorCode.INVALID_REQUEST)
    assert (other.name, other.error) == ("e", ErrorCode.NONE)
    assert list(image.topics) == ["e"]


@pytest.mark.parametrize("partitions", [0, -2])
def test_partitions_must_be_positive(partitions: int) -> None:
    assert refusal(cluster_of(1), NewTopic("t", partitions))[0] is ErrorCode.INVALID_PARTITIONS


@pytest.mark.parametrize("factor", [0, -2])
def test_the_replication_factor_must_be_positive(factor: int) -> None:
    assert refusal(cluster_of(1), NewTopic("t", 1, factor))[0] is ErrorCode.INVALID_REPLICATION_FACTOR


def test_the_replication_factor_needs_as_many_brokers() -> None:
    image = cluster_of(1, 2)
    assert refusal(image, NewTopic("t", 1, 3)) == (
        ErrorCode.INVALID_REPLICATION_FACTOR,
        "replication factor 3 needs as many live brokers; there are 2",
    )
    apply(image, [BrokerShuttingDown(2)])
    assert refusal(image, NewTopic("t", 1, 2))[0] is ErrorCode.INVALID_REPLICATION_FACTOR


def test_a_fenced_broker_follows_where_live_ones_are_too_few() -> None:
    # Kafka: StripedReplicaPlacer counts every broker, and asks for one that lives.
    image = cluster_of(1, 2, 3)
    apply(image, [BrokerFenced(1)])
    create(image, NewTopic("t", 1, 3), NewTopic("u", 2, 2))
    part = image.topics["t"].partitions[0]
    assert (part.replicas, part.isr, part.leader) == ((2, 3, 1), (2, 3), 2)
    assert {broker for part in image.topics["u"].partitions for broker in part.replicas} == {2, 3}


def test_somebody_has_to_live() -> None:
    image = cluster_of(1, 2)
    apply(image, [BrokerFenced(1), BrokerFenced(2)])
    assert refusal(image, NewTopic("t", 1, 1)) == (
        ErrorCode.INVALID_REPLICATION_FACTOR,
        "replication factor 1 needs as many live brokers; there are 0, and 2 fenced",
    )


def test_a_broker_that_shuts_down_gets_nothing_new() -> None:
    image = cluster_of(1, 2, 3)
    apply(image, [BrokerShuttingDown(1)])
    create(image, NewTopic("t", 4, 2), NewTopic("u", assignments=[(0, [1, 2])]))
    assert {broker for part in image.topics["t"].partitions for broker in part.replicas} == {2, 3}
    part = image.topics["u"].partitions[0]
    assert (part.isr, part.leader) == ((2,), 2)
    assert "fenced or shutting down" in refusal(image, NewTopic("v", assignments=[(0, [1])]))[1]


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (NewTopic("a b", 0), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("t", 0, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic("t", 0, 5), ErrorCode.INVALID_PARTITIONS),
        (NewTopic("t", 0, configs=[("nope", "1")]), ErrorCode.INVALID_CONFIG),
        (NewTopic("t", 1, 5, configs=[("nope", "1")]), ErrorCode.INVALID_CONFIG),
        (NewTopic("t", assignments=[(0, [7])], configs=[("nope", "1")]), ErrorCode.INVALID_CONFIG),
        (NewTopic("t", 1, 1, assignments=[(0, [1])]), ErrorCode.INVALID_REQUEST),
    ],
)
def test_of_several_faults_kafkas_first_is_answered(topic: NewTopic, code: ErrorCode) -> None:
    assert refusal(cluster_of(1), topic)[0] is code


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (("nope", "1"), "unknown topic config nope"),
        (("retention.ms", None), "retention.ms has no value; leave the config out to use the default"),
        (("retention.ms", "x"), "retention.ms=x: expected a 64-bit integer, at least -1"),
        (("remote.storage.enable", "true"), "remote.storage.enable=true: tiered storage is not supported"),
    ],
)
def test_a_bad_config_is_refused(config: tuple[str, str | None], message: str) -> None:
    code, said = refusal(cluster_of(1), NewTopic("t", configs=[config]))
    assert code is ErrorCode.INVALID_CONFIG
    assert message in said


def test_too_many_partitions_refuse_the_whole_request() -> None:
    topics = [NewTopic("t", 9_999), NewTopic("u", 2), NewTopic("v", 0)]
    with pytest.raises(ApiError) as refused:
        create_topics(cluster_of(1), Settings(), topics, topic_ids=[topic_id(number) for number in range(3)])
    assert refused.value.code is ErrorCode.POLICY_VIOLATION


def test_as_many_partitions_as_are_allowed_are_created() -> None:
    assert create_one(cluster_of(1), NewTopic("t", 10_000)).partitions == 10_000


def test_a_manual_assignment_is_taken_as_it_is() -> None:
    image = cluster_of(1, 2, 3)
    created = create_one(image, NewTopic("t", assignments=[(1, [3, 1]), (0, [2, 3])]))
    assert (created.partitions, created.replication_factor) == (2, 2)
    assert [(part.replicas, part.leader) for part in image.topics["t"].partitions] == [((2, 3), 2), ((3, 1), 3)]


@pytest.mark.parametrize(
    ("assignments", "code", "message"),
    [
        ([(0, [1]), (2, [1])], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "without gaps, and 1 is not assigned"),
        ([(1, [1])], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "without gaps, and 0 is not assigned"),
        ([(-1, [1])], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "without gaps, and 0 is not assigned"),
        ([(0, [1]), (0, [1])], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partition 0 is assigned more than once"),
        ([(0, [])], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "no replica is given"),
        ([(0, [1, 1])], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "broker 1 is named more than once"),
        ([(0, [7])], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "broker 7 is not registered"),
        ([(0, [1]), (1, [1, 2])], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "where the other partitions have 1"),
    ],
)
def test_an_impossible_assignment_is_refused(
    assignments: list[tuple[int, list[int]]], code: ErrorCode, message: str
) -> None:
    said = refusal(cluster_of(1, 2), NewTopic("t", assignments=assignments))
    assert said[0] is code
    assert message in said[1]


def test_an_assignment_goes_with_neither_count_nor_factor() -> None:
    for topic in (NewTopic("t", 1, -1, [(0, [1])]), NewTopic("t", -1, 1, [(0, [1])])):
        assert refusal(cluster_of(1), topic)[0] is ErrorCode.INVALID_REQUEST


def test_a_fenced_replica_is_not_in_sync_and_does_not_lead() -> None:
    image = cluster_of(1, 2)
    apply(image, [BrokerFenced(1)])
    create(image, NewTopic("t", assignments=[(0, [1, 2])]))
    part = image.topics["t"].partitions[0]
    assert (part.replicas, part.isr, part.leader) == ((1, 2), (2,), 2)
    assert "all of its brokers are fenced" in refusal(image, NewTopic("u", assignments=[(0, [1])]))[1]
