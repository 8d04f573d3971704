"""A cluster of real processes with many topics: what each step takes, and how long a writer to another topic waits.

    python -m bench.many_topics [--topics 10000] [--partitions 3] [--replicas 3] [--data DIR]

Three Heimdalls and three Odins on this machine. Topics are created a thousand in each request; then the metadata of all
is asked of every broker, one broker is stopped in good order and started again, and one is killed. Meanwhile somebody
writes one small record after the other, with acks=all, to a topic of its own that all three brokers keep: its longest
wait is what others feel. What is under way is told on stderr, the table goes to stdout.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench import procfs
from bifrost.client.wire.connection import Address
from bifrost.client.wire.handshake import connect
from bifrost.client.wire.patience import Deadline
from bifrost.client.wire.settings import WireSettings
from bifrost.protocol.messages.cluster import MetadataRequest, MetadataRequestTopic, MetadataResponse
from bifrost.testing import Cluster
from bifrost.testing.process import ProcessNode

TOPICS_PER_REQUEST = 1_000
SAMPLE = 50
"""So many topics, spread over all of them, are looked at to see whether leaders have moved; at the end all are."""
PATIENCE_S = 600.0
OTHER = "other"
_LOOK_S = 0.02


class Row(NamedTuple):
    what: str
    took: str
    longest_wait_s: float | None = None


class Writer:
    """One record after the other; the longest wait for one since it was last asked."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0, "log_level": 0})
        self._longest_s, self._since = 0.0, time.monotonic()
        self._stopped = threading.Event()
        self._failed: list[str] = []
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def _write(self) -> None:
        def on_delivery(error: object, _: object) -> None:
            if error is not None:
                self._failed.append(str(error))

        while not self._stopped.wait(0.005):
            self._since = time.monotonic()
            self._producer.produce(OTHER, b"x", on_delivery=on_delivery)
            self._producer.flush()
            self._longest_s = max(self._longest_s, time.monotonic() - self._since)

    def longest_s(self) -> float:
        """The one that is still waiting counts, too."""
        longest, self._longest_s = max(self._longest_s, time.monotonic() - self._since), 0.0
        return longest

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(PATIENCE_S)
        assert not self._failed, self._failed[:3]


class Brokers:
    """The cluster, and what its brokers say of topics."""

    def __init__(self, cluster: Cluster, topics: int, partitions: int, replicas: int) -> None:
        self.cluster = cluster
        self.names = [f"topic-{number:06d}" for number in range(topics)]
        self.partitions = partitions
        self.replicas = replicas

    def node(self, node_id: int) -> ProcessNode:
        node = self.cluster.node(node_id)
        assert isinstance(node, ProcessNode)
        return node

    def metadata(self, broker: int, names: list[str] | None) -> MetadataResponse:
        """By this very broker; of all topics without names."""
        host, port = self.node(broker).address.rsplit(":", 1)
        deadline = Deadline(PATIENCE_S)
        connection = connect(Address(host, int(port)), WireSettings(), None, deadline)
        topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        try:
            asked = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
            return connection.ask(asked, MetadataResponse, deadline)
        finally:
            connection.close()

    def leaders(self, broker: int, names: list[str] | None) -> list[int]:
        """Of all partitions of the topics that the broker knows; those without one are -1."""
        topics = [one for one in self.metadata(broker, names).topics if one.name != OTHER and not one.error_code]
        return [one.leader_id for topic in topics for one in topic.partitions]

    def know(self, names: list[str]) -> bool:
        """Whether every broker knows a leader of each partition."""
        wanted = len(names) * self.partitions
        told = [self.leaders(node.id, names) for node in self.cluster.brokers]
        return all(len(leaders) == wanted and min(leaders) >= 0 for leaders in told)

    def sample(self) -> list[str]:
        step = max(1, len(self.names) // SAMPLE)
        return [*self.names[::step], self.names[-1]]

    def gauge(self, name: str) -> int:
        """Of the cluster, as the active Odin counts it."""
        active = self.cluster.active_odin()
        if not isinstance(active, ProcessNode):
            return -1
        with urllib.request.urlopen(f"{active.http_url}/metrics", timeout=PATIENCE_S) as answer:
            found = re.search(rf"^{re.escape(name)} (\d+)$", answer.read().decode(), re.MULTILINE)
        return int(found[1]) if found else -1

    def whole(self) -> bool:
        names = ("bifrost_partitions_without_leader", "bifrost_partitions_under_replicated")
        return self.gauge('bifrost_brokers{state="alive"}') == 3 and [*map(self.gauge, names)] == [0, 0]

    def rss(self) -> str:
        nodes = {"broker": self.cluster.brokers, "Odin": self.cluster.odins}
        return "; ".join(
            f"{role} " + ", ".join(f"{procfs.rss_bytes([self.node(node.id).pid]) / 1e6:.0f}" for node in members)
            for role, members in nodes.items()
        )


def until(holds: Callable[[], bool]) -> float:
    """Seconds until it does."""
    began = time.monotonic()
    while not holds():
        assert time.monotonic() - began < PATIENCE_S, "it never came true"
        time.sleep(_LOOK_S)
    return time.monotonic() - began


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def create_all(brokers: Brokers, admin: AdminClient, writer: Writer) -> Iterator[Row]:
    took: list[float] = []
    known: list[float] = []
    for first in range(0, len(brokers.names), TOPICS_PER_REQUEST):
        names = brokers.names[first : first + TOPICS_PER_REQUEST]
        wanted = [NewTopic(name, brokers.partitions, brokers.replicas) for name in names]
        began = time.monotonic()
        for done in admin.create_topics(wanted, request_timeout=PATIENCE_S).values():
            done.result(PATIENCE_S)
        took.append(time.monotonic() - began)
        known.append(took[-1] + until(lambda names=names: brokers.know(names[-1:])))  # type: ignore[misc]
        tell(f"{first + len(names):,} topics: {took[-1]:.2f} s, known everywhere after {known[-1]:.2f} s")
    first_to_last = f"{took[0]:.2f} to {took[-1]:.2f} s, {max(took):.2f} s at most"
    yield Row(f"a request that creates {TOPICS_PER_REQUEST:,} topics, first to last", first_to_last, writer.longest_s())
    yield Row(
        "until every broker knows the last of them", f"{known[0]:.2f} to {known[-1]:.2f} s, {max(known):.2f} s at most"
    )
    yield Row("until no replica is missing", f"{until(brokers.whole):.2f} s", writer.longest_s())


def ask_all(brokers: Brokers, writer: Writer) -> Iterator[Row]:
    took = []
    for node in brokers.cluster.brokers:
        began = time.monotonic()
        told = brokers.leaders(node.id, None)
        took.append(time.monotonic() - began)
        assert len(told) == len(brokers.names) * brokers.partitions
    yield Row(
        "metadata of all topics, asked of each broker", ", ".join(f"{one:.2f} s" for one in took), writer.longest_s()
    )


def restart_one(brokers: Brokers, writer: Writer) -> Iterator[Row]:
    node = brokers.node(2)
    began = time.monotonic()
    node.stop()
    yield Row("a broker stopped in good order", f"{time.monotonic() - began:.2f} s", writer.longest_s())
    began = time.monotonic()
    node.start()
    ready_s = time.monotonic() - began
    tell(f"ready again after {ready_s:.2f} s")
    whole_s = ready_s + until(brokers.whole)
    text = f"{ready_s:.2f} s; {whole_s:.2f} s"
    yield Row("it is started: until it serves unfenced; until everything is in sync", text, writer.longest_s())


def kill_one(brokers: Brokers, writer: Writer) -> Iterator[Row]:
    dead, others = 1, (0, 2)
    # Nobody can lead what only the dead one had.
    gone, what = ((dead, -1), "others lead") if brokers.replicas > 1 else ((dead,), "it leads nothing")
    sample = brokers.sample()
    led = sum(leader == dead for leader in brokers.leaders(0, None))
    began = time.monotonic()
    brokers.node(dead).kill()

    def have_moved() -> bool:
        return not any(leader in gone for broker in others for leader in brokers.leaders(broker, sample))

    until(have_moved)
    took_s = time.monotonic() - began
    assert not any(leader in gone for broker in others for leader in brokers.leaders(broker, None))
    yield Row(
        f"a broker killed that led {led:,}: until {what}, as both others say", f"{took_s:.2f} s", writer.longest_s()
    )
    began = time.monotonic()
    brokers.node(dead).start()
    ready_s = time.monotonic() - began
    tell(f"ready again after {ready_s:.2f} s")
    whole_s = ready_s + until(brokers.whole)
    text = f"{ready_s:.2f} s; {whole_s:.2f} s"
    yield Row("it is started: until it serves unfenced; until everything is in sync", text, writer.longest_s())


@contextmanager
def running(folder: Path) -> Iterator[Cluster]:
    """Ended at once: to stop it in order is measured above, and takes long enough there."""
    cluster = Cluster(
        brokers=3, odins=3, processes=True, data_dir=folder / "data", odin_settings={"http.listener": "127.0.0.1:0"}
    )
    for node in (*cluster.odins, *cluster.brokers):
        assert isinstance(node, ProcessNode)
        node.log = folder / f"{node.id}.log"  # a line for each partition, and more
    try:
        yield cluster.start()
    finally:
        for node in (*cluster.odins, *cluster.brokers):
            node.kill()
        cluster.close()


def measure(topics: int, partitions: int, replicas: int, folder: Path) -> Iterator[Row]:
    with running(folder) as cluster:
        brokers = Brokers(cluster, topics, partitions, replicas)
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        (done,) = admin.create_topics([NewTopic(OTHER, 1, 3)]).values()
        done.result(PATIENCE_S)
        until(brokers.whole)
        writer = Writer(cluster.bootstrap)
        time.sleep(2.0)
        yield Row("resident sets in MB, without topics", brokers.rss())
        yield Row("a writer to another topic, undisturbed for 2 s", "", writer.longest_s())
        yield from create_all(brokers, admin, writer)
        yield from ask_all(brokers, writer)
        yield Row("resident sets in MB, with all topics", brokers.rss())
        yield from restart_one(brokers, writer)
        yield from kill_one(brokers, writer)
        writer.stop()


def main() -> None:
    from rich.console import Console
    from rich.table import Table

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--partitions", type=int, default=3, help="of each topic")
    parser.add_argument("--replicas", type=int, default=3, choices=(1, 2, 3), help="of each partition")
    parser.add_argument("--data", type=Path, help="where to keep them meanwhile")
    options = parser.parse_args()
    shown = Table(
        f"{options.topics:,} topics of {options.partitions} partitions x {options.replicas}",
        "took",
        "longest wait of the writer",
    )
    with tempfile.TemporaryDirectory(dir=options.data, prefix="many-topics-") as folder:
        for row in measure(options.topics, options.partitions, options.replicas, Path(folder)):
            wait = "" if row.longest_wait_s is None else f"{row.longest_wait_s * 1000:,.0f} ms"
            tell(f"{row.what}: {row.took} {wait}")
            shown.add_row(row.what, row.took, wait)
    Console(width=160).print(shown)


if __name__ == "__main__":
    main()
