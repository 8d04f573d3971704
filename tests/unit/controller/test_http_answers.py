"""What HTTP clients are told, without a socket: views of an image, leaders, refusals, who is let in, metrics."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.controller.stand_ins import apply, cluster_of, commit, create, create_one, registration

from bifrost.controller.core.brokers import register_broker
from bifrost.controller.core.counts import PartitionCounts
from bifrost.controller.core.heartbeats import fence_broker
from bifrost.controller.core.image import GROUP_RESOURCE, TOPIC_RESOURCE, MetadataImage
from bifrost.controller.core.records import (
    BrokerFenced,
    BrokerShuttingDown,
    ConfigChanged,
    Endpoint,
    PartitionChanged,
    TopicDeleted,
)
from bifrost.controller.core.topics import NewTopic
from bifrost.controller.http import changes, overview, views
from bifrost.controller.http.access import Access
from bifrost.controller.http.answers import refusal
from bifrost.controller.http.exposition import Family, expose
from bifrost.controller.http.leaders import WaitError, leaders, one_topic
from bifrost.errors import ApiError, ErrorCode
from bifrost.settings import Settings


def three_brokers() -> MetadataImage:
    """The last partition has one replica in sync."""
    image = cluster_of(0, 1, 2)
    topic = create_one(image, NewTopic("orders", assignments=[(0, [0, 1]), (1, [1, 2]), (2, [2, 0])]))
    apply(image, [PartitionChanged(topic.topic_id, 2, isr=(2,))])
    return image


# Views


def test_a_topic_shows_who_leads_holds_and_is_in_sync() -> None:
    image = three_brokers()
    topic = image.topics["orders"]
    apply(image, [PartitionChanged(topic.topic_id, 2, leader=-1), PartitionChanged(topic.topic_id, 0, isr=(0,))])
    create_one(image, NewTopic("later", 1, 1))
    view = one_topic(image, Settings(), "orders")
    assert [one.leader for one in view.partitions] == [0, 1, None]
    assert [one.waiting_for for one in view.partitions] == [None, None, "broker 2 has to come back"]
    assert (view.partitions[0].replicas, view.partitions[0].isr) == ((0, 1), (0,))
    assert [(one.leader_epoch, one.partition_epoch) for one in view.partitions] == [(0, 1), (0, 0), (1, 2)]
    assert view.metadata_offset == image.offset


def test_brokers_are_alive_leaving_or_fenced() -> None:
    image = cluster_of(0, 1, 2)
    apply(image, [BrokerShuttingDown(1), BrokerFenced(2)])
    assert [one.status for one in views.brokers_view(image).brokers] == ["alive", "leaving", "fenced"]


def test_pages_hold_every_name_once_whatever_is_made_or_deleted_meanwhile() -> None:
    image = cluster_of(0)
    create(image, *(NewTopic(f"t{number:02}", 1, 1) for number in range(10)))
    page = views.topics_page(image, "", 4)
    assert [one.topic for one in page.topics] == ["t00", "t01", "t02", "t03"]
    apply(image, [TopicDeleted(image.topics["t03"].topic_id), TopicDeleted(image.topics["t07"].topic_id)])
    create(image, NewTopic("t045", 1, 1))
    page = views.topics_page(image, page.next_after or "", 4)
    assert [one.topic for one in page.topics] == ["t04", "t045", "t05", "t06"]
    page = views.topics_page(image, page.next_after or "", 4)
    assert ([one.topic for one in page.topics], page.next_after) == (["t08", "t09"], None)


def test_a_topic_with_a_partition_that_nobody_leads_is_waited_for() -> None:
    image = three_brokers()
    create_one(image, NewTopic("fine", assignments=[(0, [1])]))
    apply(image, [PartitionChanged(image.topics["orders"].topic_id, 1, leader=-1)])
    assert overview.led_topics(image, "", 10) == (["fine"], ["orders"], None)


# Leaders


def test_leaders_are_told_with_where_they_are() -> None:
    view = leaders(three_brokers(), "orders", None)
    assert [(one.partition, one.leader, one.host, one.port) for one in view.leaders] == [
        (0, 0, "host0", 9092),
        (1, 1, "host1", 9092),
        (2, 2, "host2", 9092),
    ]


def test_leaders_are_told_with_the_listener_that_is_asked_for_and_with_all_of_them() -> None:
    """Programs on the host of a container reach another listener than those in the network of it."""
    image = three_brokers()
    at = (Endpoint("INTERNAL", "broker", 9092), Endpoint("EXTERNAL", "localhost", 29092))
    double = replace(registration(2, start=2), endpoints=at)
    commit(image, register_broker(image, double))
    (inside,), (outside,) = (leaders(image, "orders", 2, name).leaders for name in (None, "EXTERNAL"))
    assert ((inside.host, inside.port), (outside.host, outside.port)) == (("broker", 9092), ("localhost", 29092))
    assert [(one.listener, one.port) for one in inside.endpoints] == [("INTERNAL", 9092), ("EXTERNAL", 29092)]
    with pytest.raises(ApiError) as refused:
        leaders(image, "orders", 2, "CONTROLLER")
    assert (refused.value.code, refusal(refused.value).status) == (ErrorCode.LISTENER_NOT_FOUND, 404)


def test_configs_of_groups_are_listed_with_those_of_topics() -> None:
    image = three_brokers()
    apply(image, [ConfigChanged(TOPIC_RESOURCE, "orders", "segment.bytes", "2000000")])
    for group in ("a", "z"):
        apply(image, [ConfigChanged(GROUP_RESOURCE, group, "consumer.session.timeout.ms", "50000")])
    page = views.configs_page(image, "", 2)
    shown = {"consumer.session.timeout.ms": "50000"}
    assert (page.groups, page.topics) == ({"a": shown}, {"orders": {"segment.bytes": "2000000"}})
    page = views.configs_page(image, page.next_after or "", 2)
    assert (page.groups, page.topics, page.next_after) == ({"z": shown}, {}, None)


def test_without_a_leader_one_has_to_wait_for_whoever_may_become_it() -> None:
    image = three_brokers()
    decision = fence_broker(image, 2, image.brokers[2].epoch)
    apply(image, list(decision.records))
    assert leaders(image, "orders", 1).leaders[0].leader == 1
    for partition in (2, None):
        with pytest.raises(WaitError) as wait:
            leaders(image, "orders", partition)
        assert wait.value.waiting_for == "a leader of orders-2: broker 2 has to come back"
    told = refusal(wait.value)
    assert (told.status, told.headers) == (503, {"Retry-After": "1"})
    assert (told.body.error, told.body.status) == ("LEADER_NOT_AVAILABLE", "HOGO LO")


def test_a_topic_is_waited_for_while_a_leader_from_outside_the_isr_is_elected() -> None:
    image = three_brokers()
    apply(image, list(fence_broker(image, 2, image.brokers[2].epoch).records))
    unclean = Settings(unclean_leader_election_enable=True)
    assert one_topic(image, Settings(), "orders").partitions[2].leader is None, "nobody may be elected"
    with pytest.raises(WaitError) as wait:
        one_topic(image, unclean, "orders")
    assert wait.value.waiting_for == "a leader of orders-2: broker 0 is to be elected"
    topic = image.topics["orders"].topic_id
    apply(image, [PartitionChanged(topic, 2, leader=0, isr=(0,))])
    assert one_topic(image, unclean, "orders").partitions[2].leader == 0


def test_a_partition_whose_replicas_are_all_dead_is_not_waited_for() -> None:
    image = three_brokers()
    for broker in (2, 0):
        apply(image, list(fence_broker(image, broker, image.brokers[broker].epoch).records))
    view = one_topic(image, Settings(unclean_leader_election_enable=True), "orders")
    assert (view.partitions[2].leader, view.partitions[2].waiting_for) == (None, "broker 2 has to come back")


# Refusals


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 404),
        (ErrorCode.TOPIC_ALREADY_EXISTS, 409),
        (ErrorCode.INVALID_CONFIG, 400),
        (ErrorCode.THROTTLING_QUOTA_EXCEEDED, 429),
        (ErrorCode.UNKNOWN_SERVER_ERROR, 500),
        (ErrorCode.NOT_CONTROLLER, 503),
        (ErrorCode.FENCED_LEADER_EPOCH, 503),
    ],
)
def test_every_error_has_a_status_and_only_what_passes_says_wait(code: ErrorCode, status: int) -> None:
    told = refusal(ApiError(code, "because"))
    assert (told.status, told.body.error, told.body.message) == (status, code.name, "because")
    assert (told.body.status == "HOGO LO") == (status == 503)
    assert ("Retry-After" in told.headers) == (status in (429, 503))


# Who is let in


def let_in(access: Access, path: str = "/v1/cluster", method: str = "GET", **headers: str) -> ErrorCode | None:
    given = {"host": "127.0.0.1:9644", "origin": None, "authorization": None, **headers}
    try:
        access.check(method, path, **given)
    except ApiError as error:
        return error.code
    return None


def test_names_count_on_this_machine_only() -> None:
    assert let_in(Access("127.0.0.1", None), host="evil.example:9644") is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert let_in(Access("127.0.0.1", None), host="localhost:9644") is None
    assert let_in(Access("::1", None), host="[::1]:9644") is None
    everywhere = Access("0.0.0.0", "secret")
    assert let_in(everywhere, host="odin.example:9644", authorization="Bearer secret") is None


@pytest.mark.parametrize(
    "wrong", ["", "Bearer ", "Bearer secre", "Bearer secrets", "secret", "Basic secret", "Bearer é"]
)
def test_a_token_has_to_be_right_to_the_letter(wrong: str) -> None:
    access = Access("127.0.0.1", "secret")
    assert let_in(access, authorization=wrong) is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert let_in(access, authorization="bearer secret") is None
    assert let_in(access, "/healthz") is None
    assert let_in(access, "/healthz/..") is ErrorCode.SASL_AUTHENTICATION_FAILED


def test_pages_of_other_sites_may_not_change_anything() -> None:
    access = Access("127.0.0.1", None)
    other, own = "https://evil.example", "http://127.0.0.1:9644"
    for method in ("POST", "PATCH", "DELETE"):
        assert let_in(access, method=method, origin=other) is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert let_in(access, method=method, origin=own) is None
    assert let_in(access, origin=other) is None


# Changes


def test_configs_are_written_as_in_a_file() -> None:
    request = changes.alteration("topic", "t", {"a": True, "b": 1, "c": 0.5, "d": "x", "e": None})
    (resource,) = request.resources
    assert [(one.name, one.config_operation, one.value) for one in resource.configs] == [
        ("a", 0, "true"),
        ("b", 0, "1"),
        ("c", 0, "0.5"),
        ("d", 0, "x"),
        ("e", 1, None),
    ]


# Numbers


def test_counts_keep_up_with_the_image() -> None:
    image = three_brokers()
    counts = PartitionCounts(image)

    def seen() -> tuple[int, int, int]:
        fresh = PartitionCounts(image)
        assert (fresh.partitions, fresh.without_leader, fresh.under_replicated) == (
            counts.partitions, counts.without_leader, counts.under_replicated,
        )  # fmt: skip
        return counts.partitions, counts.without_leader, counts.under_replicated

    assert seen() == (3, 0, 1)
    decision = fence_broker(image, 2, image.brokers[2].epoch)
    counts.on_change(image, apply(image, list(decision.records)))
    assert seen() == (3, 1, 2)
    assert counts.elections == 1
    counts.on_change(image, apply(image, [TopicDeleted(image.topics["orders"].topic_id)]))
    assert seen() == (0, 0, 0)


def test_metrics_are_text_that_prometheus_reads() -> None:
    text = expose([
        Family("a_total", "counter", "Counts.", [({"name": 'say "x"\\\n'}, 3.0), ({"name": "y"}, 2.5)]),
        Family("b", "gauge", "Is.", [({}, 12345678901)]),
    ])  # fmt: skip
    assert text.decode() == (
        "# HELP a_total Counts.\n# TYPE a_total counter\n"
        'a_total{name="say \\"x\\"\\\\\\n"} 3\na_total{name="y"} 2.5\n'
        "# HELP b Is.\n# TYPE b gauge\nb 12345678901\n"
    )
