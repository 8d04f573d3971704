"""Reading starts where the client says: the beginning, the end, a timestamp, an offset, also inside a batch."""

from __future__ import annotations

import threading
import time

import pytest

from tests.compat.clients.base import EARLIEST, LATEST, Client, Record, Stored
from tests.compat.clients.confluent import Confluent
from tests.compat.conftest import NewTopicFunction
from tests.compat.servers import Server

COUNT = 10
STEP_MS = 1_000


@pytest.fixture
def written(broker: Server, new_topic: NewTopicFunction) -> tuple[str, list[int]]:
    """A partition of one batch, whose records are a second apart, and their timestamps."""
    topic = new_topic()
    start_ms = int(time.time() * 1000) - 3_600_000
    times = [start_ms + index * STEP_MS for index in range(COUNT)]
    records = [Record(f"{index}".encode(), timestamp_ms=each, partition=0) for index, each in enumerate(times)]
    Confluent(broker.bootstrap).produce(topic, records)
    return topic, times


def _values(records: list[Stored]) -> list[int]:
    return [int(record.value or b"-1") for record in records]


def test_from_the_beginning(client: Client, written: tuple[str, list[int]]) -> None:
    topic, _ = written
    assert _values(client.consume(topic, {0: EARLIEST}, COUNT)) == list(range(COUNT))


def test_from_an_offset_inside_a_batch(client: Client, written: tuple[str, list[int]]) -> None:
    topic, _ = written
    found = client.consume(topic, {0: 4}, COUNT - 4)
    assert _values(found) == list(range(4, COUNT))
    assert [record.offset for record in found] == list(range(4, COUNT))


def test_from_the_end_only_later_records_come(client: Client, broker: Server, written: tuple[str, list[int]]) -> None:
    topic, _ = written
    found: list[Stored] = []
    reader = threading.Thread(target=lambda: found.extend(client.consume(topic, {0: LATEST}, 1)), daemon=True)
    reader.start()
    writer = Confluent(broker.bootstrap)
    while reader.is_alive():
        # Written again and again, since the client does not tell when it has found the end.
        writer.produce(topic, [Record(b"100", partition=0)])
        reader.join(0.05)
    assert _values(found) == [100]
    assert found[0].offset >= COUNT


def test_ends_of_the_log(client: Client, broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic(3)
    Confluent(broker.bootstrap).produce(
        topic, [Record(b"v", partition=1), Record(b"v", partition=1), Record(b"v", partition=2)]
    )
    assert client.offsets(topic, [0, 1, 2], EARLIEST) == {0: 0, 1: 0, 2: 0}
    assert client.offsets(topic, [0, 1, 2], LATEST) == {0: 0, 1: 2, 2: 1}


def test_from_a_timestamp(client: Client, written: tuple[str, list[int]]) -> None:
    """The first record whose timestamp is at least the one asked for, also between two records and inside a batch."""
    topic, times = written
    assert client.offsets(topic, [0], times[0] - 1) == {0: 0}
    assert client.offsets(topic, [0], times[3]) == {0: 3}
    assert client.offsets(topic, [0], times[3] + 1) == {0: 4}
    assert client.offsets(topic, [0], times[-1] + 1) == {0: None}
    (start,) = client.offsets(topic, [0], times[6]).values()
    assert start is not None
    assert _values(client.consume(topic, {0: start}, COUNT - 6)) == list(range(6, COUNT))


def test_several_partitions_at_once_each_in_order(client: Client, broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic(4)
    records = [Record(f"{index}".encode(), partition=index % 4) for index in range(40)]
    Confluent(broker.bootstrap).produce(topic, records)
    found = client.consume(topic, {0: EARLIEST, 1: 5, 2: EARLIEST, 3: 9}, 10 + 5 + 10 + 1)
    for partition, first in ((0, 0), (1, 5), (2, 0), (3, 9)):
        values = _values([record for record in found if record.partition == partition])
        assert values == [index for index in range(40) if index % 4 == partition][first:]
