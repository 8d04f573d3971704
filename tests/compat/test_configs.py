"""Configs are changed and described through the admin clients of three libraries, at all levels, and count at once."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.compat import wire
from tests.compat.cache import Unavailable
from tests.compat.clients.base import ClientError, Record
from tests.compat.clients.config_admin import CONFIG_ADMINS, Change, ConfigAdmin, Described, Kind, Source
from tests.compat.clients.confluent import Confluent
from tests.compat.conftest import NewTopicFunction, skip_without
from tests.compat.servers import Server
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.xdist_group("configs")  # some of them are the broker's, of which there is one

UNKNOWN_TOPIC_OR_PARTITION = 3
MESSAGE_TOO_LARGE = 10
INVALID_CONFIG = 40
INVALID_REQUEST = 42
LEVEL = "compression.gzip.level"
"""A config that no other test looks at: the broker is shared."""


@pytest.fixture(params=sorted(CONFIG_ADMINS))
def configs(request: pytest.FixtureRequest, broker: Server) -> ConfigAdmin:
    try:
        return CONFIG_ADMINS[request.param](broker.bootstrap)
    except Unavailable as error:
        skip_without(error)
        raise


@pytest.fixture
def node(broker: Server) -> str:
    with wire.Wire(broker.bootstrap) as connection:
        (found,) = connection.ask("metadata", 9, topics=[])["brokers"]
    return str(found["node_id"])


def _seen(
    configs: ConfigAdmin, kind: Kind, name: str, config: str, value: str | None, source: Source | None = None
) -> Described | None:
    """What is described once it has this value, or is not mentioned (None): Kafka's broker hears of it a bit later."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        found = configs.describe(kind, name).get(config)
        if (None if found is None else found.value) == value and source in (None, _source(found)):
            return found
        assert time.monotonic() < deadline, found
        time.sleep(0.01)


def _refused(code: int, call: Callable[[], None]) -> None:
    with pytest.raises(ClientError) as refusal:
        call()
    assert refusal.value.code == code, refusal.value


def _source(found: Described | None) -> Source | None:
    return None if found is None else found.source


def test_a_topic_through_all_operations(configs: ConfigAdmin, new_topic: NewTopicFunction) -> None:
    topic, policy = new_topic(1), "cleanup.policy"
    steps: list[tuple[Change, str, Source]] = [
        ((policy, "set", "compact"), "compact", Source.DYNAMIC_TOPIC_CONFIG),
        ((policy, "append", "delete"), "compact,delete", Source.DYNAMIC_TOPIC_CONFIG),
        ((policy, "subtract", "compact"), "delete", Source.DYNAMIC_TOPIC_CONFIG),
        ((policy, "delete", None), "delete", Source.DEFAULT_CONFIG),
    ]
    for change, value, source in steps:
        configs.alter("topic", topic, change)
        found = _seen(configs, "topic", topic, policy, value, source)
        assert found is not None
        assert not found.read_only


def test_a_changed_limit_counts_for_the_next_record(
    configs: ConfigAdmin, new_topic: NewTopicFunction, broker: Server
) -> None:
    topic, producer = new_topic(1), Confluent(broker.bootstrap)
    configs.alter("topic", topic, ("max.message.bytes", "set", "1000"))
    _seen(configs, "topic", topic, "max.message.bytes", "1000")
    _refused(MESSAGE_TOO_LARGE, lambda: _ignore(producer.produce(topic, [Record(b"x" * 5000)])))
    configs.alter("topic", topic, ("max.message.bytes", "set", "10000"))
    _seen(configs, "topic", topic, "max.message.bytes", "10000")
    producer.produce(topic, [Record(b"x" * 5000)])


def _ignore(_: object) -> None: ...


def test_validate_only_changes_nothing(configs: ConfigAdmin, new_topic: NewTopicFunction) -> None:
    topic = new_topic(1)
    configs.alter("topic", topic, ("retention.ms", "set", "1000"), validate_only=True)
    _refused(INVALID_CONFIG, lambda: configs.alter("topic", topic, ("retention.ms", "set", "x"), validate_only=True))
    assert configs.describe("topic", topic)["retention.ms"].source is Source.DEFAULT_CONFIG


def test_what_a_topic_cannot_have_is_refused(configs: ConfigAdmin, new_topic: NewTopicFunction) -> None:
    topic = new_topic(1)
    wrong: list[Change] = [
        ("retention.ms", "set", "soon"),
        ("segment.bytes", "set", "1"),
        ("cleanup.policy", "set", "burn"),
        ("no.such.config", "set", "1"),
        ("retention.ms", "append", "1"),
    ]
    for change in wrong:
        _refused(INVALID_CONFIG, lambda change=change: configs.alter("topic", topic, change))  # type: ignore[misc]
    missing = topic + "-missing"
    _refused(UNKNOWN_TOPIC_OR_PARTITION, lambda: configs.alter("topic", missing, ("retention.ms", "set", "1")))


def test_a_broker_and_its_topics(configs: ConfigAdmin, new_topic: NewTopicFunction, node: str) -> None:
    topic = new_topic(1)
    configs.alter("broker", node, (LEVEL, "set", "6"))
    assert _source(_seen(configs, "broker", node, LEVEL, "6")) is Source.DYNAMIC_BROKER_CONFIG
    found = _seen(configs, "topic", topic, LEVEL, "6")
    assert _source(found) is Source.DYNAMIC_BROKER_CONFIG
    assert found is not None
    assert (LEVEL, "-1", Source.DEFAULT_CONFIG) in found.synonyms
    configs.alter("broker", node, (LEVEL, "delete", None))
    assert _source(_seen(configs, "topic", topic, LEVEL, "-1")) is Source.DEFAULT_CONFIG


def test_every_broker(configs: ConfigAdmin, new_topic: NewTopicFunction, node: str) -> None:
    if "every-broker" in configs.lacks:
        pytest.skip("this client wants a broker's number")
    topic = new_topic(1)
    configs.alter("broker", "", (LEVEL, "set", "5"))
    assert _source(_seen(configs, "broker", "", LEVEL, "5")) is Source.DYNAMIC_DEFAULT_BROKER_CONFIG
    for kind, name in (("broker", node), ("topic", topic)):
        assert _source(_seen(configs, kind, name, LEVEL, "5")) is Source.DYNAMIC_DEFAULT_BROKER_CONFIG
    configs.alter("broker", "", (LEVEL, "delete", None))
    _seen(configs, "broker", "", LEVEL, None)


def test_what_a_running_broker_cannot_change_is_refused(configs: ConfigAdmin, node: str) -> None:
    wrong: list[Change] = [("num.partitions", "set", "9"), (LEVEL, "set", "high"), (LEVEL, "set", "77")]
    for change in wrong:
        _refused(INVALID_REQUEST, lambda change=change: configs.alter("broker", node, change))  # type: ignore[misc]
    assert configs.describe("broker", node)["num.partitions"].read_only
    assert not configs.describe("broker", node)[LEVEL].read_only


@pytest.mark.filterwarnings("ignore:alter_configs has been deprecated:DeprecationWarning")
def test_replacing_all_configs(configs: ConfigAdmin, new_topic: NewTopicFunction) -> None:
    if "replace" in configs.lacks:
        pytest.skip("this client has dropped the call")
    topic = new_topic(1)
    configs.alter("topic", topic, ("retention.ms", "set", "1000"))
    _seen(configs, "topic", topic, "retention.ms", "1000")
    configs.replace("topic", topic, {"segment.ms": "5000"})
    _seen(configs, "topic", topic, "segment.ms", "5000")
    kept = configs.name == "kafka-python"  # which sends what was there before along
    assert configs.describe("topic", topic)["retention.ms"].value == ("1000" if kept else "604800000")


def test_resources_are_listed(configs: ConfigAdmin, new_topic: NewTopicFunction, node: str) -> None:
    if "resources" in configs.lacks:
        pytest.skip("this client has no such call")
    topic = new_topic(1)
    assert topic in configs.resources("topic")
    assert configs.resources("broker") == {node}
