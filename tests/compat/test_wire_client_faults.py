"""The wire client when brokers die and connections break: nothing lost, nothing twice, and an end to all waiting."""

from __future__ import annotations

import threading
import time

import pytest

from bifrost.client.errors import BifrostError, TimedOutError, UnknownTopicError, UnreachableError
from bifrost.client.wire import LATEST, Pending, WireClient
from bifrost.protocol.batch import iter_headers
from bifrost.protocol.records import decode_batch, encode_batch
from tests.compat import wire
from tests.compat.clients.confluent import Confluent
from tests.compat.conftest import BROKERS, FOREIGN, NewTopicFunction, StartBroker
from tests.compat.proxy import CuttingProxy
from tests.compat.servers import PrivateServer, Server
from tests.waiting import eventually

PARTITIONS = 3
PATIENCE_S = 90
RECORDS = 20
NOW_MS = time.time_ns() // 1_000_000
"""Retention would remove what is older."""

pytestmark = pytest.mark.skipif(bool(FOREIGN), reason="needs brokers that may be killed")


def start(kind: str, start_broker: StartBroker) -> PrivateServer:
    server = start_broker(kind, **({"flush_policy": "os"} if kind == "bifrost" else {}))
    wire.create_topic(server.bootstrap, "t", PARTITIONS, None)
    return server


def batch_of(number: int) -> bytearray:
    return encode_batch([(NOW_MS, None, f"{number}-{index}".encode(), ()) for index in range(RECORDS)])


def values_up_to(batches: int) -> list[bytes]:
    return [f"{number}-{index}".encode() for number in range(batches) for index in range(RECORDS)]


def stored(bootstrap: str, topic: str, partition: int) -> list[bytes | None]:
    with WireClient(bootstrap) as client:
        end = client.list_offsets({(topic, partition): LATEST})[topic, partition]
        assert end is not None
        return [
            record.value
            for fetched in client.fetch(topic, partition, 0, end.offset)
            for position, header in iter_headers(fetched.data)
            for record in decode_batch(fetched.data[position : position + header.size_bytes])
        ]


@pytest.mark.parametrize("kind", BROKERS)
def test_a_broker_that_dies_while_it_is_written_to_and_read(kind: str, start_broker: StartBroker) -> None:
    server = start(kind, start_broker)
    done = threading.Event()
    pending: list[list[Pending]] = [[] for _ in range(PARTITIONS)]
    followed: list[bytes | None] = []
    failures: list[BaseException] = []

    def write() -> None:
        try:
            with WireClient(server.bootstrap, {"buffer.memory": 100_000}) as client, client.producer() as producer:
                while not done.is_set():
                    for partition, batches in enumerate(pending):
                        batches.append(producer.append("t", partition, batch_of(len(batches)), RECORDS))
        except BaseException as error:
            failures.append(error)
            raise

    def follow() -> None:
        try:
            with (
                WireClient(server.bootstrap) as client,
                client.fetch("t", 0, 0, max_bytes=5_000, max_wait_ms=100) as stream,
            ):
                for fetched in stream:
                    for position, header in iter_headers(fetched.data):
                        batch = decode_batch(fetched.data[position : position + header.size_bytes])
                        followed.extend(record.value for record in batch)
                    if done.is_set() and len(followed) == len(pending[0]) * RECORDS:
                        return
        except BaseException as error:
            failures.append(error)
            raise

    def await_progress() -> None:
        """Both have got on since now."""
        acknowledged, read = sum(each.done for each in pending[0]), len(followed)
        eventually(
            lambda: (
                failures or (sum(each.done for each in pending[0]) > acknowledged + 30 and len(followed) > read + 100)
            ),
            "batches are acknowledged and followed",
        )

    writer, follower = threading.Thread(target=write, daemon=True), threading.Thread(target=follow, daemon=True)
    writer.start()
    follower.start()
    for _ in range(2):
        await_progress()
        server.kill()
        server.start()
    await_progress()
    done.set()
    writer.join(PATIENCE_S)
    follower.join(PATIENCE_S)
    assert failures == []
    assert not writer.is_alive()
    assert not follower.is_alive()
    for partition, batches in enumerate(pending):
        assert stored(server.bootstrap, "t", partition) == values_up_to(len(batches))
        assert [each.result().base_offset for each in batches] == [number * RECORDS for number in range(len(batches))]
    assert followed == values_up_to(len(pending[0]))


def write_over_cuts(broker: Server, topic: str, *, idempotent: bool) -> list[int]:
    with CuttingProxy(broker.bootstrap, seed=1, cuts=8, after_bytes=(2_000, 12_000)) as proxy:
        with WireClient(proxy.bootstrap) as client, client.producer(idempotent=idempotent) as producer:
            for number in range(200):
                producer.append(topic, 0, encode_batch([(NOW_MS, None, f"{number:0300}".encode(), ())]), 1)
        assert proxy.cuts_made == 8
    return [int(value or b"") for value in stored(broker.bootstrap, topic, 0)]


def test_lost_answers_lead_to_no_repetition(broker: Server, new_topic: NewTopicFunction) -> None:
    assert write_over_cuts(broker, new_topic(), idempotent=True) == list(range(200))


def test_without_idempotence_they_do(broker: Server, new_topic: NewTopicFunction) -> None:
    """Also the proof that the cuts are where they hurt."""
    found = write_over_cuts(broker, new_topic(), idempotent=False)
    assert sorted(set(found)) == list(range(200))
    assert len(found) > 200
    assert found == sorted(found), "repeated, but not overtaken"


def test_a_fetch_goes_on_where_it_was_cut(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic()
    with WireClient(broker.bootstrap) as client, client.producer() as producer:
        for number in range(200):
            producer.append(topic, 0, batch_of(number), RECORDS)
    found: list[bytes | None] = []
    with CuttingProxy(broker.bootstrap, seed=2, cuts=6, after_bytes=(300, 900)) as proxy:
        with WireClient(proxy.bootstrap) as client:
            for fetched in client.fetch(topic, 0, 0, 200 * RECORDS, max_bytes=3_000):
                for position, header in iter_headers(fetched.data):
                    batch = decode_batch(fetched.data[position : position + header.size_bytes])
                    found += [record.value for record in batch]
        assert proxy.cuts_made == 6
    assert found == values_up_to(200)


@pytest.mark.parametrize("kind", BROKERS)
def test_a_broker_that_does_not_come_back(kind: str, start_broker: StartBroker) -> None:
    server = start(kind, start_broker)
    settings = {"delivery.timeout.ms": 500, "default.api.timeout.ms": 500, "request.timeout.ms": 400}
    with WireClient(server.bootstrap, settings) as client:
        producer = client.producer()
        assert producer.append("t", 0, batch_of(0), RECORDS).result(PATIENCE_S).base_offset == 0
        stream = client.fetch("t", 0, 0, max_wait_ms=10)
        assert next(stream).next_offset == RECORDS
        server.kill()
        lost = producer.append("t", 0, batch_of(1), RECORDS)
        with pytest.raises(TimedOutError, match=r"a batch for t-0 was not acknowledged within 0\.5 s"):
            lost.result(PATIENCE_S)
        with pytest.raises(TimedOutError, match="t-0"):
            producer.close()
        with pytest.raises(UnreachableError, match=f"no broker answers at {server.bootstrap}"):
            list(stream)
        with pytest.raises(UnreachableError, match=f"no broker answers at {server.bootstrap}"):
            client.list_offsets({("t", 0): LATEST})
        server.start()
        assert len(stored(server.bootstrap, "t", 0)) == RECORDS


def test_a_topic_that_is_deleted_under_a_reader(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic()
    with WireClient(broker.bootstrap) as client, client.producer() as producer:
        producer.append(topic, 0, batch_of(0), RECORDS).result(PATIENCE_S)
        stream = client.fetch(topic, 0, 0, max_wait_ms=10)
        assert next(stream).data
        Confluent(broker.bootstrap).delete_topic(topic)
        with pytest.raises(UnknownTopicError, match=topic):
            for _ in stream:
                pass
        with pytest.raises(BifrostError, match=topic):
            producer.append(topic, 0, batch_of(1), RECORDS).result(PATIENCE_S)
        with pytest.raises(BifrostError, match=topic):
            producer.flush()
        producer.close(flush=False)


def test_a_topic_that_is_made_anew_under_a_reader(broker: Server, new_topic: NewTopicFunction) -> None:
    """Its offsets start again: going on would skip or repeat without a word."""
    topic = new_topic()
    with WireClient(broker.bootstrap) as client, client.producer() as producer:
        producer.append(topic, 0, batch_of(0), RECORDS).result(PATIENCE_S)
        stream = client.fetch(topic, 0, 0, max_wait_ms=10)
        assert next(stream).data
        Confluent(broker.bootstrap).delete_topic(topic)
        eventually(lambda: topic not in client.topics(), "the topic is gone")
        wire.create_topic(broker.bootstrap, topic, 1, None)
        with pytest.raises(UnknownTopicError, match=f"topic {topic} was deleted and made anew while it was read"):
            for _ in stream:
                pass
        with pytest.raises(UnknownTopicError, match=f"topic {topic} was deleted and made anew while it was written"):
            producer.append(topic, 0, batch_of(1), RECORDS).result(PATIENCE_S)
        producer.close(flush=False)
