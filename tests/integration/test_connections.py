"""Real connections to a real node: order of answers, listeners, limits, waiting."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from bifrost.errors import ErrorCode
from bifrost.protocol.apis import ApiKey
from bifrost.protocol.codec import writer
from bifrost.protocol.fetch import FetchPartition, FetchRequest, FetchTopic
from bifrost.protocol.fetch import encode_request as encode_fetch
from bifrost.protocol.frame import encode_request
from bifrost.protocol.messages.cluster import ApiVersionsRequest, DescribeClusterRequest, MetadataRequest
from bifrost.protocol.messages.topics import DeleteTopicsRequest
from bifrost.protocol.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from bifrost.protocol.produce import encode_request as encode_produce
from bifrost.protocol.wire import ZERO_UUID
from bifrost.testing import Cluster
from bifrost.testing.embedded import EmbeddedNode
from tests.integration.configs import BROKER, set_config
from tests.integration.conftest import create_topic
from tests.integration.wire import ClosedByPeerError, Wire, batch
from tests.waiting import eventually

HELLO = ApiVersionsRequest(client_software_name="t", client_software_version="1")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Writes are acknowledged after a sync here, so that requests really wait for each other."""
    with Cluster(flush_policy="ack") as running:
        yield running


def produce_frame(topic: str, number: int, acks: int = -1) -> bytes:
    data = TopicProduceData(topic, ZERO_UUID, [PartitionProduceData(0, memoryview(batch(b"%d" % number)))])
    return encode_produce(9, number, "t", ProduceRequest(None, acks, 30_000, [data]))


def fetch_frame(topic: str, number: int, *, offset: int = 0, max_wait_ms: int = 0, min_bytes: int = 1) -> bytes:
    wanted = FetchTopic(topic, ZERO_UUID, [FetchPartition(0, -1, offset, -1, -1, 1 << 20)])
    return encode_fetch(12, number, "t", FetchRequest(max_wait_ms, min_bytes, 1 << 20, [wanted]))


def hello_frame(number: int) -> bytes:
    return encode_request(ApiKey.API_VERSIONS, 3, number, "t", writer(ApiVersionsRequest, 3)(HELLO))


def metadata_frame(number: int) -> bytes:
    return encode_request(ApiKey.METADATA, 12, number, "t", writer(MetadataRequest, 12)(MetadataRequest(topics=[])))


def correlation_ids(wire: Wire, count: int) -> list[int]:
    return [int.from_bytes(wire.receive_frame()[:4], "big") for _ in range(count)]


def test_answers_come_in_the_order_of_requests_whatever_they_wait_for(wire: Wire, topic: Callable[..., str]) -> None:
    name = topic()
    frames = []
    for number in range(0, 200, 5):
        frames += [
            produce_frame(name, number),
            produce_frame(name, number + 1),
            hello_frame(number + 2),
            fetch_frame(name, number + 3, max_wait_ms=5, min_bytes=1 << 20),
            metadata_frame(number + 4),
        ]
    wire.send_bytes(b"".join(frames))
    assert correlation_ids(wire, 200) == list(range(200))


def test_unacknowledged_writes_are_not_answered_and_not_lost(wire: Wire, topic: Callable[..., str]) -> None:
    name = topic()
    wire.send_bytes(b"".join(produce_frame(name, number, acks=0) for number in range(20)) + hello_frame(99))
    assert correlation_ids(wire, 1) == [99]
    wire.produce(name, batch(b"last"))
    assert [record.value for record in wire.read(name)] == [b"%d" % number for number in range(20)] + [b"last"]


def test_a_fetch_that_waits_is_woken_by_a_write(cluster: Cluster, wire: Wire, topic: Callable[..., str]) -> None:
    name = topic()
    wire.send_bytes(fetch_frame(name, 1, max_wait_ms=60_000))
    with Wire(cluster.bootstrap) as other:
        assert other.produce(name, batch(b"news")).error_code == 0
    assert b"news" in wire.receive_frame()


def test_a_fetch_that_waits_for_more_than_comes_answers_in_time(wire: Wire, topic: Callable[..., str]) -> None:
    name = topic()
    wire.produce(name, batch(b"little"))
    started = time.monotonic()
    wire.send_bytes(fetch_frame(name, 1, max_wait_ms=100, min_bytes=1 << 20))
    assert b"little" in wire.receive_frame()
    assert time.monotonic() - started >= 0.1


def test_a_fetch_that_waits_on_a_topic_that_goes_is_told(cluster: Cluster, topic: Callable[..., str]) -> None:
    name = topic()
    answers: list[int] = []

    def wait() -> None:
        with Wire(cluster.bootstrap) as waiting:
            answers.append(waiting.fetch(name, 0, max_wait_ms=60_000).error_code)

    thread = threading.Thread(target=wait)
    thread.start()
    with Wire(cluster.bootstrap) as other:
        assert other.call(3, DeleteTopicsRequest(topic_names=[name], timeout_ms=1000)).responses[0].error_code == 0
    thread.join(20)
    assert answers[0] in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER)


def test_hundreds_of_waiting_fetches_that_each_bring_a_write_are_all_answered() -> None:
    """The answer of one starts the write behind it, which wakes the next: a stack would not be deep enough."""
    with Cluster(flush_policy="os") as cluster, contextlib.ExitStack() as stack:
        node = cluster.node(0)
        assert isinstance(node, EmbeddedNode)
        other = stack.enter_context(Wire(cluster.bootstrap))
        create_topic(other, "t")
        wires = [stack.enter_context(Wire(cluster.bootstrap)) for _ in range(300)]
        for number, one in enumerate(wires):
            one.send_bytes(fetch_frame("t", 1, max_wait_ms=60_000) + produce_frame("t", number))
        eventually(lambda: node.metrics.requests[ApiKey.FETCH] == len(wires))
        other.produce("t", batch(b"start"))
        for one in wires:
            assert len(correlation_ids(one, 2)) == 2
        assert len(other.read("t")) == 1 + len(wires)
        assert node.metrics.unexpected_errors == 0


def test_a_client_that_leaves_in_the_middle_of_everything_is_not_missed(
    cluster: Cluster, topic: Callable[..., str]
) -> None:
    name = topic()
    for number in range(50):
        with Wire(cluster.bootstrap) as leaving:
            leaving.send_bytes(
                produce_frame(name, number) * 3 + fetch_frame(name, number, offset=10**6, max_wait_ms=60_000)
            )
    with Wire(cluster.bootstrap) as other:
        assert other.produce(name, batch(b"x")).error_code == 0
        assert other.fetch(name, 0).error_code == 0


def test_every_listener_names_its_own_address() -> None:
    with Cluster(
        listeners="INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0,FAR://127.0.0.1:0",
        listener_security_protocol_map="INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT,FAR:PLAINTEXT",
        advertised_listeners="FAR://far.example.org:443",
    ) as cluster:
        node = cluster.node(0)
        assert isinstance(node, EmbeddedNode)
        assert node._node is not None
        doors = node._node._server._doors
        for (listener, door), expected in zip(doors, [None, None, "far.example.org:443"], strict=True):
            with Wire(f"127.0.0.1:{door.port}") as wire:
                (broker,) = wire.call(0, DescribeClusterRequest()).brokers
                assert f"{broker.host}:{broker.port}" == (expected or f"127.0.0.1:{door.port}"), listener.name


def test_connections_beyond_the_limit_are_closed_until_one_leaves() -> None:
    with Cluster(max_connections=2) as cluster:
        with Wire(cluster.bootstrap) as first, Wire(cluster.bootstrap) as second:
            assert first.call(3, HELLO).error_code == second.call(3, HELLO).error_code == 0
            with Wire(cluster.bootstrap) as third:
                assert third.is_closed()
            first.socket.close()
            for _ in range(1000):
                with Wire(cluster.bootstrap) as fourth, contextlib.suppress(ClosedByPeerError):
                    assert fourth.call(3, HELLO).error_code == 0
                    break
            else:
                pytest.fail("the place of the first was never free again")
            assert second.call(3, HELLO).error_code == 0


def test_one_address_may_have_so_many_connections_and_that_may_change() -> None:
    with Cluster() as cluster, Wire(cluster.bootstrap) as first, Wire(cluster.bootstrap) as second:
        set_config(first, BROKER, "", "max.connections.per.ip", "2")
        assert second.call(3, HELLO).error_code == 0, "who is in stays"
        with Wire(cluster.bootstrap) as third:
            assert third.is_closed()
        set_config(first, BROKER, "", "max.connections.per.ip.overrides", "127.0.0.1:3")
        with Wire(cluster.bootstrap) as third, Wire(cluster.bootstrap) as fourth:
            assert third.call(3, HELLO).error_code == 0
            assert fourth.is_closed()


def test_connections_that_come_too_fast_are_served_later() -> None:
    """KIP-612. The second of the two samples is under way, so that one connection may come at once."""
    rate = {"max.connection.creation.rate": 1, "quota.window.num": 2}
    with Cluster(**rate) as cluster, Wire(cluster.bootstrap) as first:
        assert first.call(3, HELLO).error_code == 0
        begin = time.monotonic()
        with Wire(cluster.bootstrap) as second:
            assert second.call(3, HELLO).error_code == 0
        assert time.monotonic() - begin >= 0.4


def test_a_connection_that_says_nothing_is_closed_in_time() -> None:
    with Cluster(connections_max_idle_ms=300) as cluster, Wire(cluster.bootstrap) as silent:
        assert silent.is_closed()
        node = cluster.node(0)
        assert isinstance(node, EmbeddedNode)
        assert node.metrics.connections_expired == 1
