"""How long a node takes to know its consumer groups again, and whether anybody else notices.

    python -m bench.group_loading [--groups 10000] [--partitions 100]

Commits an offset for every partition in every group, kills the node, starts it again and asks for the list of groups
until it is there, while another connection counts how long a plain request waits. Prints JSON.
"""

from __future__ import annotations

import argparse
import json
import socket
import struct
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import Any

from bench import procfs
from bifrost.errors import ErrorCode
from bifrost.protocol.codec import reader, writer
from bifrost.protocol.frame import encode_request, has_flexible_response_header, read_response_header
from bifrost.protocol.messages import response_class
from bifrost.protocol.messages.cluster import ApiVersionsRequest
from bifrost.protocol.messages.group_admin import ListGroupsRequest
from bifrost.protocol.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from bifrost.protocol.messages.groups import FindCoordinatorRequest
from bifrost.protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from bifrost.protocol.schema import Message
from bifrost.testing import Cluster
from bifrost.testing.process import ProcessNode

TOPIC = "t"
PATIENCE_S = 120.0


class Connection:
    """One request at a time."""

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._answers = self._socket.makefile("rb")

    def call(self, version: int, request: Message) -> Any:
        body = writer(type(request), version)(request)
        self._socket.sendall(encode_request(request.api, version, 0, "bench", body))
        (size,) = struct.unpack(">i", self._answers.read(4))
        frame = self._answers.read(size)
        _, at = read_response_header(frame, 0, has_flexible_response_header(request.api, version))
        return reader(response_class(request.api), version)(frame, at)[0]


class Bystander(Thread):
    """Somebody with a small request every millisecond: how long did the slowest take?"""

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self._connection = Connection(address)
        self._stopped = Event()
        self.waits_ms: list[float] = []

    def run(self) -> None:
        while not self._stopped.wait(0.001):
            started = time.perf_counter()
            self._connection.call(0, ApiVersionsRequest())
            self.waits_ms.append((time.perf_counter() - started) * 1000)

    def stop(self) -> list[float]:
        self._stopped.set()
        self.join()
        return sorted(self.waits_ms)


def commit(address: str, groups: int, partitions: int) -> float:
    """Seconds that all commits took, one after the other."""
    connection = Connection(address)
    topic = CreatableTopic(name=TOPIC, num_partitions=partitions, replication_factor=1)
    connection.call(5, CreateTopicsRequest(topics=[topic], timeout_ms=60_000))
    connection.call(2, FindCoordinatorRequest(key="g-0"))
    offsets = [OffsetCommitRequestPartition(partition_index=one, committed_offset=one) for one in range(partitions)]
    topics = [OffsetCommitRequestTopic(name=TOPIC, partitions=offsets)]
    started = time.perf_counter()
    for number in range(groups):
        answer = connection.call(8, OffsetCommitRequest(group_id=f"g-{number}", topics=topics))
        assert all(one.error_code == 0 for one in answer.topics[0].partitions)
    return time.perf_counter() - started


def wait_until_loaded(address: str, groups: int) -> float:
    connection = Connection(address)
    started = time.perf_counter()
    while (answer := connection.call(4, ListGroupsRequest())).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        time.sleep(0.002)
    seconds = time.perf_counter() - started
    assert len(answer.groups) == groups, f"{len(answer.groups)} groups of {groups} are back"
    return seconds


def measure(groups: int, partitions: int, data_dir: Path) -> dict[str, float]:
    with Cluster(data_dir=data_dir, processes=True) as cluster:
        committing = commit(cluster.bootstrap, groups, partitions)
        cluster.kill(0)
        cluster.restart(0)
        node = cluster.node(0)
        assert isinstance(node, ProcessNode)
        bystander = Bystander(cluster.bootstrap)
        bystander.start()
        loading = wait_until_loaded(cluster.bootstrap, groups)
        waits = bystander.stop()
        rss = procfs.rss_bytes(procfs.process_tree(node.pid))
    return {
        "offsets": groups * partitions,
        "commit_seconds": round(committing, 2),
        "load_seconds": round(loading, 2),
        "rss_megabytes": round(rss / (1 << 20)),
        "others_wait_ms_p50": round(waits[len(waits) // 2], 2),
        "others_wait_ms_p99": round(waits[len(waits) * 99 // 100], 2),
        "others_wait_ms_max": round(waits[-1], 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--partitions", type=int, default=100)
    arguments = parser.parse_args()
    with TemporaryDirectory() as directory:
        print(json.dumps(measure(arguments.groups, arguments.partitions, Path(directory))))


if __name__ == "__main__":
    main()
