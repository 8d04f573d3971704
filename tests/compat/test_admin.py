"""`bifrost.Admin`: topics, settings and brokers, against Bifrost and Apache Kafka alike."""

from __future__ import annotations

import asyncio
import doctest
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

import bifrost
from bifrost.client import admin, cluster_admin, config_admin, group_admin, record_admin, topic_admin
from bifrost.client.descriptions import Offsets
from tests.compat.clients.base import Record
from tests.compat.clients.confluent import Confluent
from tests.compat.conftest import NewTopicFunction, unique_name
from tests.compat.consumers import write
from tests.compat.servers import Server
from tests.waiting import eventually

HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def api(broker: Server) -> Iterator[bifrost.Admin]:
    with bifrost.Admin(broker.bootstrap) as made:
        yield made


def test_a_topic_is_there_once_it_is_created_and_gone_once_it_is_deleted(api: bifrost.Admin) -> None:
    name = unique_name()
    assert api.create_topic(name, partitions=3, config={"retention.ms": HOUR_MS, "preallocate": False}) is True
    described = api.topic(name)
    assert [each.partition for each in described.partitions] == [0, 1, 2]
    assert all(each.leader is not None and each.isr == each.replicas for each in described.partitions)
    assert all((each.start_offset, each.end_offset) == (0, 0) for each in described.partitions)
    assert described.replication_factor == 1
    assert described.listing() in api.topics()
    assert api.configs(topic=name)["retention.ms"].value == str(HOUR_MS)
    assert api.delete_topic(name) is True
    assert name not in [each.name for each in api.topics()]


def test_the_cluster_decides_what_is_not_said(api: bifrost.Admin) -> None:
    name = unique_name()
    api.create_topic(name)
    assert len(api.topic(name).partitions) == 1


def test_a_topic_that_is_there_is_refused_or_left_alone(api: bifrost.Admin, new_topic: NewTopicFunction) -> None:
    name = new_topic(2)
    with pytest.raises(bifrost.TopicExistsError, match=f"topic {name} exists already"):
        api.create_topic(name)
    assert api.create_topic(name, partitions=5, exist_ok=True) is False
    assert len(api.topic(name).partitions) == 2


def test_a_topic_that_is_not_there_may_be_missing(api: bifrost.Admin) -> None:
    assert api.delete_topic(unique_name(), missing_ok=True) is False


def test_an_unknown_topic_is_answered_with_the_nearest_name(api: bifrost.Admin, new_topic: NewTopicFunction) -> None:
    name = new_topic()
    wrong = name[:-1]
    for ask in (
        lambda: api.topic(wrong),
        lambda: api.offsets(wrong),
        lambda: api.configs(topic=wrong),
        lambda: api.add_partitions(wrong, 7),
        lambda: api.delete_topic(wrong),
        lambda: api.set_configs({"retention.ms": 1}, topic=wrong),
    ):
        with pytest.raises(bifrost.UnknownTopicError) as caught:
            ask()
        assert caught.value.problem == f"topic {wrong} does not exist"
        assert caught.value.hint == f"Did you mean {name}?"
    assert wrong not in [each.name for each in api.topics()], "asking has made it"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"partitions": 0}, bifrost.InvalidRequestError),
        ({"replication_factor": 99}, bifrost.InvalidRequestError),
        ({"config": {"retention.ms": "soon"}}, bifrost.ConfigError),
    ],
    ids=str,
)
def test_a_topic_that_makes_no_sense_is_refused(
    api: bifrost.Admin, arguments: dict[str, object], error: type[Exception]
) -> None:
    name = unique_name()
    with pytest.raises(error):
        api.create_topic(name, **arguments)  # type: ignore[arg-type]
    assert name not in [each.name for each in api.topics()]


def test_a_name_that_no_topic_can_have_is_refused(api: bifrost.Admin) -> None:
    with pytest.raises(bifrost.InvalidRequestError, match="Names have up to 249"):
        api.create_topic("no spaces, please")


def test_a_misspelt_setting_is_answered_with_the_nearest(api: bifrost.Admin, new_topic: NewTopicFunction) -> None:
    with pytest.raises(bifrost.ConfigError, match=r"(?i)did you mean retention\.ms\?$"):
        api.create_topic(unique_name(), config={"retention.mss": 1})
    with pytest.raises(bifrost.ConfigError, match=r"(?i)did you mean retention\.ms\?$"):
        api.set_configs({"retention.mss": 1}, topic=new_topic())


def test_partitions_are_added_and_never_taken_away(api: bifrost.Admin, new_topic: NewTopicFunction) -> None:
    name = new_topic(2)
    api.add_partitions(name, 5)
    assert len(api.topic(name).partitions) == 5
    with pytest.raises(bifrost.InvalidRequestError):
        api.add_partitions(name, 4)


def test_offsets_say_what_partitions_hold(api: bifrost.Admin, broker: Server, new_topic: NewTopicFunction) -> None:
    name = new_topic(2)
    write(broker.bootstrap, name, {0: 3, 1: 5})
    assert api.offsets(name) == {0: Offsets(0, 3), 1: Offsets(0, 5)}
    assert [each.end_offset for each in api.topic(name).partitions] == [3, 5]


def test_offsets_are_found_by_time(api: bifrost.Admin, broker: Server, new_topic: NewTopicFunction) -> None:
    name = new_topic(1)
    start_ms = int(time.time() * 1000) - HOUR_MS
    stamped = [Record(b"x", partition=0, timestamp_ms=start_ms + minute * 60_000) for minute in range(10)]
    Confluent(broker.bootstrap).produce(name, stamped)
    assert api.offsets_at(name, start_ms + 180_000) == {0: 3}
    assert api.offsets_at(name, datetime.fromtimestamp((start_ms + 180_001) / 1000, UTC)) == {0: 4}
    assert api.offsets_at(name, start_ms + 10 * HOUR_MS) == {0: 10}, "the end, since nothing is that new"


def test_settings_of_a_topic_are_set_and_unset_one_by_one(api: bifrost.Admin, new_topic: NewTopicFunction) -> None:
    name = new_topic(1, {"segment.ms": "60000"})
    api.set_configs({"retention.ms": HOUR_MS}, topic=name)
    await_config(api, name, "retention.ms", str(HOUR_MS))
    found = api.configs(topic=name)
    assert found["retention.ms"].source == "topic"
    assert found["retention.ms"].is_set
    assert found["segment.ms"].value == "60000", "a setting that was not mentioned"
    assert not found["cleanup.policy"].is_set
    with pytest.raises(
        bifrost.ConfigError, match=f"topic {name} has no setting retention.mss. Did you mean retention.ms?"
    ):
        api.unset_configs(["retention.ms", "retention.mss"], topic=name)
    assert api.configs(topic=name)["retention.ms"].value == str(HOUR_MS), "none of them was unset"
    api.unset_configs("retention.ms", topic=name)
    await_config(api, name, "retention.ms", "604800000")
    assert api.configs(topic=name)["retention.ms"].source == "default"


def await_config(api: bifrost.Admin, topic: str, name: str, value: str) -> None:
    """Apache Kafka's broker hears of a change a moment after its controller has made it."""
    eventually(lambda: api.configs(topic=topic)[name].value == value, f"{name}={value}")


@pytest.mark.xdist_group("configs")  # some of them are the broker's, of which there is one
def test_settings_of_a_broker_are_read_and_set(api: bifrost.Admin) -> None:
    broker_id = api.cluster().brokers[0].id
    assert api.configs(broker=broker_id)["num.partitions"].value == "1"
    api.set_configs({"log.retention.ms": 30 * 24 * HOUR_MS}, broker=broker_id)
    eventually(lambda: api.configs(broker=broker_id)["log.retention.ms"].source == "broker")
    with pytest.raises(
        bifrost.ConfigError, match=f"broker {broker_id} has no setting log.retention.msec. Did you mean"
    ):
        api.unset_configs(["log.retention.msec"], broker=broker_id)
    api.unset_configs(["log.retention.ms"], broker=broker_id)


def test_settings_belong_to_one_thing_that_is_there(api: bifrost.Admin) -> None:
    with pytest.raises(bifrost.InvalidRequestError, match=r"there is no broker 4711\. There are: "):
        api.configs(broker=4711)
    with pytest.raises(bifrost.InvalidRequestError, match="one topic or one broker"):
        api.configs()
    with pytest.raises(bifrost.InvalidRequestError, match="one topic or one broker"):
        api.configs(topic="a", broker=1)


def test_a_cluster_of_one_is_well(api: bifrost.Admin, new_topic: NewTopicFunction) -> None:
    new_topic(4)
    cluster, health = api.cluster(), api.health()
    assert cluster.id
    assert cluster.controller in [each.id for each in cluster.brokers]
    assert health.healthy
    assert health.partitions >= 4
    assert health.brokers == cluster.brokers


def test_internal_topics_are_listed_on_request(api: bifrost.Admin, coordinators: None) -> None:
    assert "__consumer_offsets" not in [each.name for each in api.topics()]
    (found,) = [each for each in api.topics(internal=True) if each.name == "__consumer_offsets"]
    assert found.internal


def test_a_closed_admin_says_so(broker: Server) -> None:
    with bifrost.Admin(broker.bootstrap) as made:
        assert repr(made) == f"Admin('{broker.bootstrap}')"
    with pytest.raises(bifrost.BifrostError, match="closed"):
        made.topics()


def test_the_same_calls_can_be_awaited(broker: Server) -> None:
    async def life_of_a_topic() -> None:
        name = unique_name()
        async with bifrost.AsyncAdmin(broker.bootstrap) as api:
            assert await api.create_topic(name, partitions=2)
            await api.set_configs({"retention.ms": HOUR_MS}, topic=name)
            await api.add_partitions(name, 3)
            described, offsets, listed = await asyncio.gather(api.topic(name), api.offsets(name), api.topics())
            assert set(offsets) == set(await api.offsets_at(name, 0)) == {0, 1, 2}
            assert described.listing() in listed
            assert await api.delete_topic(name)
            with pytest.raises(bifrost.UnknownTopicError):
                await api.configs(topic=name)
            assert (await api.health()).brokers == (await api.cluster()).brokers

    asyncio.run(life_of_a_topic())


def test_the_examples_in_the_docstrings_hold(api: bifrost.Admin, coordinators: None) -> None:
    for module in (topic_admin, record_admin, config_admin, cluster_admin, group_admin, admin):
        for name in ("readings", "orders", "deliveries"):
            api.delete_topic(name, missing_ok=True)
        api.create_topic("readings", config={"retention.ms": 604_800_000})
        api.reset_offsets(api.plan_reset("billing", ["readings"], to="earliest"))
        given = {"admin": api, "Admin": bifrost.Admin, "bootstrap": api.bootstrap}
        failed, tried = doctest.testmod(module, extraglobs=given)
        assert tried > 0
        assert failed == 0
