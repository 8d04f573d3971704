"""What hostile and idle clients cost a node in memory.

The scenarios are tests with small numbers (test_limits.py); `python -m tests.integration.limits` runs them with large
ones and prints a table.
"""

from __future__ import annotations

import argparse
import resource
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bifrost.protocol.fetch import FetchPartition, FetchRequest, FetchTopic
from bifrost.protocol.fetch import encode_request as encode_fetch
from bifrost.protocol.messages.cluster import ApiVersionsRequest
from bifrost.protocol.wire import ZERO_UUID
from bifrost.testing import Cluster
from bifrost.testing.process import ProcessNode
from tests.integration.conftest import create_topic
from tests.integration.wire import Wire, batch

MEGABYTE = 1 << 20
SMALL_SLICES = 50
"""Partitions whose slices are too small to be sent from their files: together they make a megabyte in memory."""


class Cost(NamedTuple):
    """Resident bytes of the node."""

    before: int
    after: int
    peak: int

    @property
    def growth(self) -> int:
        return self.after - self.before


class Victim:
    """A node in a process of its own, with data to fetch, and a well-behaved client of it."""

    def __init__(self, cluster: Cluster) -> None:
        node = cluster.node(0)
        assert isinstance(node, ProcessNode)
        self.pid = node.pid
        self.bootstrap = cluster.bootstrap
        host, port = cluster.bootstrap.rsplit(":", 1)
        self.address = (host, int(port))
        self.good = Wire(cluster.bootstrap)
        create_topic(self.good, "large", 1)
        create_topic(self.good, "small", SMALL_SLICES)
        for _ in range(20):
            assert self.good.produce("large", batch(b"x" * 500_000)).error_code == 0
        for partition in range(SMALL_SLICES):
            assert self.good.produce("small", batch(b"x" * 20_000), partition=partition).error_code == 0

    def serves(self) -> bool:
        """Whether the well-behaved client can write and read."""
        hello = ApiVersionsRequest(client_software_name="good", client_software_version="1")
        return (
            self.good.call(3, hello).error_code == 0
            and self.good.produce("large", batch(b"good")).error_code == 0
            and self.good.fetch("large", 0).error_code == 0
        )

    def status(self, name: str) -> int:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) * 1024
        raise KeyError(name)

    def settle(self) -> int:
        """Resident bytes once they have stopped to change."""
        last, same = -1, 0
        while same < 5:
            time.sleep(0.05)
            now = self.status("VmRSS:")
            same = same + 1 if now == last else 0
            last = now
        return last

    def cost_of(self, scenario: Callable[[Victim], list[socket.socket]]) -> Cost:
        """Run the scenario; the node must serve before, meanwhile and after."""
        assert self.serves()
        before = self.settle()
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")  # the peak is counted from here
        held = scenario(self)
        assert self.serves()
        after = self.settle()
        peak = self.status("VmHWM:")
        for one in held:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            one.close()
        assert self.serves()
        return Cost(before, after, peak)


@contextmanager
def victim(**settings: object) -> Iterator[Victim]:
    with Cluster(processes=True, **settings) as cluster:
        yield Victim(cluster)


def connect(target: Victim, count: int) -> list[socket.socket]:
    """Connections in groups that a listening socket's queue can hold."""
    found: list[socket.socket] = []
    hello = struct.pack(">hhih", 18, 0, 1, -1)
    for _ in range(0, count, 32):
        group = [socket.create_connection(target.address, timeout=30) for _ in range(min(32, count - len(found)))]
        for one in group:
            one.sendall(struct.pack(">i", len(hello)) + hello)
        for one in group:
            (size,) = struct.unpack(">i", one.recv(4, socket.MSG_WAITALL))
            assert len(one.recv(size, socket.MSG_WAITALL)) == size
        found += group
    return found


def fetches(topic: str, partitions: int, requests: int) -> bytes:
    """So many requests in a row, each for a megabyte."""
    wanted = [FetchPartition(index, -1, 0, -1, -1, MEGABYTE) for index in range(partitions)]
    request = FetchRequest(0, 1, MEGABYTE, [FetchTopic(topic, ZERO_UUID, wanted)])
    return encode_fetch(12, 1, "greedy", request) * requests


def never_read(topic: str, partitions: int, connections: int, requests: int) -> Callable[[Victim], list[socket.socket]]:
    """Consumers that ask for `requests` megabytes each and read nothing."""

    def scenario(target: Victim) -> list[socket.socket]:
        held = connect(target, connections)
        asked = fetches(topic, partitions, requests)
        for one in held:
            one.setblocking(False)
            sent = 0
            try:
                while sent < len(asked):
                    sent += one.send(asked[sent:])
            except BlockingIOError:
                pass  # the node does not read any more either
        return held

    return scenario


def never_finish(connections: int, announced: int, sent: int) -> Callable[[Victim], list[socket.socket]]:
    """Producers that announce a frame and send only the beginning of it."""

    def scenario(target: Victim) -> list[socket.socket]:
        held = connect(target, connections)
        start = struct.pack(">ihhi", announced, 0, 9, 1) + bytes(sent - 12)
        for one in held:
            try:
                one.sendall(start)
            except ConnectionError:
                continue  # evicted
        return held

    return scenario


def idle(connections: int) -> Callable[[Victim], list[socket.socket]]:
    return lambda target: connect(target, connections)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--idle", type=int, default=10_000, help="idle connections")
    parser.add_argument("--greedy", type=int, default=100, help="connections that never read")
    parser.add_argument("--unfinished", type=int, default=200, help="connections that never finish a frame")
    numbers = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    scenarios = {
        "1 consumer, 100 x 1 MB from files, reads nothing": (1, never_read("large", 1, 1, 100)),
        f"{numbers.greedy} such consumers": (numbers.greedy, never_read("large", 1, numbers.greedy, 100)),
        f"1 consumer, 100 x 1 MB in {SMALL_SLICES} small slices": (1, never_read("small", SMALL_SLICES, 1, 100)),
        f"{numbers.greedy} such consumers ": (numbers.greedy, never_read("small", SMALL_SLICES, numbers.greedy, 100)),
        f"{numbers.unfinished} producers announce 100 MB, send 1 KB": (
            numbers.unfinished,
            never_finish(numbers.unfinished, 100 * MEGABYTE, 1024),
        ),
        f"{numbers.unfinished} producers announce 100 MB, send 1 MB": (
            numbers.unfinished,
            never_finish(numbers.unfinished, 100 * MEGABYTE, MEGABYTE),
        ),
        f"{numbers.unfinished} producers announce 100 MB, send 10 MB": (
            numbers.unfinished,
            never_finish(numbers.unfinished, 100 * MEGABYTE, 10 * MEGABYTE),
        ),
        f"{numbers.idle} idle connections": (numbers.idle, idle(numbers.idle)),
    }
    print(f"{'':55} {'before':>9} {'after':>9} {'peak':>9} {'growth':>9} {'each':>9}   (MB; each in KB)")
    for name, (connections, scenario) in scenarios.items():
        with victim() as target:
            cost = target.cost_of(scenario)
        figures = [size / 1e6 for size in (cost.before, cost.after, cost.peak, cost.growth)]
        figures.append(cost.growth / connections / 1e3)
        print(f"{name:55} " + " ".join(f"{figure:9.1f}" for figure in figures))


if __name__ == "__main__":
    main()
