"""The hot path handles batches, never records: one record and ten thousand cost the same number of calls.

A stopwatch would depend on the machine; a count does not. Everything between the bytes that arrive and the bytes that
leave is counted, by sys.setprofile, on a whole node; and on three of them, for what followers copy from a leader.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from bifrost.broker.node import Node
from bifrost.clock import SystemClock
from bifrost.log.memory_disk import MemoryDisk
from bifrost.protocol.codec import writer
from bifrost.protocol.fetch import FetchPartition, FetchRequest, FetchTopic
from bifrost.protocol.fetch import encode_request as encode_fetch
from bifrost.protocol.frame import encode_request
from bifrost.protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from bifrost.protocol.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from bifrost.protocol.produce import encode_request as encode_produce
from bifrost.protocol.records import encode_batch
from bifrost.protocol.wire import ZERO_UUID
from bifrost.settings import parse_settings
from tests.loop_cluster import LoopCluster
from tests.loop_cluster import count_calls as count_calls_of_nodes
from tests.sim.loop import SimLoop

CALLS_MAX = 160
LEADER_CALLS_MAX, FOLLOWER_CALLS_MAX = 600, 220
BROKERS = ["heimdall-0", "heimdall-1", "heimdall-2"]
QUIET_S = 1.0037
"""Until nothing is under way, and no multiple of any interval."""
RECORDS_BYTES = 100_000
"""Of all records together, however many: frames of another size arrive in another number of pieces."""


class Doors:
    """A network that only remembers how to make a connection."""

    def __init__(self) -> None:
        self.accept: Callable[[], Any] | None = None

    async def listen(self, host: str, port: int, protocol: Callable[[], Any], *, backlog: int) -> Doors:
        self.accept = protocol
        self.host, self.port = host, 1
        return self

    async def start(self) -> None: ...

    def close(self) -> None: ...

    def host_name(self) -> str:
        return "here"


class Wire(asyncio.Transport):
    """The client's end: collects what the node sends."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = bytearray()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def is_closing(self) -> bool:
        return False

    def write(self, data: Any) -> None:
        self.sent += data

    def writelines(self, buffers: Any) -> None:
        for data in buffers:
            self.sent += data

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self) -> None: ...

    def abort(self) -> None: ...


def count_calls(work: Callable[[], None]) -> Counter[str]:
    calls: Counter[str] = Counter()

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            calls[frame.f_code.co_qualname if sys.version_info >= (3, 11) else frame.f_code.co_name] += 1
        elif event == "c_call":
            calls[getattr(argument, "__qualname__", str(argument))] += 1

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


def feed(connection: Any, data: bytes) -> None:
    position = 0
    while position < len(data):
        buffer = connection.get_buffer(-1)
        size = min(len(buffer), len(data) - position)
        buffer[:size] = data[position : position + size]
        position += size
        connection.buffer_updated(size)


def produce_frame(records: int, value_bytes: int = 10) -> bytes:
    batch = encode_batch([(1_700_000_000_000 + number, b"key", b"v" * value_bytes, ()) for number in range(records)])
    data = TopicProduceData("hot", ZERO_UUID, [PartitionProduceData(0, memoryview(batch))])
    return encode_produce(9, 1, "counter", ProduceRequest(None, -1, 1000, [data]))


def fetch_frame(offset: int) -> bytes:
    wanted = FetchTopic("hot", ZERO_UUID, [FetchPartition(0, -1, offset, -1, -1, 1 << 20)])
    return encode_fetch(12, 2, "counter", FetchRequest(0, 1, 1 << 20, [wanted]))


async def measure(record_counts: list[int]) -> dict[int, tuple[Counter[str], Counter[str]]]:
    doors = Doors()
    settings, _ = parse_settings({"flush.policy": "memory", "log.dirs": "/data", "message.max.bytes": "10000000"})
    node = Node(settings, disk=MemoryDisk(), clock=SystemClock(), rng=random.Random(1), transport=doors)
    await node.start()
    assert doors.accept is not None
    connection, wire = doors.accept(), Wire()
    connection.connection_made(wire)
    create = CreateTopicsRequest(topics=[CreatableTopic(name="hot", num_partitions=1, replication_factor=1)])
    feed(connection, encode_request(19, 5, 0, "counter", writer(CreateTopicsRequest, 5)(create)))
    while not wire.sent:  # noqa: ASYNC110  # the answer comes within a few turns of this loop
        await asyncio.sleep(0)
    results = {}
    offset = 0
    for records in [record_counts[0], *record_counts]:  # the first round only warms caches
        frame, wire.sent = produce_frame(records), bytearray()
        feed(connection, frame[: len(frame) - 1])  # arrive once in pieces, so that the last byte completes the frame
        produce_calls = count_calls(lambda frame=frame: feed(connection, frame[-1:]))
        assert wire.sent, "the write was acknowledged"
        frame, wire.sent = fetch_frame(offset), bytearray()
        fetch_calls = count_calls(lambda frame=frame: feed(connection, frame))
        assert len(wire.sent) > records, "the records came back"
        results[records] = (produce_calls, fetch_calls)
        offset += records
    node.request_stop()
    await node.run_until_stopped()
    return results


@pytest.fixture(scope="module")
def results() -> dict[int, tuple[Counter[str], Counter[str]]]:
    return asyncio.run(measure([1, 10_000]))


@pytest.mark.parametrize("step", [0, 1], ids=["produce", "fetch"])
def test_ten_thousand_records_cost_as_many_calls_as_one(
    results: dict[int, tuple[Counter[str], Counter[str]]], step: int
) -> None:
    assert results[10_000][step] == results[1][step]


@pytest.mark.parametrize("step", [0, 1], ids=["produce", "fetch"])
def test_a_request_stays_short(results: dict[int, tuple[Counter[str], Counter[str]]], step: int) -> None:
    calls = results[1][step]
    assert calls.total() <= CALLS_MAX, calls.most_common()


async def measure_replicated(loop: SimLoop, record_counts: list[int]) -> dict[int, dict[str, Counter[str]]]:
    """The calls of each broker, the leader first, from a write to its acknowledgement by all replicas."""
    cluster = LoopCluster(loop, flush_policy="os", message_max_bytes="10000000")
    await cluster.start()
    client = await cluster.connect(0)
    create = CreateTopicsRequest(topics=[CreatableTopic(name="hot", num_partitions=1, replication_factor=len(BROKERS))])
    await client.ask(encode_request(19, 5, 0, "counter", writer(CreateTopicsRequest, 5)(create)))
    results = {}
    for records in [record_counts[0], *record_counts]:
        await asyncio.sleep(QUIET_S)
        frame = produce_frame(records, value_bytes=RECORDS_BYTES // records)
        results[records] = await count_calls_of_nodes(client.ask(frame))
    await cluster.stop()
    return results


@pytest.fixture(scope="module")
def replicated() -> dict[int, dict[str, Counter[str]]]:
    loop = SimLoop(random.Random(1))
    try:
        return loop.run_until_complete(measure_replicated(loop, [1, 10_000]))
    finally:
        loop.hands.close()
        loop.close()


@pytest.mark.parametrize("broker", BROKERS, ids=["leader", "follower", "other follower"])
def test_ten_thousand_records_cost_replicas_as_many_calls_as_one(
    replicated: dict[int, dict[str, Counter[str]]], broker: str
) -> None:
    assert replicated[10_000][broker] == replicated[1][broker]


def test_a_replicated_write_stays_short(replicated: dict[int, dict[str, Counter[str]]]) -> None:
    leader, *followers = (replicated[1][broker] for broker in BROKERS)
    assert leader["Partition.append"] == 1, "the first broker leads"
    assert leader.total() <= LEADER_CALLS_MAX, leader.most_common()
    for calls in followers:
        assert calls["Partition.append_fetched"] == 1
        assert calls.total() <= FOLLOWER_CALLS_MAX, calls.most_common()
