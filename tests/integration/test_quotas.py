"""Clients that use more than they may are told to wait, and are not served meanwhile; the others are.

What is told is compared with what was sent, byte by byte. A stopwatch is used only where an answer may not come too
early: that a machine is busy cannot make it come earlier.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable

import pytest

from bifrost.errors import ErrorCode
from bifrost.protocol.fetch import FetchPartition, FetchRequest, FetchTopic
from bifrost.protocol.messages.cluster import ApiVersionsRequest, MetadataRequest
from bifrost.protocol.messages.topics import (
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
)
from bifrost.protocol.wire import ZERO_UUID
from bifrost.testing import Cluster
from tests.integration.conftest import create_topic
from tests.integration.quotas import KILOBYTE, WINDOW_S, Limit, cluster, limit, set_limits
from tests.integration.wire import ClosedByPeerError, Wire, batch
from tests.waiting import eventually

assert all((cluster, limit)), "fixtures"
pytestmark = pytest.mark.xdist_group("quotas")


def fetch_request(topic: str, offset: int = 0, *, session: tuple[int, int] = (0, -1)) -> FetchRequest:
    wanted = FetchTopic(topic, ZERO_UUID, [FetchPartition(0, -1, offset, -1, -1, 1 << 20)])
    return FetchRequest(0, 1, 1 << 24, [wanted], session_id=session[0], session_epoch=session[1])


def test_a_producer_is_answered_at_once_and_then_not_read_for_as_long_as_it_was_told(
    cluster: Cluster, topic: Callable[..., str], limit: Limit
) -> None:
    """KIP-219. 20 kilobytes are two seconds' worth, of which the first sample gives one."""
    name, client_id = topic(), limit(producer_byte_rate=10 * KILOBYTE)
    with Wire(cluster.bootstrap, client_id) as client, Wire(cluster.bootstrap) as other:
        client.send_produce(name, batch(b"x" * 20 * KILOBYTE))
        _, answer = client.receive_produce()
        answered = time.monotonic()
        assert answer.topics[0].partitions[0].error_code == 0
        assert 1_000 <= answer.throttle_time_ms <= 1_100
        client.send_produce(name, batch(b"next"))
        other.send_produce(name, batch(b"other"))
        assert other.receive_produce()[1].throttle_time_ms == 0, "nobody else is limited"
        client.receive_produce()
        assert time.monotonic() - answered >= answer.throttle_time_ms / 1000 - 0.05


def test_what_is_told_follows_from_what_was_sent(cluster: Cluster, topic: Callable[..., str], limit: Limit) -> None:
    """A greedy producer: what it was told to wait is what its bytes take at its limit, but for the samples."""
    name, rate = topic(), 40 * KILOBYTE
    client_id = limit(producer_byte_rate=rate)
    frame = batch(b"x" * 10 * KILOBYTE)
    sent, told_ms = 0, 0
    with Wire(cluster.bootstrap, client_id) as client:
        while sent < 5 * rate:
            client.send_produce(name, frame)
            sent += len(frame)
            told_ms += client.receive_produce()[1].throttle_time_ms
    assert sent / rate - WINDOW_S - 1 <= told_ms / 1000 <= sent / rate + WINDOW_S + 1


def test_a_consumer_is_told_to_wait_and_gets_nothing_meanwhile(
    cluster: Cluster, wire: Wire, topic: Callable[..., str], limit: Limit
) -> None:
    name, client_id = topic(), limit(consumer_byte_rate=10 * KILOBYTE)
    for _ in range(2):
        wire.produce(name, batch(b"x" * 8 * KILOBYTE))
    with Wire(cluster.bootstrap, client_id) as client:
        first = client.ask_fetch(12, fetch_request(name))
        assert first.throttle_time_ms == 0
        assert first.topics[0].partitions[0].records
        second = client.ask_fetch(12, fetch_request(name, 1, session=(0, 0)))
        assert second.throttle_time_ms > 0
        assert (second.topics, second.session_id) == ([], 0), "nothing, not even a session"
        answered = time.monotonic()

        def gets_it() -> bool:
            third = client.ask_fetch(12, fetch_request(name, 1, session=(0, 0)))
            return third.session_id != 0 and bool(third.topics[0].partitions[0].records)

        eventually(gets_it, "it gets the rest when it has waited")
        assert time.monotonic() - answered >= second.throttle_time_ms / 1000 - 0.05


def test_a_fetch_asks_for_no_more_than_the_limit_gives(
    cluster: Cluster, wire: Wire, topic: Callable[..., str], limit: Limit
) -> None:
    """Else a client that asks for megabytes would never get the kilobytes that it may have."""
    name, client_id = topic(), limit(consumer_byte_rate=10 * KILOBYTE)
    for _ in range(10):
        wire.produce(name, batch(b"x" * 2 * KILOBYTE))
    with Wire(cluster.bootstrap, client_id) as client:
        first = client.ask_fetch(12, fetch_request(name))
        assert first.throttle_time_ms == 0
        assert 0 < len(first.topics[0].partitions[0].records or b"") <= 10 * KILOBYTE


def test_a_batch_that_is_larger_than_the_limit_comes_through(
    cluster: Cluster, wire: Wire, topic: Callable[..., str], limit: Limit
) -> None:
    name, client_id = topic(), limit(consumer_byte_rate=KILOBYTE)
    wire.produce(name, batch(b"x" * 100 * KILOBYTE))
    with Wire(cluster.bootstrap, client_id) as client:
        assert client.fetch(name, 0).records


def test_a_session_goes_on_after_an_answer_that_was_withheld(
    cluster: Cluster, wire: Wire, topic: Callable[..., str], limit: Limit
) -> None:
    name, client_id = topic(), limit(consumer_byte_rate=10 * KILOBYTE)
    for _ in range(3):
        wire.produce(name, batch(b"x" * 8 * KILOBYTE))
    with Wire(cluster.bootstrap, client_id) as client:
        first = client.ask_fetch(12, fetch_request(name, session=(0, 0)))
        assert first.session_id != 0
        withheld = client.ask_fetch(12, fetch_request(name, 1, session=(first.session_id, 1)))
        assert (withheld.topics, withheld.session_id) == ([], first.session_id)
        assert withheld.throttle_time_ms > 0
        epochs = itertools.count(2)

        def goes_on() -> bool:
            request = FetchRequest(0, 1, 1 << 24, [], session_id=first.session_id, session_epoch=next(epochs))
            more = client.ask_fetch(12, request)
            assert more.error_code == 0
            return any(topic.partitions[0].records for topic in more.topics)

        eventually(goes_on, "the rest comes in the same session")


def test_work_for_a_client_is_counted_whatever_it_asks(cluster: Cluster, limit: Limit) -> None:
    client_id = limit(request_percentage=0.001)
    with Wire(cluster.bootstrap, client_id) as client:
        told = [client.call(9, MetadataRequest(topics=[])).throttle_time_ms for _ in range(2)]
        asked = ApiVersionsRequest(client_software_name="wire", client_software_version="1")
        told.append(client.call(3, asked).throttle_time_ms)
    assert told[0] == 0, "its first request is not counted before it is done"
    assert all(0 < wait_ms <= 1_000 for wait_ms in told[1:]), "and it never waits longer than a sample lasts"


def test_topics_are_created_and_deleted_as_fast_as_is_allowed(cluster: Cluster, wire: Wire, limit: Limit) -> None:
    """KIP-599: a burst passes, and what comes next is refused until it is paid for."""
    client_id = limit(controller_mutation_rate=1.0)

    def create(name: str, partitions: int, version: int = 6) -> tuple[int, int]:
        wanted = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        with Wire(cluster.bootstrap, client_id) as client:
            answer = client.call(version, CreateTopicsRequest(topics=[wanted], timeout_ms=10_000))
        return answer.topics[0].error_code, answer.throttle_time_ms

    assert create("burst", 62) == (0, 0)
    code, told_ms = create("refused", 1)
    assert code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert 55_000 < told_ms <= 60_000, "62 were created, and the bucket held two"
    code, told_ms = create("older", 2, version=5)
    assert code == 0, "a client that knows of no such refusal is only told to wait"
    assert told_ms > 55_000
    with Wire(cluster.bootstrap, client_id) as client:
        deleted = client.call(6, DeleteTopicsRequest(topics=[], topic_names=["burst"], timeout_ms=10_000))
    with Wire(cluster.bootstrap, client_id) as client:
        more = CreatePartitionsTopic(name="burst", count=100, assignments=None)
        grown = client.call(3, CreatePartitionsRequest(topics=[more], timeout_ms=10_000, validate_only=False))
    assert grown.results[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert grown.throttle_time_ms > 0
    assert [one.error_code for one in deleted.responses] in ([], [ErrorCode.THROTTLING_QUOTA_EXCEEDED])
    create_topic(wire, "somebody-elses")


def test_an_address_that_comes_too_often_is_kept_waiting_and_then_closed(cluster: Cluster, wire: Wire) -> None:
    """KIP-612. What is set is taken back on a connection that is in already."""
    set_limits(wire, {"ip": "127.0.0.1"}, connection_creation_rate=3.0)
    try:
        refused = 0
        for _ in range(10):
            with Wire(cluster.bootstrap) as client:
                try:
                    client.call(9, MetadataRequest(topics=[]))
                except ClosedByPeerError:
                    refused += 1
        assert 0 < refused < 10
    finally:
        set_limits(wire, {"ip": "127.0.0.1"}, connection_creation_rate=None)
    with Wire(cluster.bootstrap) as client:
        client.call(9, MetadataRequest(topics=[]))


def test_two_greedy_clients_with_the_same_limit_get_the_same(
    cluster: Cluster, topic: Callable[..., str], limit: Limit
) -> None:
    """Each of them sends the moment it may; who is let in first gains nothing by it."""
    name, rate = topic(), 40 * KILOBYTE
    limit({"client-id": None}, producer_byte_rate=rate)
    frame = batch(b"x" * 10 * KILOBYTE)
    sent = {"one": 0, "other": 0}
    clients = {who: Wire(cluster.bootstrap, f"greedy-{who}") for who in sent}
    deadline = time.monotonic() + 4
    for client in clients.values():
        client.send_produce(name, frame)
        client.socket.settimeout(0.01)
    while time.monotonic() < deadline:
        for who, client in clients.items():
            try:
                client.receive_produce()
            except TimeoutError:
                continue
            sent[who] += len(frame)
            client.send_produce(name, frame)
    for client in clients.values():
        client.socket.close()
    assert abs(sent["one"] - sent["other"]) <= 2 * len(frame), sent
    assert max(sent.values()) <= rate * (4 + WINDOW_S + 1)


def test_what_a_broker_passes_on_is_counted_where_it_came_in() -> None:
    """Among three brokers: a write to one that does not lead, and changes that the controller decides."""
    with Cluster(3, 1, **{"quota.window.num": WINDOW_S, "controller.quota.window.num": WINDOW_S}) as running:
        with Wire(running.bootstrap.split(",")[0]) as wire:
            create_topic(wire, "far", 3)
            set_limits(wire, {"client-id": None}, producer_byte_rate=10 * KILOBYTE, controller_mutation_rate=1.0)
        told = []
        for partition in range(3):
            with Wire(running.bootstrap.split(",")[0], f"client-{partition}") as client:

                def is_throttled(client: Wire = client, partition: int = partition) -> bool:
                    client.send_produce("far", batch(b"x" * 20 * KILOBYTE), partition=partition)
                    _, answer = client.receive_produce()
                    assert answer.topics[0].partitions[0].error_code == 0
                    return answer.throttle_time_ms >= 1_000

                eventually(is_throttled, "the broker has heard of the limit")
                told.append(partition)
        assert told == [0, 1, 2]
        for address in running.bootstrap.split(","):
            with Wire(address, f"admin-{address}") as client:
                names = [f"{kind}-{address.rsplit(':')[-1]}" for kind in ("first", "second")]
                wanted = [CreatableTopic(name=name, num_partitions=5, replication_factor=1) for name in names]
                answer = client.call(6, CreateTopicsRequest(topics=wanted, timeout_ms=10_000))
                assert [one.error_code for one in answer.topics] == [0, ErrorCode.THROTTLING_QUOTA_EXCEEDED]
                assert answer.throttle_time_ms > 2_000
