"""A node that is killed at any moment of a busy life loses nothing that it acknowledged."""

from __future__ import annotations

import random
import threading

import pytest

from bifrost.testing import Cluster
from tests.integration.conftest import create_topic
from tests.integration.wire import ClosedByPeerError, Wire, batch

WRITERS = 3
PIPELINED = 5


class Writer(threading.Thread):
    """Keeps a few writes under way until the node is gone; remembers which of them were acknowledged, and where."""

    def __init__(self, address: str, partition: int, first: int) -> None:
        super().__init__(daemon=True)
        self._address = address
        self.partition = partition
        self.next = first
        self.acknowledged: dict[int, bytes] = {}
        self.progress = threading.Event()

    def run(self) -> None:
        try:
            with Wire(self._address) as wire:
                waiting: list[bytes] = []
                while True:
                    while len(waiting) < PIPELINED:
                        value = b"%d-%d" % (self.partition, self.next) + b"." * random.Random(self.next).randrange(3000)
                        wire.send_produce("t", batch(value), partition=self.partition)
                        waiting.append(value)
                        self.next += 1
                    _, response = wire.receive_produce()
                    result = response.topics[0].partitions[0]
                    assert result.error_code == 0
                    self.acknowledged[result.base_offset] = waiting.pop(0)
                    if len(self.acknowledged) % 20 == 0:
                        self.progress.set()
        except (ClosedByPeerError, ConnectionError):
            return


@pytest.mark.parametrize("policy", ["ack", "os"])
def test_a_node_that_is_killed_while_it_writes_loses_nothing_acknowledged(policy: str) -> None:
    rng = random.Random(policy)
    with Cluster(processes=True, flush_policy=policy) as cluster:
        with Wire(cluster.bootstrap) as wire:
            create_topic(wire, "t", WRITERS, segment_bytes=1 << 20)
        known: list[dict[int, bytes]] = [{} for _ in range(WRITERS)]
        first = 0
        for _ in range(3):
            writers = [Writer(cluster.bootstrap, partition, first) for partition in range(WRITERS)]
            for writer in writers:
                writer.start()
            for _ in range(rng.randrange(1, 5)):
                assert writers[0].progress.wait(20)
                writers[0].progress.clear()
            cluster.kill(0)
            for writer in writers:
                writer.join(20)
                assert not writer.is_alive()
                known[writer.partition].update(writer.acknowledged)
            first = max(writer.next for writer in writers)
            cluster.restart(0)
            with Wire(cluster.bootstrap) as wire:
                for partition in range(WRITERS):
                    records = wire.read("t", partition=partition)
                    assert [record.offset for record in records] == list(range(len(records))), "no gap, no repetition"
                    stored = {record.offset: record.value for record in records}
                    lost = {offset for offset, value in known[partition].items() if stored.get(offset) != value}
                    assert not lost
