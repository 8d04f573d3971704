"""Every part of a record comes back as it was written: key, value, headers, timestamp, at any size."""

from __future__ import annotations

import time

import pytest

from tests.compat.clients.base import Client, Headers, Record, Stored
from tests.compat.conftest import NewTopicFunction

MEGABYTE = 1_000_000


def _roundtrip(writer: Client, readers: list[Client], topic: str, records: list[Record]) -> dict[str, list[Stored]]:
    writer.produce(topic, records)
    return {reader.name: reader.consume(topic, {0: 0}, len(records)) for reader in readers}


def test_headers_keep_names_values_and_order(
    client: Client, all_clients: list[Client], new_topic: NewTopicFunction
) -> None:
    """Names may repeat, values may be empty or null."""
    headers: list[Headers] = [
        (),
        (("trace", b"abc"),),
        (("trace", b""),),
        (("a", b"1"), ("a", b"2"), ("z", b"last"), ("größe", "ü".encode())),
    ]
    if "null-header-values" not in client.lacks:
        headers.append((("gone", None), ("kept", b"x")))
    records = [Record(f"{index}".encode(), headers=each, partition=0) for index, each in enumerate(headers)]
    for reader, found in _roundtrip(client, all_clients, new_topic(), records).items():
        assert [record.headers for record in found] == headers, reader


def test_null_and_empty_keys_and_values_stay_apart(
    client: Client, all_clients: list[Client], new_topic: NewTopicFunction
) -> None:
    pairs = [(b"k", b"v"), (b"k", None), (None, b"v"), (b"k", b""), (b"", b"v")]
    if client.name == "kcat":
        pairs = [(b"k", b"v"), (b"k", None), (None, b"v")]  # its input format cannot tell empty from null
    records = [Record(value, key=key, partition=0) for key, value in pairs]
    for reader, found in _roundtrip(client, all_clients, new_topic(), records).items():
        assert [(record.key, record.value) for record in found] == pairs, reader


def test_create_time_is_the_producers(client: Client, all_clients: list[Client], new_topic: NewTopicFunction) -> None:
    if "timestamps" in client.lacks:
        pytest.skip(f"{client.name} cannot set a timestamp")
    start_ms = int(time.time() * 1000) - 3_600_000
    times = [start_ms, start_ms + 1, start_ms - 500, start_ms + 60_000]
    records = [Record(b"v", timestamp_ms=each, partition=0) for each in times]
    topic = new_topic(1, {"message.timestamp.type": "CreateTime"})
    for reader, found in _roundtrip(client, all_clients, topic, records).items():
        assert [record.timestamp_ms for record in found] == times, reader
        assert not any(record.append_time for record in found), reader


def test_log_append_time_is_the_brokers(client: Client, all_clients: list[Client], new_topic: NewTopicFunction) -> None:
    topic = new_topic(1, {"message.timestamp.type": "LogAppendTime"})
    wanted_ms = None if "timestamps" in client.lacks else 1_000_000_000_000
    records = [Record(f"{index}".encode(), timestamp_ms=wanted_ms, partition=0) for index in range(3)]
    before_ms = int(time.time() * 1000)
    client.produce(topic, records)
    after_ms = int(time.time() * 1000)
    for reader in all_clients:
        found = reader.consume(topic, {0: 0}, len(records))
        assert all(before_ms <= record.timestamp_ms <= after_ms for record in found), reader.name
        assert all(record.append_time for record in found), reader.name


def test_one_byte_and_ten_megabytes(client: Client, new_topic: NewTopicFunction) -> None:
    """The reader keeps its ordinary fetch size: a batch larger than that is still sent, whole, on its own (KIP-74)."""
    topic = new_topic(1, {"max.message.bytes": str(11 * MEGABYTE)})
    large = b"0123456789abcdef" * (10 * MEGABYTE // 16)
    records = [Record(b"x", partition=0), Record(large, partition=0), Record(b"y", partition=0)]
    for record in records:
        client.produce(topic, [record], max_bytes=11 * MEGABYTE)
    found = client.consume(topic, {0: 0}, 3)
    assert [len(record.value or b"") for record in found] == [1, 10 * MEGABYTE, 1]
    assert [record.value for record in found] == [record.value for record in records]
