"""Other nodes that lead partitions, on a network where the test says who answers what, and when."""

from __future__ import annotations

import asyncio
from typing import Any

from bifrost.broker.forwarding import Forwarding
from bifrost.broker.live_settings import LiveSettings
from bifrost.controller.core.image import MetadataImage
from bifrost.controller.core.records import PartitionCreated, TopicCreated
from bifrost.errors import ErrorCode
from bifrost.protocol.apis import ApiKey
from bifrost.protocol.fetch import FetchRequest, FetchResponse
from bifrost.protocol.fetch import decode_request as decode_fetch
from bifrost.protocol.fetch import encode_response as encode_fetch_response
from bifrost.protocol.frame import RequestHeader, read_request_header
from bifrost.protocol.produce import (
    PartitionProduceData,
    PartitionProduceResult,
    ProduceRequest,
    TopicProduceData,
    TopicProduceResult,
    encode_response,
)
from bifrost.protocol.produce import decode_request as decode_produce
from bifrost.protocol.wire import ZERO_UUID
from bifrost.settings import Settings
from bifrost.types import NodeId
from tests.unit.controller.stand_ins import apply, cluster_of, topic_id

ME, LEADER, OTHER = NodeId(1), NodeId(2), NodeId(3)


def image_of(*leaders: int, topic: str = "orders") -> MetadataImage:
    """Three brokers, and one partition for each of these leaders; -1 is nobody."""
    image = cluster_of(ME, LEADER, OTHER)
    partitions = [
        PartitionCreated(topic_id(100), index, (max(leader, ME),), (max(leader, ME),), leader)
        for index, leader in enumerate(leaders)
    ]
    apply(image, [TopicCreated(topic, topic_id(100)), *partitions])
    return image


class Link(asyncio.Transport):
    """The leader's end of one connection."""

    def __init__(self, host: str, protocol: asyncio.BufferedProtocol) -> None:
        super().__init__()
        self.host = host
        self.asked: list[tuple[RequestHeader, ProduceRequest | FetchRequest]] = []
        self.is_aborted = False
        self._unanswered: list[RequestHeader] = []
        self._protocol = protocol

    def write(self, data: Any) -> None:
        body = memoryview(bytes(data))[4:]
        header, at = read_request_header(body)
        decode = decode_produce if header.api_key == ApiKey.PRODUCE else decode_fetch
        self.asked.append((header, decode(body, at, header.api_version)))
        self._unanswered.append(header)

    def abort(self) -> None:
        self.is_aborted = True

    def lose(self) -> None:
        self._protocol.connection_lost(None)

    def answer_produce(
        self,
        base_offset: int = 0,
        code: ErrorCode = ErrorCode.NONE,
        *,
        topic: str = "orders",
        index: int = 0,
        times: int = 1,
    ) -> None:
        header = self._unanswered.pop(0)
        told = [PartitionProduceResult(index, code, base_offset + number) for number in range(times)]
        results = [TopicProduceResult(topic, ZERO_UUID, told)]
        self._send(encode_response(header.api_version, header.correlation_id, results))

    def answer_fetch(self, response: FetchResponse) -> None:
        header = self._unanswered.pop(0)
        pieces = encode_fetch_response(header.api_version, header.correlation_id, response)
        self._send(b"".join(bytes(piece) for piece in pieces))  # type: ignore[arg-type]  # no slices of files here

    def answer_nonsense(self) -> None:
        """A frame with the right number, and nothing in it."""
        header = self._unanswered.pop(0)
        self._send((5).to_bytes(4) + header.correlation_id.to_bytes(4) + b"\0")

    def _send(self, frame: bytes) -> None:
        while frame:
            buffer = memoryview(self._protocol.get_buffer(-1))
            part, frame = frame[: len(buffer)], frame[len(buffer) :]
            buffer[: len(part)] = part
            self._protocol.buffer_updated(len(part))

    @property
    def values(self) -> list[bytes]:
        """What the writes that arrived hold, in the order of their arrival."""
        writes = [one for _, one in self.asked if isinstance(one, ProduceRequest)]
        return [bytes(data.records or b"") for one in writes for topic in one.topics for data in topic.partitions]


class Leaders:
    """The network: connections open at once, or when `gate` is set; nobody listens while `is_dead`."""

    def __init__(self) -> None:
        self.links: list[Link] = []
        self.gate: asyncio.Event | None = None
        self.is_dead = False

    async def connect(self, host: str, _port: int, protocol: Any) -> Link:
        if self.gate is not None:
            await self.gate.wait()
        if self.is_dead:
            raise ConnectionRefusedError
        link = Link(host, protocol)
        self.links.append(link)
        protocol.connection_made(link)
        return link

    async def listen(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    def host_name(self) -> str:
        return "here"

    def forwarding(self, image: MetadataImage) -> Forwarding:
        return Forwarding(ME, image, LiveSettings(Settings(), image), self)


def write(value: bytes, *, index: int = 0, acks: int = -1, timeout_ms: int = 1000) -> ProduceRequest:
    """A write of something that need not be a batch: nobody looks inside on the way."""
    data = TopicProduceData("orders", ZERO_UUID, [PartitionProduceData(index, memoryview(value))])
    return ProduceRequest(None, acks, timeout_ms, [data])
