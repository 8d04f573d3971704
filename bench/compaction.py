"""How fast a topic is compacted, how much memory that takes, and what somebody else's writes wait for meanwhile.

    python -m bench.compaction [--megabytes 100 --megabytes 1024] [--keys 400000] [--rate BYTES]

Fills a topic whose keys come again and again, and has it compacted by a node in a process of its own, with Kafka's
defaults. Before, and meanwhile, one connection writes a record of 100 bytes to another topic, waits until it is on
disk, and writes the next. Prints a line of JSON for each size.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread

from tests.integration.wire import Wire

from bench import procfs
from bench.group_loading import Connection
from bifrost.protocol.messages.configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from bifrost.protocol.messages.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from bifrost.protocol.records import encode_batch
from bifrost.testing import Cluster
from bifrost.testing.process import ProcessNode

COMPACTED, OTHER = "compacted", "other"
MEGABYTE = 1 << 20
VALUE = b"x" * 100
BATCH_RECORDS = 5_000
BEFORE_S = 15.0
LOOK_S = 1.0
SEGMENT_BYTES = 16 * MEGABYTE


class Writer(Thread):
    """Writes and waits, again and again: how long did each take?"""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self._wire = Wire(bootstrap)
        self._stopped = Event()
        self.waits_ms: list[float] = []

    def run(self) -> None:
        batch = bytes(encode_batch([(int(time.time() * 1000), b"key", VALUE, ())]))
        while not self._stopped.is_set():
            started = time.perf_counter()
            self._wire.produce(OTHER, batch)
            self.waits_ms.append((time.perf_counter() - started) * 1000)

    def stop(self) -> dict[str, float]:
        self._stopped.set()
        self.join()
        waits = sorted(self.waits_ms)
        return {"writes": len(waits), **{f"p{share}_ms": at(waits, share) for share in (50, 99, 100)}}


def at(waits: list[float], percent: int) -> float:
    return round(waits[min(len(waits) * percent // 100, len(waits) - 1)], 2)


def batches(keys: int) -> Iterator[bytes]:
    """For ever, every key in turn."""
    now_ms = int(time.time() * 1000)
    made = [
        bytes(encode_batch([(now_ms, b"key-%08d" % key, VALUE, ()) for key in range(first, first + BATCH_RECORDS)]))
        for first in range(0, keys, BATCH_RECORDS)
    ]
    while True:
        yield from made


class Memory(Thread):
    """The most that the node and its worker had resident. The kernel keeps that, and is asked seldom: to look at pages
    every few milliseconds made the writer beside it wait for longer than compaction does."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._pid = pid
        self._stopped = Event()
        self.node_bytes = self.worker_bytes = 0

    def run(self) -> None:
        procfs.forget_peaks([self._pid])
        while not self._stopped.wait(LOOK_S):
            tree = procfs.process_tree(self._pid)
            self.node_bytes = procfs.largest_peak_bytes(tree[:1])
            self.worker_bytes = max(self.worker_bytes, procfs.largest_peak_bytes(tree[1:]))

    def stop(self) -> None:
        self._stopped.set()
        self.join()


def fill(wire: Wire, megabytes: int, keys: int) -> int:
    written = 0
    for batch in batches(keys):
        if written >= megabytes * MEGABYTE:
            return written
        wire.produce(COMPACTED, batch)
        written += len(batch)
    raise AssertionError("batches never end")


def measure(megabytes: int, keys: int, data_dir: Path, rate: float | None) -> dict[str, object]:
    settings: dict[str, object] = {"flush_policy": "ack", "log_cleaner_backoff_ms": 200}
    if rate is not None:
        settings["log_cleaner_io_max_bytes_per_second"] = rate
    with Cluster(data_dir=data_dir, processes=True, **settings) as cluster:
        wire = Wire(cluster.bootstrap)
        admin = Connection(cluster.bootstrap)
        segments = CreatableTopicConfig(name="segment.bytes", value=str(SEGMENT_BYTES))
        for name in (COMPACTED, OTHER):
            topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, configs=[segments])
            admin.call(5, CreateTopicsRequest(topics=[topic], timeout_ms=60_000))
        written = fill(wire, megabytes, keys)
        node = cluster.node(0)
        assert isinstance(node, ProcessNode)
        before = writes_for(cluster.bootstrap, BEFORE_S)
        memory, writer = Memory(node.pid), Writer(cluster.bootstrap)
        memory.start()
        writer.start()
        started, cpu = time.perf_counter(), procfs.cpu_seconds(procfs.process_tree(node.pid))
        compact(admin)
        checkpoint = cluster.node_dir(0) / "cleaner-offset-checkpoint"
        while not checkpoint.exists() or COMPACTED not in checkpoint.read_text():
            time.sleep(0.1)
        seconds = time.perf_counter() - started
        meanwhile = writer.stop()
        memory.stop()
        left = sum(path.stat().st_size for path in (cluster.node_dir(0) / f"{COMPACTED}-0").glob("*.log"))
        cpu = procfs.cpu_seconds(procfs.process_tree(node.pid)) - cpu
    return {
        "megabytes": round(written / MEGABYTE),
        "left_megabytes": round(left / MEGABYTE),
        "seconds": round(seconds, 1),
        "megabytes_per_second": round(written / MEGABYTE / seconds, 1),
        "worker_peak_megabytes": round(memory.worker_bytes / MEGABYTE),
        "node_peak_megabytes": round(memory.node_bytes / MEGABYTE),
        "cpu_seconds": round(cpu, 1),
        "writes_before": before,
        "writes_meanwhile": meanwhile,
    }


def writes_for(bootstrap: str, seconds: float) -> dict[str, float]:
    writer = Writer(bootstrap)
    writer.start()
    time.sleep(seconds)
    return writer.stop()


def compact(admin: Connection) -> None:
    wanted = [
        AlterableConfig(name=name, config_operation=0, value=value)
        for name, value in (("cleanup.policy", "compact"), ("min.cleanable.dirty.ratio", "0.01"))
    ]
    resource = AlterConfigsResource(resource_type=2, resource_name=COMPACTED, configs=wanted)
    admin.call(1, IncrementalAlterConfigsRequest(resources=[resource], validate_only=False))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, action="append")
    parser.add_argument("--keys", type=int, default=400_000)
    parser.add_argument("--rate", type=float, help="log.cleaner.io.max.bytes.per.second")
    arguments = parser.parse_args()
    for megabytes in arguments.megabytes or (100, 1024):
        with TemporaryDirectory() as directory:
            print(json.dumps(measure(megabytes, arguments.keys, Path(directory), arguments.rate)), flush=True)


if __name__ == "__main__":
    main()
