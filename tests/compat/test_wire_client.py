"""The wire client against both brokers: whole batches out and in, offsets, errors, threads and forks."""

from __future__ import annotations

import multiprocessing
import os
import socket
import threading
import time
from collections.abc import Iterator, Sequence

import pytest
from confluent_kafka import Producer

from bifrost.client.errors import (
    BifrostError,
    ConfigError,
    InvalidRequestError,
    OffsetOutOfRangeError,
    TimedOutError,
    UnknownPartitionError,
    UnknownTopicError,
    UnreachableError,
)
from bifrost.client.wire import EARLIEST, LATEST, MAX_TIMESTAMP, Fetched, FetchStream, WireClient, shared_client
from bifrost.protocol.batch import iter_headers
from bifrost.protocol.compression import Codec
from bifrost.protocol.records import Record, decode_batch, encode_batch
from tests.compat import oracle
from tests.compat.clients.base import CODECS
from tests.compat.clients.base import Codec as CodecName
from tests.compat.clients.base import Record as NewRecord
from tests.compat.clients.confluent import Confluent
from tests.compat.conftest import NewTopicFunction, unique_name
from tests.compat.servers import Server
from tests.waiting import eventually

PATIENCE_S = 60
NOW_MS = time.time_ns() // 1_000_000
"""Retention would remove what is older."""


@pytest.fixture
def client(broker: Server) -> Iterator[WireClient]:
    with WireClient(broker.bootstrap) as made:
        yield made


def records_of(fetched: Fetched) -> list[Record]:
    return [
        record
        for position, header in iter_headers(fetched.data)
        for record in decode_batch(fetched.data[position : position + header.size_bytes])
    ]


def read(stream: FetchStream) -> list[Record]:
    """Everything up to the stream's end."""
    return [record for fetched in stream for record in records_of(fetched)]


def write(broker: Server, topic: str, values: Sequence[bytes], *, partition: int = 0, batch_bytes: int = 1000) -> None:
    """Many small batches."""
    made = [NewRecord(value, partition=partition) for value in values]
    Confluent(broker.bootstrap).produce(topic, made, batch_bytes=batch_bytes, idempotent=True)


def numbered(count: int, width: int = 100) -> list[bytes]:
    return [f"{number:0{width}}".encode() for number in range(count)]


@pytest.mark.parametrize("codec", CODECS)
def test_all_that_was_stored_is_fetched_as_it_was_stored(
    codec: CodecName, broker: Server, client: WireClient, new_topic: NewTopicFunction
) -> None:
    topic = new_topic()
    values = numbered(3_000)
    Confluent(broker.bootstrap).produce(topic, [NewRecord(value, key=b"k") for value in values], codec=codec)
    fetched = list(client.fetch(topic, 0, 0, len(values), max_bytes=50_000))
    assert [record.value for each in fetched for record in records_of(each)] == values
    assert {header.codec for each in fetched for _, header in iter_headers(each.data)} == {CODECS.index(codec)}
    assert fetched[-1].next_offset == fetched[-1].high_watermark == fetched[-1].last_stable_offset == len(values)
    assert fetched[-1].log_start_offset == 0


def test_slices_hold_whole_batches_of_the_range_and_little_else(
    broker: Server, client: WireClient, new_topic: NewTopicFunction
) -> None:
    topic = new_topic()
    write(broker, topic, numbered(5_000))
    for start, end in ((0, 5_000), (17, 4_321), (1_000, 1_001), (4_999, 5_000), (0, 1), (777, 777)):
        fetched = list(client.fetch(topic, 0, start, end, max_bytes=20_000))
        found = [record.offset for each in fetched for record in records_of(each)]
        assert [offset for offset in found if start <= offset < end] == list(range(start, end))
        headers = [header for each in fetched for _, header in iter_headers(each.data)]
        assert all(header.base_offset < end and header.last_offset >= start for header in headers)
        assert sum(header.size_bytes for header in headers) == sum(len(each.data) for each in fetched)


def test_a_request_asks_for_no_more_than_either_limit(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic()
    write(broker, topic, numbered(2_000))
    for name in ("max.partition.fetch.bytes", "fetch.max.bytes"):
        with WireClient(broker.bootstrap, {name: 10_000}) as client:
            fetched = list(client.fetch(topic, 0, 0, 2_000))
        assert max(len(each.data) for each in fetched) <= 10_000, name


def test_a_short_range_costs_a_short_answer(broker: Server, client: WireClient, new_topic: NewTopicFunction) -> None:
    """What lies behind the range is not in what is handed out, so look at the buffer that the answer came in."""
    topic = new_topic()
    write(broker, topic, numbered(20_000), batch_bytes=10_000)
    with client.fetch(topic, 0, 0) as stream:
        whole = len(next(stream).data.obj)
    for start, end in ((100, 120), (0, 1), (19_000, 19_500)):
        with client.fetch(topic, 0, start, end) as stream:
            assert len(next(stream).data.obj) <= max(128 << 10, (end - start) * 1_200) < whole / 2
    with client.fetch(topic, 0, 0, 10_000, max_bytes=200_000) as stream:
        sizes = [len(fetched.data.obj) for fetched in stream]
    assert sizes[-1] <= sizes[0], "once the size of records is known, the last answer is no larger than what is left"


def test_a_batch_larger_than_the_limit_arrives(client: WireClient, new_topic: NewTopicFunction) -> None:
    topic = new_topic()
    with client.producer() as producer:
        for number in range(3):
            producer.append(topic, 0, encode_batch([(NOW_MS, None, bytes([number]) * 300_000, ())]), 1)
    found = read(client.fetch(topic, 0, 0, 3, max_bytes=1_000))
    assert [(record.offset, record.value) for record in found] == [(n, bytes([n]) * 300_000) for n in range(3)]


def test_a_partition_that_grows_while_it_is_followed(
    broker: Server, client: WireClient, new_topic: NewTopicFunction
) -> None:
    topic = new_topic()
    found: list[Record] = []
    empty = 0
    rounds = 0
    with client.fetch(topic, 0, 0, max_wait_ms=50) as stream:
        for fetched in stream:
            found += records_of(fetched)
            if not fetched.data and len(found) == rounds * 100:
                empty += 1
                if rounds == 3:
                    break
                write(broker, topic, numbered(300)[rounds * 100 : (rounds + 1) * 100])
                rounds += 1
    assert [record.value for record in found] == numbered(300)
    assert stream.position == 300
    assert empty >= 4


def test_slices_stay_as_they_are_while_they_are_held(
    broker: Server, client: WireClient, new_topic: NewTopicFunction
) -> None:
    """Buffers are used again, but only those that nobody holds a view of."""
    topic = new_topic()
    values = numbered(10_000)
    write(broker, topic, values, batch_bytes=5_000)
    held = [fetched.data[:] for fetched in client.fetch(topic, 0, 0, len(values), max_bytes=70_000)]
    assert len(held) > 8
    assert not any(view.readonly for view in held)
    found = [record for view in held for position, _ in iter_headers(view) for record in decode_batch(view[position:])]
    assert [record.value for record in found] == values


def test_offsets_by_time(broker: Server, client: WireClient, new_topic: NewTopicFunction) -> None:
    topic = new_topic(2, {"retention.ms": "-1"})
    made = [NewRecord(b"v", timestamp_ms=1_000 * (number + 1), partition=0) for number in range(10)]
    Confluent(broker.bootstrap).produce(topic, made)

    def offset(at: int, partition: int = 0) -> int | None:
        found = client.list_offsets({(topic, partition): at})[topic, partition]
        return None if found is None else found.offset

    assert [offset(at) for at in (EARLIEST, LATEST, 0, 4_000, 4_001, 10_000, 10_001)] == [0, 10, 0, 3, 4, 9, None]
    assert [offset(at, 1) for at in (EARLIEST, LATEST, 0)] == [0, 0, None]
    at_most = client.list_offsets({(topic, 0): MAX_TIMESTAMP})[topic, 0]
    assert at_most is not None
    assert (at_most.offset, at_most.timestamp) == (9, 10_000)
    both = client.list_offsets({(topic, 0): LATEST, (topic, 1): LATEST}, "read_committed")
    assert [found.offset for found in both.values() if found] == [10, 0]


def test_topics_and_partitions(client: WireClient, new_topic: NewTopicFunction) -> None:
    three = new_topic(3)
    assert client.partitions(three) == [0, 1, 2]
    assert three in client.topics()
    assert "__consumer_offsets" not in client.topics()


@pytest.mark.parametrize("codec", list(Codec))
def test_other_clients_read_what_is_appended(
    codec: Codec, broker: Server, client: WireClient, new_topic: NewTopicFunction
) -> None:
    topic = new_topic(2)
    pending = []
    with client.producer() as producer:
        for number in range(20):
            records = [(NOW_MS + number, b"k", f"{number}-{index}".encode(), ()) for index in range(100)]
            pending.append(producer.append(topic, number % 2, encode_batch(records, codec=codec), 100))
    assert [each.result().base_offset for each in pending] == [number // 2 * 100 for number in range(20)]
    found = Confluent(broker.bootstrap).consume(topic, {0: 0, 1: 0}, 2_000)
    for partition in (0, 1):
        values = [each.value for each in found if each.partition == partition]
        assert values == [f"{number}-{index}".encode() for number in range(partition, 20, 2) for index in range(100)]


def test_batches_carry_one_producer_id_and_consecutive_numbers(client: WireClient, new_topic: NewTopicFunction) -> None:
    topic = new_topic()
    with client.producer() as producer:
        for size in (1, 5, 3):
            producer.append(topic, 0, encode_batch([(NOW_MS, None, b"v", ())] * size), size)
    headers = [header for fetched in client.fetch(topic, 0, 0, 9) for _, header in iter_headers(fetched.data)]
    assert [header.base_sequence for header in headers] == [0, 1, 6]
    assert len({header.producer_id for header in headers}) == 1
    assert headers[0].producer_id >= 0


def test_without_idempotence_and_with_one_acknowledgement(client: WireClient, new_topic: NewTopicFunction) -> None:
    topic = new_topic()
    with client.producer(acks=1, idempotent=False) as producer:
        for number in range(50):
            producer.append(topic, 0, encode_batch([(NOW_MS, None, b"%d" % number, ())]), 1)
    found = read(client.fetch(topic, 0, 0, 50))
    assert [record.value for record in found] == [b"%d" % number for number in range(50)]
    for bad in ({"acks": 0}, {"acks": 1}, {"max_in_flight": 6}):
        with pytest.raises(ConfigError):
            client.producer(**bad)  # type: ignore[arg-type]


def test_a_refused_batch_fails_its_partition_and_no_other(client: WireClient, new_topic: NewTopicFunction) -> None:
    topic = new_topic(2, {"max.message.bytes": "1000"})
    producer = client.producer()
    good = producer.append(topic, 1, encode_batch([(NOW_MS, None, b"v", ())]), 1)
    bad = producer.append(topic, 0, encode_batch([(NOW_MS, None, b"v" * 2_000, ())]), 1)
    with pytest.raises(BifrostError, match=f"{topic}"):
        bad.result(PATIENCE_S)
    assert good.result(PATIENCE_S).base_offset == 0
    with pytest.raises(BifrostError, match=topic):
        producer.append(topic, 0, encode_batch([(NOW_MS, None, b"v", ())]), 1)
    assert producer.append(topic, 1, encode_batch([(NOW_MS, None, b"v", ())]), 1).result(PATIENCE_S).base_offset == 1
    with pytest.raises(BifrostError, match=topic):
        producer.close()
    with pytest.raises(InvalidRequestError, match="closed"):
        producer.append(topic, 1, encode_batch([(NOW_MS, None, b"v", ())]), 1)


def test_what_is_no_batch_is_not_sent(client: WireClient, new_topic: NewTopicFunction) -> None:
    topic = new_topic()
    batch = encode_batch([(NOW_MS, None, b"v", ())])
    with client.producer() as producer:
        for data, count in ((bytearray(b"x" * 100), 1), (batch[:-1], 1), (batch + batch, 1), (batch, 2), (batch, 0)):
            with pytest.raises(InvalidRequestError):
                producer.append(topic, 0, bytearray(data), count)


def test_appending_waits_for_room(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic()
    with WireClient(broker.bootstrap, {"buffer.memory": 300_000}) as client, client.producer() as producer:
        pending = [producer.append(topic, 0, encode_batch([(NOW_MS, None, b"v" * 100_000, ())]), 1) for _ in range(50)]
        assert sum(not each.done for each in pending) <= 3
    assert [each.result().base_offset for each in pending] == list(range(50))


def test_names_that_are_not_there(client: WireClient, new_topic: NewTopicFunction) -> None:
    missing, topic = unique_name(), new_topic()
    with pytest.raises(UnknownTopicError, match=f"topic {missing} does not exist. Check the name"):
        client.partitions(missing)
    with pytest.raises(UnknownTopicError, match=missing):
        next(client.fetch(missing, 0, 0))
    with pytest.raises(UnknownTopicError, match=missing):
        client.list_offsets({(missing, 0): LATEST})
    with pytest.raises(UnknownPartitionError, match=f"partition 4 of topic {topic} does not exist. It has 1"):
        next(client.fetch(topic, 4, 0))
    assert missing not in client.topics(), "asking creates nothing"
    producer = client.producer()
    pending = producer.append(missing, 0, encode_batch([(NOW_MS, None, b"v", ())]), 1)
    with pytest.raises(UnknownTopicError, match=missing):
        pending.result(PATIENCE_S)
    with pytest.raises(UnknownTopicError, match=missing):
        producer.close()


def test_an_offset_that_is_not_there(broker: Server, client: WireClient, new_topic: NewTopicFunction) -> None:
    topic = new_topic()
    write(broker, topic, numbered(10))
    with pytest.raises(OffsetOutOfRangeError, match=f"offset 11 of {topic}-0 is not there.*holds 0 to 9") as raised:
        next(client.fetch(topic, 0, 11))
    assert (raised.value.offset, raised.value.earliest, raised.value.latest) == (11, 0, 10)
    assert not next(client.fetch(topic, 0, 10, max_wait_ms=1)).data, "the end is a place to wait at"
    with pytest.raises(InvalidRequestError):
        client.fetch(topic, 0, -1)


def test_addresses_where_nobody_answers(broker: Server) -> None:
    nobody = f"127.0.0.1:{oracle.free_port()}"
    quick = {"socket.connection.setup.timeout.ms": 300}
    with pytest.raises(UnreachableError, match=f"no broker answers at {nobody}: Connection refused. Is it running"):
        WireClient(nobody, quick).topics()
    with pytest.raises(UnreachableError, match=r"no broker answers at nobody\.invalid:9092: its name is not known"):
        WireClient("nobody.invalid", quick).topics()
    with pytest.raises(UnreachableError, match=r"none of .* answers"):
        WireClient([nobody, "nobody.invalid"], quick).topics()
    with WireClient([nobody, broker.bootstrap]) as client:
        assert client.topics() is not None


def test_who_does_not_answer_or_answers_nonsense() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = f"127.0.0.1:{mute.getsockname()[1]}"
        before = time.monotonic()
        with pytest.raises(TimedOutError, match=f"{address} did not answer API_VERSIONS within 0.3 s. Is it"):
            WireClient(address, {"socket.connection.setup.timeout.ms": 300}).topics()
        assert time.monotonic() - before < 10
    with socket.create_server(("127.0.0.1", 0)) as web:

        def answer() -> None:
            taken, _ = web.accept()
            taken.recv(1000)
            taken.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            taken.close()

        thread = threading.Thread(target=answer)
        thread.start()
        address = f"127.0.0.1:{web.getsockname()[1]}"
        with pytest.raises(UnreachableError, match=f"what answers at {address} does not speak Kafka's protocol"):
            WireClient(address, {"socket.connection.setup.timeout.ms": 100}).topics()
        thread.join()


def test_threads_share_a_client(broker: Server, client: WireClient, new_topic: NewTopicFunction) -> None:
    topic = new_topic(4)
    results: dict[int, list[bytes | None]] = {}

    def work(partition: int) -> None:
        for number in range(50):
            records = [(NOW_MS, None, b"%d" % number, ())] * 10
            producer.append(topic, partition, encode_batch(records), 10)
            client.list_offsets({(topic, partition): LATEST})
        producer.flush()
        results[partition] = [record.value for record in read(client.fetch(topic, partition, 0, 500, max_bytes=5_000))]

    with client.producer() as producer:
        threads = [threading.Thread(target=work, args=(partition,)) for partition in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
    expected = [b"%d" % number for number in range(50) for _ in range(10)]
    assert results == dict.fromkeys(range(4), expected)


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_parent_and_child_both_go_on(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic()
    values = numbered(5_000)
    write(broker, topic, values)
    client = shared_client(broker.bootstrap)
    assert shared_client([broker.bootstrap]) is client
    assert shared_client(broker.bootstrap, {"client.id": "other"}) is not client
    stream = client.fetch(topic, 0, 0, len(values), max_bytes=20_000)
    found = records_of(next(stream))
    producer = client.producer()
    producer.append(topic, 0, encode_batch([(NOW_MS, None, b"parent", ())]), 1).result(PATIENCE_S)

    def in_child(pipe: multiprocessing.connection.Connection) -> None:
        inherited = stream._connection
        rest = [record.value for record in records_of(next(stream))]
        assert stream._connection is not inherited, "what the parent awaits is the parent's to read"
        rest += [record.value for record in read(stream)]
        try:
            producer.append(topic, 0, encode_batch([(NOW_MS, None, b"child", ())]), 1)
        except InvalidRequestError as error:
            refused = str(error)
        with client.producer() as own:
            offset = (
                own.append(topic, 0, encode_batch([(NOW_MS, None, b"child", ())]), 1).result(PATIENCE_S).base_offset
            )
        pipe.send((rest, refused, offset, shared_client(broker.bootstrap) is client, client.partitions(topic)))
        pipe.close()

    ours, theirs = multiprocessing.Pipe()
    context = multiprocessing.get_context("fork")
    child = context.Process(target=in_child, args=(theirs,))
    child.start()
    theirs.close()
    rest, refused, offset, same, partitions = ours.recv()
    found += read(stream)
    child.join(PATIENCE_S)
    assert [record.value for record in found] == values
    assert rest == values[len(values) - len(rest) :]
    assert 0 < len(rest) < len(values)
    assert "before the process forked" in refused
    assert offset == len(values) + 1
    assert not same
    assert partitions == [0]
    producer.append(topic, 0, encode_batch([(NOW_MS, None, b"parent", ())]), 1).result(PATIENCE_S)
    producer.close()
    assert os.getpid() != child.pid


def test_aborted_transactions_are_told_of(broker: Server, client: WireClient, new_topic: NewTopicFunction) -> None:
    if broker.name == "bifrost":
        pytest.skip("Bifrost has no transactions yet")
    topic = new_topic()
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": unique_name()})
    producer.init_transactions(PATIENCE_S)
    for fate in ("commit", "abort", "commit"):
        producer.begin_transaction()
        producer.produce(topic, fate.encode())
        producer.flush(PATIENCE_S)
        producer.commit_transaction() if fate == "commit" else producer.abort_transaction()

    def end() -> int:
        found = client.list_offsets({(topic, 0): LATEST}, "read_committed")[topic, 0]
        assert found is not None
        return found.offset

    # A commit is answered when it is decided; its marker is written after that.
    eventually(lambda: end() == 6, "the last transaction has its marker")
    (fetched,) = client.fetch(topic, 0, 0, 6, isolation="read_committed")
    data = [header for _, header in iter_headers(fetched.data) if not header.is_control]
    assert fetched.aborted == [(data[1].producer_id, 2)]
    assert next(client.fetch(topic, 0, 0, 6)).aborted == []


def test_a_closed_client_is_done(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic()
    client = WireClient(broker.bootstrap)
    assert client.partitions(topic) == [0]
    producer = client.producer()
    client.close()
    with pytest.raises(InvalidRequestError, match="the client is closed"):
        client.topics()
    with pytest.raises(InvalidRequestError, match="the client is closed"):
        next(client.fetch(topic, 0, 0))
    with pytest.raises(InvalidRequestError, match="the client is closed"):
        producer.append(topic, 0, encode_batch([(NOW_MS, None, b"v", ())]), 1)
    producer.close()
