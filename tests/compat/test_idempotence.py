"""An idempotent producer whose connections are cut in the middle loses nothing, doubles nothing, reorders nothing.

Requests reach the broker and their answers do not, or arrive torn; every client then sends its batches again.
"""

from __future__ import annotations

import pytest

from tests.compat.clients.base import LATEST, Acked, Record
from tests.compat.conftest import CLIENTS, NewTopicFunction, make_client
from tests.compat.proxy import CuttingProxy
from tests.compat.servers import Server

RECORDS = 600
CUTS = 8


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", sorted(CLIENTS))
def test_cut_connections_leave_the_log_exact(name: str, seed: int, broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic()
    records = [Record(f"{index:06d}".encode() * 15, key=f"{index}".encode(), partition=0) for index in range(RECORDS)]
    with CuttingProxy(broker.bootstrap, seed=seed, cuts=CUTS, after_bytes=(2_000, 12_000)) as proxy:
        acked = make_client(name, proxy.bootstrap).produce(topic, records, idempotent=True, batch_bytes=1000)
        assert proxy.cuts_made >= CUTS // 2, "too few cuts to prove anything"
    reader = make_client(name, broker.bootstrap)
    found = reader.consume(topic, {0: 0}, RECORDS)
    assert [record.value for record in found] == [record.value for record in records]
    assert reader.offsets(topic, [0], LATEST) == {0: RECORDS}, "something was written twice"
    if "acked-offsets" not in reader.lacks:
        assert acked == [Acked(0, offset) for offset in range(RECORDS)]


def test_the_cuts_do_make_an_ordinary_producer_write_twice(broker: Server, new_topic: NewTopicFunction) -> None:
    """Else the tests above would prove nothing."""
    topic = new_topic()
    records = [Record(f"{index:06d}".encode() * 15, partition=0) for index in range(RECORDS)]
    with CuttingProxy(broker.bootstrap, seed=1, cuts=CUTS, after_bytes=(2_000, 12_000)) as proxy:
        make_client("confluent", proxy.bootstrap).produce(topic, records, idempotent=False, batch_bytes=1000)
    (end,) = make_client("confluent", broker.bootstrap).offsets(topic, [0], LATEST).values()
    assert end is not None
    assert end > RECORDS


def test_two_idempotent_producers_are_not_taken_for_one(broker: Server, new_topic: NewTopicFunction) -> None:
    """Each has an id of its own: the same values with the same sequence numbers are not duplicates."""
    topic = new_topic()
    client = make_client("confluent", broker.bootstrap)
    records = [Record(b"same", partition=0) for _ in range(5)]
    first = client.produce(topic, records, idempotent=True)
    second = client.produce(topic, records, idempotent=True)
    assert [each.offset for each in first + second] == list(range(10))
