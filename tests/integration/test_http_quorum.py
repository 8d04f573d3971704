"""Three Odins that speak HTTP: any of them answers, none names a leader that it cannot be sure of, and a stream of
events goes on at another one without a hole."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from bifrost.testing import Cluster
from bifrost.testing.embedded import EmbeddedNode
from tests.integration.http_client import Answer, Stream, Told, ask
from tests.waiting import eventually

GONE = {"broker.left", "broker.died", "broker.fenced"}


class Realm:
    """Three Odins that speak HTTP, and three brokers, in threads of this process. A broker's death leaves partitions
    without a leader: they have one replica each, unless a test asks for more."""

    def __init__(self) -> None:
        self.cluster = Cluster(
            brokers=3, odins=3, odin_settings={"http.listener": "127.0.0.1:0"}, default_replication_factor=1
        )
        self.odins = [_embedded(node) for node in self.cluster.odins]
        self.brokers = [_embedded(node) for node in self.cluster.brokers]

    def active(self) -> EmbeddedNode:
        eventually(lambda: self.cluster.active_odin() is not None, "an active Odin")
        return _embedded(self.cluster.active_odin())

    def followers(self) -> list[EmbeddedNode]:
        active = self.active()
        return [odin for odin in self.odins if odin is not active]


def _embedded(node: object) -> EmbeddedNode:
    assert isinstance(node, EmbeddedNode)
    return node


@pytest.fixture
def realm() -> Iterator[Realm]:
    realm = Realm()
    with realm.cluster:
        yield realm


def create(odin: EmbeddedNode, topic: str, partitions: int = 3) -> Answer:
    return ask(odin, "/v1/topics", "POST", {"topic": topic, "partitions": partitions})


def create_surely(odin: EmbeddedNode, topic: str) -> None:
    eventually(lambda: create(odin, topic).status in (201, 409), f"{topic} is created")


def says_wait(answer: Answer) -> bool:
    return (
        answer.status == 503
        and answer.json["status"] == "HOGO LO"
        and bool(answer.json["waiting_for"])
        and int(answer.headers["Retry-After"]) >= 1
    )


def all_events(odin: EmbeddedNode, until: str) -> list[Told]:
    with Stream(odin, after="0.0") as stream:
        eventually(lambda: any(event.id == until for event in stream.events), f"event {until}")
        ids = [event.id for event in stream.events]
        return stream.events[: ids.index(until) + 1]


def test_any_odin_answers_and_passes_changes_on(realm: Realm) -> None:
    first, second = realm.followers()
    created = create(first, "orders")
    assert (created.status, created.json["partitions"]) == (201, 3), created.body
    assert ask(first, "/v1/topics/orders").status == 200, "whoever asked for it does not find it"
    for odin in realm.odins:
        eventually(lambda odin=odin: ask(odin, "/v1/topics/orders").status == 200)  # type: ignore[misc]
        leaders = ask(odin, "/v1/leader?topic=orders").json["leaders"]
        assert [one["leader"] for one in leaders] == [0, 1, 2]
        assert [f"{one['host']}:{one['port']}" for one in leaders] == [broker.address for broker in realm.brokers]
        assert [one["broker"] for one in ask(odin, "/v1/brokers").json["brokers"]] == [0, 1, 2]
        assert ask(odin, "/readyz").status == 200
    again = create(second, "orders")
    assert (again.status, again.json["error"]) == (409, "TOPIC_ALREADY_EXISTS")

    altered = ask(second, "/v1/configs/topics/orders", "PATCH", {"max.message.bytes": 2000})
    assert altered.json["configs"] == {"max.message.bytes": "2000"}
    assert (
        ask(second, "/v1/configs/topics/orders", "PATCH", {"max.message.bytes": -7}).json["error"] == "INVALID_CONFIG"
    )
    removed = ask(second, "/v1/configs/topics/orders/max.message.bytes", "DELETE")
    assert removed.json["configs"] == {}

    assert ask(first, "/v1/topics/orders", "DELETE").status == 204
    assert ask(first, "/v1/topics/orders").status == 404
    assert ask(first, "/v1/topics/orders", "DELETE").json["error"] == "UNKNOWN_TOPIC_OR_PARTITION"


def test_the_quorum_and_the_ends_of_partitions_are_told_by_those_who_know(realm: Realm) -> None:
    first, _ = realm.followers()
    active = realm.active()
    create(first, "orders")
    producer = Producer({"bootstrap.servers": realm.brokers[0].address})
    for number in range(30):
        producer.produce("orders", b"x", partition=number % 3 if number < 15 else 0)
    assert producer.flush(30) == 0
    for odin in realm.odins:
        eventually(lambda odin=odin: ask(odin, "/v1/topics/orders/seq").status == 200)  # type: ignore[misc]
        assert ask(odin, "/v1/topics/orders/seq").json == {"topic": "orders", "seq": [20, 5, 5], "total": 30}
        assert ask(odin, "/v1/seq").json == {"seq": {"orders": [20, 5, 5]}, "waiting_for": [], "next_after": None}
        quorum = ask(odin, "/v1/quorum").json
        assert quorum["leader"] == active.id
        assert sorted(one["node"] for one in quorum["voters"]) == [100, 101, 102]
        assert sorted(one["node"] for one in quorum["observers"]) == [0, 1, 2]
        metrics = ask(odin, "/metrics").body.decode()
        assert "bifrost_partitions 3\n" in metrics
        assert 'bifrost_brokers{state="alive"} 3\n' in metrics
        assert f"bifrost_quorum_active {int(odin is active)}\n" in metrics
        assert ("bifrost_quorum_lag_records{" in metrics) == (odin is active)


def test_without_a_leader_of_the_partition_one_is_asked_to_wait(realm: Realm) -> None:
    odin, _ = realm.followers()
    create(odin, "orders")
    realm.brokers[0].kill()
    eventually(lambda: says_wait(ask(odin, "/v1/leader?topic=orders&partition=0")))
    lost = ask(odin, "/v1/leader?topic=orders&partition=0").json
    assert lost["error"] == "LEADER_NOT_AVAILABLE"
    assert "orders-0" in lost["waiting_for"]
    assert "broker 0" in lost["waiting_for"]
    assert says_wait(ask(odin, "/v1/leader?topic=orders"))
    assert says_wait(ask(odin, "/v1/topics/orders/seq"))
    assert ask(odin, "/v1/seq").json["waiting_for"] == ["orders"]
    (other,) = ask(odin, "/v1/leader?topic=orders&partition=1").json["leaders"]
    assert other["leader"] == 1
    shown = ask(odin, "/v1/topics/orders").json["partitions"][0]
    assert (shown["leader"], shown["waiting_for"]) == (None, "broker 0 has to come back")
    assert "bifrost_partitions_without_leader 1\n" in ask(odin, "/metrics").body.decode()
    realm.brokers[0].start()
    eventually(lambda: ask(odin, "/v1/leader?topic=orders&partition=0").status == 200)


@pytest.mark.parametrize("survivor_led", [True, False])
def test_an_odin_that_has_lost_the_others_names_no_leader(realm: Realm, survivor_led: bool) -> None:
    some, _ = realm.followers()
    active = realm.active()
    create(some, "orders")
    survivor = active if survivor_led else some
    eventually(lambda: ask(survivor, "/v1/leader?topic=orders").status == 200)
    for odin in realm.odins:
        if odin is not survivor:
            odin.kill()
    # At once, without waiting for it to notice anything: what it believes by itself does not count.
    assert says_wait(ask(survivor, "/v1/leader?topic=orders"))
    assert says_wait(create(survivor, "alone"))
    assert says_wait(ask(survivor, "/v1/quorum"))
    eventually(lambda: says_wait(ask(survivor, "/readyz")))
    assert ask(survivor, "/healthz").status == 200
    assert says_wait(ask(survivor, "/v1/topics/orders"))
    listed = ask(survivor, "/v1/topics")
    assert listed.status == 200, "what it knows it may tell, with the offset it is of"
    assert listed.json["metadata_offset"] >= listed.json["topics"][0]["metadata_offset"] > 0
    next(odin for odin in realm.odins if odin is not survivor).start()
    eventually(lambda: ask(survivor, "/v1/leader?topic=orders").status == 200)


def test_events_go_on_at_another_odin_without_a_hole(realm: Realm) -> None:
    other, third = realm.followers()
    active = realm.active()
    with Stream(active) as stream:
        eventually(lambda: stream.kinds() == ["hello"])
        start = stream.last_id
        create(other, "orders")
        eventually(lambda: "topic.created" in stream.kinds())
        realm.brokers[1].kill()
        eventually(lambda: "leader.lost" in stream.kinds())
        active.kill()
        eventually(lambda: stream.has_ended)
    create_surely(other, "shipments")  # while nobody listens
    with Stream(other, after=stream.last_id) as resumed:
        eventually(lambda: "topic.created" in resumed.kinds())
        realm.brokers[1].start()
        eventually(lambda: "leader.elected" in resumed.kinds())
        eventually(lambda: "broker.joined" in resumed.kinds())
        end = resumed.last_id
    seen = [event.id for event in stream.events + resumed.events if event.kind != "hello"]
    seen = seen[: seen.index(end) + 1]
    whole = [event for event in all_events(third, end) if split(str(event.id)) > split(start)]
    assert seen == [event.id for event in whole]
    assert "controller.changed" in [event.kind for event in whole]
    gone = [(event.kind, event.data["broker"]) for event in whole if event.kind in GONE]
    assert gone == [("broker.died", 1)]

    everything = all_events(other, end)
    active.start()  # it knows again what happened while it was away, and before
    assert all_events(active, end) == everything


def test_a_stop_in_order_is_told_as_one_and_a_death_as_a_death(realm: Realm) -> None:
    """Also of brokers that lead nothing, which are not waited for and so never leave in two steps."""
    with Stream(realm.active()) as stream:
        eventually(lambda: stream.kinds() == ["hello"])
        realm.brokers[1].stop()
        eventually(lambda: GONE & set(stream.kinds()))
        realm.brokers[2].kill()
        eventually(lambda: len([kind for kind in stream.kinds() if kind in GONE]) == 2)
        told = [(event.kind, event.data["broker"]) for event in stream.events if event.kind in GONE]
    assert told == [("broker.left", 1), ("broker.died", 2)]


def split(event_id: str) -> tuple[int, ...]:
    return tuple(map(int, event_id.split(".")))
