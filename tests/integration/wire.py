"""A blocking client of raw frames, for what no real client would send."""

from __future__ import annotations

import socket
import struct
import time
from typing import Any, Self

from bifrost.protocol.apis import ApiKey
from bifrost.protocol.batch import iter_headers
from bifrost.protocol.codec import reader, writer
from bifrost.protocol.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from bifrost.protocol.fetch import decode_response as decode_fetch
from bifrost.protocol.fetch import encode_request as encode_fetch
from bifrost.protocol.frame import encode_request, has_flexible_response_header, read_response_header
from bifrost.protocol.messages import response_class
from bifrost.protocol.messages.cluster import MetadataRequest, MetadataRequestTopic
from bifrost.protocol.messages.log_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from bifrost.protocol.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from bifrost.protocol.produce import decode_response as decode_produce
from bifrost.protocol.produce import encode_request as encode_produce
from bifrost.protocol.records import Record, decode_batch, encode_batch
from bifrost.protocol.schema import Message
from bifrost.protocol.wire import ZERO_UUID

TIMEOUT_S = 10


class ClosedByPeerError(ConnectionError):
    """The broker hung up."""


class Wire:
    """One connection to a broker."""

    def __init__(self, bootstrap: str, client_id: str = "wire") -> None:
        host, port = bootstrap.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._client_id = client_id
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send_bytes(self, data: bytes) -> None:
        try:
            self.socket.sendall(data)
        except OSError as error:
            raise ClosedByPeerError(str(error)) from error

    def receive_frame(self) -> bytes:
        (size,) = struct.unpack(">i", self._receive(4))
        return self._receive(size)

    def is_closed(self) -> bool:
        """Wait for the broker to hang up; False when it sends something or nothing for a while."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True
        except TimeoutError:
            return False

    def send(self, version: int, request: Message) -> None:
        """Send a message, whose answer may take its time."""
        self._correlation_id += 1
        body = writer(type(request), version)(request)
        self.send_bytes(encode_request(request.api, version, self._correlation_id, self._client_id, body))

    def call(self, version: int, request: Message) -> Any:
        """Send a message and read its answer."""
        self.send(version, request)
        return self.receive(version, request)

    def receive(self, version: int, request: Message) -> Any:
        """The answer to what was sent last."""
        frame = self.receive_frame()
        flexible = has_flexible_response_header(request.api, version)
        correlation_id, at = read_response_header(frame, 0, flexible)
        assert correlation_id == self._correlation_id
        return reader(response_class(request.api), version)(frame, at)[0]

    def send_produce(self, topic: str, records: bytes, *, partition: int = 0, acks: int = -1, version: int = 9) -> int:
        self._correlation_id += 1
        data = TopicProduceData(topic, ZERO_UUID, [PartitionProduceData(partition, memoryview(records))])
        self.send_bytes(
            encode_produce(version, self._correlation_id, self._client_id, ProduceRequest(None, acks, 30_000, [data]))
        )
        return self._correlation_id

    def receive_produce(self, version: int = 9) -> tuple[int, ProduceResponse]:
        frame = self.receive_frame()
        correlation_id, at = read_response_header(frame, 0, has_flexible_response_header(ApiKey.PRODUCE, version))
        return correlation_id, decode_produce(frame, at, version)

    def produce(self, topic: str, records: bytes, *, partition: int = 0, acks: int = -1, version: int = 9) -> Any:
        """The one partition's result."""
        sent = self.send_produce(topic, records, partition=partition, acks=acks, version=version)
        correlation_id, response = self.receive_produce(version)
        assert correlation_id == sent
        return response.topics[0].partitions[0]

    def fetch(
        self,
        topic: str,
        offset: int,
        *,
        partition: int = 0,
        max_wait_ms: int = 0,
        min_bytes: int = 1,
        version: int = 12,
    ) -> Any:
        """The one partition's result."""
        wanted = FetchTopic(topic, ZERO_UUID, [FetchPartition(partition, -1, offset, -1, -1, 1 << 20)])
        request = FetchRequest(max_wait_ms, min_bytes, 1 << 24, [wanted])
        return self.ask_fetch(version, request).topics[0].partitions[0]

    def ask_fetch(self, version: int, request: FetchRequest) -> FetchResponse:
        """The whole answer."""
        self._correlation_id += 1
        self.send_bytes(encode_fetch(version, self._correlation_id, self._client_id, request))
        frame = self.receive_frame()
        correlation_id, at = read_response_header(frame, 0, has_flexible_response_header(ApiKey.FETCH, version))
        assert correlation_id == self._correlation_id
        return decode_fetch(frame, at, version)

    def read(self, topic: str, offset: int = 0, *, partition: int = 0) -> list[Record]:
        """Every record from `offset` to the high watermark."""
        found: list[Record] = []
        while True:
            result = self.fetch(topic, offset, partition=partition)
            assert result.error_code == 0, result
            data = memoryview(result.records or b"")
            for position, header in iter_headers(data):
                found += decode_batch(data[position : position + header.size_bytes])
                offset = header.next_offset
            if offset >= result.high_watermark:
                return found

    def find(self, topic: str, timestamp: int, *, partition: int = 0) -> Any:
        """The one partition's answer to ListOffsets."""
        wanted = ListOffsetsTopic(
            name=topic, partitions=[ListOffsetsPartition(partition_index=partition, timestamp=timestamp)]
        )
        return self.call(7, ListOffsetsRequest(topics=[wanted])).topics[0].partitions[0]

    def describe(self, topic: str) -> Any:
        """The topic as Metadata has it."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        return self.call(12, request).topics[0]

    def _receive(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            try:
                piece = self.socket.recv(size - len(data))
            except ConnectionError as error:
                raise ClosedByPeerError(str(error)) from error
            if not piece:
                raise ClosedByPeerError("the broker hung up")
            data += piece
        return bytes(data)


NOW = int(time.time() * 1000)
"""Records of long ago would have their producers forgotten at the first restart (producer.id.expiration.ms)."""


def batch(*values: bytes, timestamp: int = NOW, **fields: Any) -> bytes:
    """One record batch with these values."""
    return bytes(encode_batch([(timestamp, None, value, ()) for value in values], **fields))
