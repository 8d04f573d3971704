from __future__ import annotations

import inspect
from time import monotonic
from typing import Any

import pytest

from bifrost.client.clusters import Connection
from bifrost.client.consumer import Consumer
from bifrost.client.consumer_options import AsyncConsumerOptions, is_cooperative, librdkafka_options
from bifrost.client.discovery import group_pattern
from bifrost.client.errors import BifrostError, ConfigError, InvalidRequestError, UnreachableError, UnsupportedError

NOWHERE = "127.0.0.1:1"


def test_both_consumers_have_the_same_options() -> None:
    parameters = inspect.signature(Consumer).parameters.values()
    named = {each.name for each in parameters if each.kind is inspect.Parameter.KEYWORD_ONLY}
    assert named == set(AsyncConsumerOptions.__annotations__)


@pytest.mark.parametrize(
    ("options", "kind", "says"),
    [
        ({"delivery": "exactly_once", "group": "g"}, UnsupportedError, "needs transactions"),
        ({"delivery": "at_leastonce"}, ConfigError, "Did you mean at_least_once?"),
        ({"delivery": "at_most_once"}, ConfigError, "Give group="),
        ({"delivery": "at_most_once", "group": "g", "auto_commit": False}, ConfigError, "Leave auto_commit out"),
        ({"group": ""}, ConfigError, "name is empty"),
        ({"group": "g", "group_protocol": "classical"}, ConfigError, "Did you mean classic?"),
        ({"config": {"group.id": "g"}}, ConfigError, "Say group= instead"),
        ({"config": {"auto.offset.reset": "earliest"}}, ConfigError, "Say from_beginning= instead"),
        ({"config": {"fetch.min.byte": 1}}, ConfigError, "Did you mean fetch.min.bytes?"),
        ({"config": {"fetch.min.bytes": "many"}}, ConfigError, "fetch.min.bytes"),
        ({"value": "jsn"}, ConfigError, "Did you mean json?"),
        ({"pattern": "(", "group": "g"}, ConfigError, "is no regular expression"),
        ({"bootstrap": "not an address"}, ConfigError, "is not an address"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_connected(
    options: dict[str, Any], kind: type[BifrostError], says: str
) -> None:
    with pytest.raises(kind) as caught:
        Consumer(**{"bootstrap": NOWHERE, **options})
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_librdkafka_never_commits_by_itself() -> None:
    made = librdkafka_options(
        Connection("h:1", {"client.id": "c"}, None),
        group="g", from_beginning=True, until_end=False, group_protocol="consumer", instance_id="i",
        config={"client.id": "mine", "fetch.queue.backoff.ms": 500},
    )  # fmt: skip
    assert made["enable.auto.commit"] is False
    assert made["enable.auto.offset.store"] is False
    assert made["auto.offset.reset"] == "earliest"
    assert made["group.protocol"] == "consumer"
    assert made["group.instance.id"] == "i"
    assert made["client.id"] == "mine"
    assert made["fetch.queue.backoff.ms"] == 500, "what the application says goes"


def test_cooperation_is_known_from_protocol_and_strategy() -> None:
    assert is_cooperative("consumer", None)
    assert is_cooperative("classic", {"partition.assignment.strategy": "cooperative-sticky"})
    assert not is_cooperative("classic", {"client.id": "c"})


@pytest.mark.parametrize("pattern", ["a.*", "^a.*", "a.*$", "^a.*$"])
def test_patterns_mean_whole_names(pattern: str) -> None:
    assert group_pattern(pattern) == "^(a.*)$"


def test_a_consumer_without_anything_to_read_says_so() -> None:
    with Consumer(bootstrap=NOWHERE) as consumer, pytest.raises(BifrostError, match="subscribe"):
        next(iter(consumer))


def test_nobody_there() -> None:
    started = monotonic()
    with pytest.raises(UnreachableError, match=r"no broker answers at 127\.0\.0\.1:1 \(connection refused\)"):
        Consumer("t", bootstrap=NOWHERE, request_timeout_s=60)
    assert monotonic() - started < 30, "it was retried until the time was up"


@pytest.mark.parametrize("topics", [["t", 7], [""], [None]])
def test_what_is_no_name_of_a_topic_is_refused(topics: list[Any]) -> None:
    with pytest.raises(InvalidRequestError, match=r"is not a name\. Give a non-empty str, or several\."):
        Consumer(topics, bootstrap=NOWHERE)


def test_a_closed_consumer_says_so() -> None:
    consumer = Consumer(bootstrap=NOWHERE, group="g")
    assert repr(consumer) == "<Consumer nothing group=g assigned=none at 127.0.0.1:1>"
    consumer.close()
    consumer.close()
    assert repr(consumer) == "<Consumer nothing group=g closed at 127.0.0.1:1>"
    for act in (consumer.poll, consumer.batch, consumer.offsets, consumer.commit, lambda: next(consumer)):
        with pytest.raises(BifrostError, match="this consumer is closed"):
            act()
