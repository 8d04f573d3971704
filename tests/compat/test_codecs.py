"""What one client writes with any codec, every client reads, and the broker keeps the bytes compressed as they came."""

from __future__ import annotations

import pytest

from tests.compat import batches, wire
from tests.compat.clients.base import CODECS, Client, Codec, Record
from tests.compat.conftest import NewTopicFunction
from tests.compat.servers import Server


def _records(client: Client, codec: Codec) -> list[Record]:
    """Compressible, of several sizes, and unmistakably this client's."""
    return [
        Record(f"{client.name} {codec} {index} ".encode() * repeat, key=f"{client.name}-{index}".encode(), partition=0)
        for index, repeat in enumerate((1, 20, 400))
    ]


@pytest.mark.parametrize("codec", CODECS)
def test_every_client_reads_what_every_other_wrote(
    codec: Codec, all_clients: list[Client], new_topic: NewTopicFunction
) -> None:
    topic = new_topic()
    able = [client for client in all_clients if codec in client.codecs]
    written = []
    for writer in able:
        records = _records(writer, codec)
        writer.produce(topic, records, codec=codec)
        written += [(record.key, record.value) for record in records]
    for reader in able:
        found = reader.consume(topic, {0: 0}, len(written))
        assert [(record.key, record.value) for record in found] == written, reader.name
        assert [record.offset for record in found] == list(range(len(written))), reader.name


def test_batches_keep_the_codec_the_client_chose(client: Client, broker: Server, new_topic: NewTopicFunction) -> None:
    """Old librdkafka sends plain batches, silently, to a broker whose advertised versions it takes for too old."""
    for number, codec in enumerate(CODECS):
        if codec not in client.codecs:
            continue
        topic = new_topic()
        records = _records(client, codec)[1:]
        client.produce(topic, records, codec=codec)
        headers = batches.headers_of(wire.fetch_records(broker.bootstrap, topic, 0))
        assert {header["attributes"] & 7 for header in headers} == {number}, codec
        found = client.consume(topic, {0: 0}, len(records))
        assert [(each.key, each.value) for each in found] == [(each.key, each.value) for each in records]
    missing = [codec for codec in CODECS if codec not in client.codecs]
    if missing:
        pytest.skip(f"{client.name} has no {', '.join(missing)} on this machine; the other codecs passed")
