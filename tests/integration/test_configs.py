"""A changed config counts from the next request on, at whatever level it was changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from bifrost.errors import ErrorCode
from bifrost.protocol.messages.topics import DeleteTopicsRequest
from bifrost.testing import Cluster
from tests.integration.configs import BROKER, TOPIC, config_of, set_config, try_config
from tests.integration.conftest import create_topic
from tests.integration.wire import NOW, Wire, batch
from tests.waiting import eventually

pytestmark = pytest.mark.xdist_group("configs of a node")

LEVELS = ("topic", "broker", "all")
NODE = "0"
BIG = batch(b"x" * 10_000)


@pytest.fixture(params=LEVELS)
def change(request: pytest.FixtureRequest, wire: Wire, topic: Callable[..., str]) -> Iterator[Callable[..., str]]:
    """Changes a config of a topic at one level, and in the end takes it back."""
    undo: list[tuple[int, str, str]] = []
    kind = TOPIC if request.param == "topic" else BROKER
    name = topic()
    resource = {"topic": name, "broker": NODE, "all": ""}[request.param]

    def to(config: str, of_broker: str, value: str | None) -> str:
        changed = config if kind == TOPIC else of_broker
        undo.append((kind, resource, changed))
        set_config(wire, kind, resource, changed, value)
        return name

    yield to
    for done in undo:
        set_config(wire, *done, None)


def test_the_size_of_batches(wire: Wire, change: Callable[..., str]) -> None:
    name = change("max.message.bytes", "message.max.bytes", "5000")
    assert wire.produce(name, BIG).error_code == ErrorCode.MESSAGE_TOO_LARGE
    change("max.message.bytes", "message.max.bytes", "50000")
    assert wire.produce(name, BIG).error_code == 0
    change("max.message.bytes", "message.max.bytes", "5000")
    assert wire.produce(name, BIG).error_code == ErrorCode.MESSAGE_TOO_LARGE
    change("max.message.bytes", "message.max.bytes", None)
    assert wire.produce(name, BIG).error_code == 0


def test_whose_clock_stamps_records(wire: Wire, change: Callable[..., str]) -> None:
    name = change("message.timestamp.type", "log.message.timestamp.type", "LogAppendTime")
    stamped = wire.produce(name, batch(b"now", timestamp=NOW))
    change("message.timestamp.type", "log.message.timestamp.type", None)
    kept = wire.produce(name, batch(b"then", timestamp=NOW))
    assert (stamped.log_append_time_ms > NOW, kept.log_append_time_ms) == (True, -1)
    assert [record.timestamp == NOW for record in wire.read(name)] == [False, True]


def test_how_old_a_record_may_be(wire: Wire, change: Callable[..., str]) -> None:
    name = change("message.timestamp.before.max.ms", "log.message.timestamp.before.max.ms", "1000")
    assert wire.produce(name, batch(b"old", timestamp=NOW)).error_code == ErrorCode.INVALID_TIMESTAMP
    change("message.timestamp.before.max.ms", "log.message.timestamp.before.max.ms", None)
    assert wire.produce(name, batch(b"old", timestamp=NOW)).error_code == 0


def test_where_a_segment_ends(cluster: Cluster, wire: Wire, change: Callable[..., str]) -> None:
    name = change("segment.bytes", "log.segment.bytes", str(1 << 20))
    for _ in range(3):
        assert wire.produce(name, batch(b"x" * 600_000)).error_code == 0
    change("segment.bytes", "log.segment.bytes", None)
    for _ in range(3):
        assert wire.produce(name, batch(b"x" * 600_000)).error_code == 0
    files = sorted(path.name for path in (cluster.node_dir(0) / f"{name}-0").glob("*.log"))
    assert [int(name.removesuffix(".log")) for name in files] == [0, 1, 2]


def test_a_topic_made_later_inherits_it_too(wire: Wire, topic: Callable[..., str]) -> None:
    set_config(wire, BROKER, "", "message.max.bytes", "5000")
    try:
        name = topic()
        assert wire.produce(name, BIG).error_code == ErrorCode.MESSAGE_TOO_LARGE
        assert config_of(wire, TOPIC, name, "max.message.bytes") == ("5000", 3)
    finally:
        set_config(wire, BROKER, "", "message.max.bytes", None)


def test_a_topic_that_is_made_again_starts_afresh(wire: Wire, topic: Callable[..., str]) -> None:
    name = topic()
    set_config(wire, TOPIC, name, "max.message.bytes", "5000")
    wire.call(5, DeleteTopicsRequest(topic_names=[name], timeout_ms=1000))
    assert try_config(wire, TOPIC, name, "max.message.bytes", "6000") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    create_topic(wire, name)
    assert wire.produce(name, BIG).error_code == 0


def test_how_long_the_files_of_a_deleted_topic_stay(cluster: Cluster, wire: Wire, topic: Callable[..., str]) -> None:
    name = topic()
    set_config(wire, BROKER, NODE, "log.segment.delete.delay.ms", "1")
    wire.call(5, DeleteTopicsRequest(topic_names=[name], timeout_ms=1000))
    eventually(lambda: not list(cluster.node_dir(0).glob(f"{name}-0*")))
    set_config(wire, BROKER, NODE, "log.segment.delete.delay.ms", None)


def test_how_many_connections_are_let_in(cluster: Cluster, wire: Wire) -> None:
    set_config(wire, BROKER, NODE, "max.connections", "1")
    try:
        with Wire(cluster.bootstrap) as refused:
            assert refused.is_closed()
    finally:
        set_config(wire, BROKER, NODE, "max.connections", None)
    with Wire(cluster.bootstrap) as welcome:
        assert config_of(welcome, BROKER, NODE, "max.connections") == (str((1 << 31) - 1), 5)


def test_a_setting_that_needs_a_restart_is_refused(wire: Wire) -> None:
    assert try_config(wire, BROKER, NODE, "num.partitions", "7") is ErrorCode.INVALID_REQUEST
    assert try_config(wire, BROKER, "", "listeners", "PLAINTEXT://:1") is ErrorCode.INVALID_REQUEST
