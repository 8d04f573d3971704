"""Each level of acknowledgement stores the records, and answers as its client expects."""

from __future__ import annotations

import pytest

from tests.compat.clients.base import Acked, Client, Record
from tests.compat.conftest import NewTopicFunction


@pytest.mark.parametrize("acks", [0, 1, -1], ids=["none", "leader", "all"])
def test_acks(acks: int, client: Client, new_topic: NewTopicFunction) -> None:
    topic = new_topic()
    records = [Record(f"{index}".encode(), partition=0) for index in range(20)]
    acked = client.produce(topic, records, acks=acks)
    found = client.consume(topic, {0: 0}, len(records))
    assert [record.value for record in found] == [record.value for record in records]
    if acks != 0 and "acked-offsets" not in client.lacks:
        assert acked == [Acked(0, offset) for offset in range(20)]


def test_an_idempotent_producer_without_faults(client: Client, new_topic: NewTopicFunction) -> None:
    topic = new_topic(2)
    records = [Record(f"{index}".encode(), partition=index // 100) for index in range(200)]
    client.produce(topic, records, idempotent=True, batch_bytes=1000)
    found = client.consume(topic, {0: 0, 1: 0}, len(records))
    for partition in (0, 1):
        values = [record.value for record in found if record.partition == partition]
        assert values == [record.value for record in records if record.partition == partition]
