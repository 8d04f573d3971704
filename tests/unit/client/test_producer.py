"""What a producer refuses before it talks to anybody."""

from __future__ import annotations

import subprocess
import sys
from time import monotonic
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka import Producer as RdKafka

import bifrost
from bifrost.client import options
from bifrost.client.errors import BifrostError, ConfigError, UnreachableError, UnsupportedError
from bifrost.client.partitioners import chooser
from bifrost.client.producer import Producer


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"config": {"linger.mss": 1}}, "librdkafka has no setting linger.mss. Did you mean linger.ms?"),
        ({"config": {"xyzzy": 1}}, "librdkafka has no setting xyzzy. Its CONFIGURATION.md lists"),
        ({"config": {"linger.ms": "soon"}}, 'Invalid value for configuration property "queue.buffering.max.ms"'),
        ({"linger_ms": -1}, 'Configuration property "queue.buffering.max.ms" value -1 is outside allowed range'),
        ({"partitioner": "roundrobin"}, "partitioner='roundrobin' is unknown. Did you mean round_robin?"),
        ({"key": "utf8"}, "key='utf8' is no format."),
        ({"compression": "brotli"}, "compression='brotli' is unknown."),
        ({"config": {"bootstrap.servers": "a:1"}}, "config has bootstrap.servers. Say bootstrap= instead."),
        ({"bootstrap": "localhost:port"}, "bootstrap: 'localhost:port' is not an address."),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], expected: str) -> None:
    with pytest.raises(ConfigError) as raised:
        Producer(**{"bootstrap": "localhost:1", **arguments})
    assert str(raised.value).startswith(expected)


def test_nobody_there() -> None:
    started = monotonic()
    with (
        Producer("127.0.0.1:1", connect_timeout_s=60) as producer,
        pytest.raises(UnreachableError, match=r"no broker answers at 127\.0\.0\.1:1 \(connection refused\)"),
    ):
        producer.send("t", b"")
    assert monotonic() - started < 30, "it was retried until the time was up"


def test_exactly_once() -> None:
    with pytest.raises(UnsupportedError):
        Producer("localhost:1", delivery="exactly_once")


def test_config_wins() -> None:
    with Producer("localhost:1", linger_ms=-1, config={"linger.ms": 1}) as producer:
        assert repr(producer) == "<Producer to localhost:1: 0 sent, 0 pending>"
    with pytest.raises(BifrostError, match="the producer is closed"):
        producer.send("t", b"")


def test_every_name_we_might_offer_is_one() -> None:
    """The installed librdkafka judges."""
    unknown = []
    for name in sorted(options.NAMES):
        try:
            RdKafka({name: object()})
        except (KafkaException, TypeError, ValueError) as error:  # what it says of the value does not matter here
            if "No such configuration property" in str(error):
                unknown.append(name)
    assert unknown == []


def test_turns_and_keys() -> None:
    choose = chooser("round_robin")
    assert choose is not None
    assert [choose(None, b"", 3) for _ in range(4)] == [0, 1, 2, 0]
    assert choose(b"k", b"", 3) == -1
    assert chooser("murmur2") is None


def test_importing_bifrost_loads_nothing() -> None:
    program = (
        "import sys, bifrost; print([n for n in sys.modules if n.startswith(('confluent', 'bifrost.', 'msgspec'))])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"


def test_names_are_found_when_they_are_used() -> None:
    assert bifrost.Producer is Producer
    assert "Producer" in dir(bifrost)
    with pytest.raises(AttributeError, match="has no attribute 'Producr'"):
        bifrost.Producr  # type: ignore[attr-defined]  # noqa: B018
