"""A fetcher with its leader's end of the wire, and a disk that syncs when the test says so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from bifrost.log.config import FlushPolicy, LogConfig
from bifrost.log.memory_disk import MemoryDisk
from bifrost.log.partition_log import PartitionLog
from bifrost.protocol.apis import ApiKey
from bifrost.protocol.codec import reader, writer
from bifrost.protocol.fetch import (
    VERSIONS,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionFetchResult,
    TopicFetchResult,
    decode_request,
    encode_response,
)
from bifrost.protocol.frame import has_flexible_response_header, read_request_header, response_prefix
from bifrost.protocol.messages.log_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from bifrost.protocol.records import encode_batch
from bifrost.replication.core.byte_budget import ByteBudget
from bifrost.replication.fetcher import Fetcher
from bifrost.replication.following_node import Address, FetchSettings, FollowingNode
from bifrost.replication.partition import Partition
from bifrost.replication.surroundings import Surroundings
from bifrost.types import NodeId, TopicPartition
from tests.unit.broker.stand_ins import on_loop, turns
from tests.unit.coordinator.led_partition import FixedClock

ME, LEADER = NodeId(1), NodeId(2)
TOPIC_ID = bytes(range(16))
NOW = 1_700_000_000_000
VERSION = VERSIONS[-1]


class Wire(asyncio.Transport):
    """The leader's end: keeps what is asked, and answers when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[FetchRequest] = []
        self.asked_for_ends: list[ListOffsetsRequest] = []
        self._numbers: list[int] = []
        self._protocol: asyncio.BufferedProtocol | None = None
        self.session_id = 77
        self.refusals = 0

    async def connect(self, _host: str, _port: int, protocol: asyncio.BaseProtocol) -> asyncio.Transport:
        if self.refusals > 0:
            self.refusals -= 1
            raise ConnectionRefusedError
        assert isinstance(protocol, asyncio.BufferedProtocol)
        self._protocol = protocol
        protocol.connection_made(self)
        return self

    def write(self, data: Any) -> None:
        header, at = read_request_header(data[4:])
        self._numbers.append(header.correlation_id)
        if header.api_key == ApiKey.LIST_OFFSETS:
            self.asked_for_ends.append(reader(ListOffsetsRequest, header.api_version)(memoryview(data)[4:], at)[0])
        else:
            self.requests.append(decode_request(memoryview(data)[4:], at, VERSION))

    def answer(self, *results: PartitionFetchResult) -> None:
        topics = [TopicFetchResult("", TOPIC_ID, list(results))] if results else []
        response = FetchResponse(topics, session_id=self.session_id)
        frame = b"".join(bytes(one) for one in encode_response(VERSION, self._numbers.pop(0), response))  # type: ignore[arg-type]
        self._send(frame)

    def answer_end(self, offset: int = -1, error_code: int = 0) -> None:
        """Where the leader's log of partition 0 ends."""
        told = ListOffsetsPartitionResponse(partition_index=0, error_code=error_code, offset=offset)
        answer = ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="orders", partitions=[told])])
        version = ListOffsetsRequest.versions[-1]
        body = writer(ListOffsetsResponse, version)(answer)
        flexible = has_flexible_response_header(ApiKey.LIST_OFFSETS, version)
        self._send(response_prefix(self._numbers.pop(0), flexible, len(body)) + body)

    def _send(self, frame: bytes) -> None:
        assert self._protocol is not None
        while frame:
            buffer = memoryview(self._protocol.get_buffer(-1))
            part, frame = frame[: len(buffer)], frame[len(buffer) :]
            buffer[: len(part)] = part
            self._protocol.buffer_updated(len(part))

    def abort(self) -> None: ...

    @property
    def named(self) -> list[FetchPartition]:
        """What the last request named."""
        return [one for topic in self.requests[-1].topics for one in topic.partitions]


class Following:
    """A fetcher with one partition, on a disk that syncs when the test says so."""

    def __init__(self, policy: FlushPolicy = FlushPolicy.ACK) -> None:
        self.wire = Wire()
        self.budget = ByteBudget()
        self.throttled: set[int] = set()
        self.failures: list[object] = []
        self.fetcher = Fetcher(
            LEADER,
            FollowingNode(
                broker_id=ME,
                broker_epoch=lambda: 9,
                address_of=lambda _: Address("leader", 1),
                transport=self.wire,  # type: ignore[arg-type]  # it only connects
                clock=FixedClock(),
                settings=FetchSettings(
                    max_wait_ms=500,
                    max_bytes=1 << 20,
                    partition_max_bytes=1 << 20,
                    pause_max_ms=1000,
                    timeout_ms=30_000,
                ),
                on_storage_error=self.failures.append,
                budget=self.budget,
                is_throttled=lambda partition: partition.tp.partition in self.throttled,
            ),
        )
        self.around = Surroundings(
            me=ME,
            wake=lambda _: None,
            on_synced=self.fetcher.on_synced,
            on_start_stored=self.fetcher.on_start_stored,
        )
        self.partition = self.make(0, policy)
        self.task = asyncio.ensure_future(self.fetcher.run())

    def make(self, index: int, policy: FlushPolicy = FlushPolicy.ACK) -> Partition:
        tp = TopicPartition("orders", index)
        log = PartitionLog.open(
            MemoryDisk(), f"/{tp}", tp, LogConfig(), clean=False, recovery_point=0, now_ms=NOW, policy=policy
        )
        return Partition(tp, log, self.around, min_insync_replicas=1, topic_id=TOPIC_ID)

    def follow(self, epoch: int = 3, partition: Partition | None = None) -> None:
        partition = partition or self.partition
        partition.follow(LEADER, epoch, (LEADER, ME))
        self.fetcher.follow(partition)

    async def stop(self) -> None:
        self.fetcher.close()
        await turns(3)
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


def batch(base_offset: int, count: int = 1, epoch: int = 3) -> bytes:
    records = [(NOW, None, b"value", ()) for _ in range(count)]
    return bytes(encode_batch(records, base_offset=base_offset, leader_epoch=epoch))


Test = Callable[[Following], Coroutine[Any, Any, None]]


def following(test: Test) -> Callable[[], None]:
    @on_loop
    async def run() -> None:
        it = Following()
        try:
            await test(it)
        finally:
            await it.stop()

    run.__name__ = test.__name__
    return run
