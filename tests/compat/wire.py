"""Raw requests to a broker and its decoded answers, with no client in between.

Messages are kio's, which are generated from Kafka's own definitions; a request is given as plain values, of which each
version takes the fields it has, and an answer comes back as plain values. Nothing here retries or interprets.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import io
import socket
import struct
import time
import types
import typing
import uuid
from enum import Enum
from typing import Any, Self

from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map
from kio.serial import entity_reader, entity_writer

TIMEOUT_S = 20.0
API_KEYS = {name: key for key, name in api_key_map.items()}
_EPOCH = datetime.datetime.fromtimestamp(0, datetime.UTC)

Answer = dict[str, Any]


class ConnectionClosed(Exception):
    """The broker hung up instead of answering."""


class Wire:
    """One connection. Requests may be pipelined with `send`; `receive` takes the answers in order."""

    def __init__(self, bootstrap: str) -> None:
        host, port = bootstrap.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout=TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self, api: str, version: int, **fields: Any) -> Answer:
        """The answer to one request, as plain values."""
        self.send(api, version, **fields)
        return self.receive(api, version)

    def send(self, api: str, version: int, **fields: Any) -> None:
        body = encode_request(api, version, fields)
        flexible = load_request_schema(API_KEYS[api], version).__flexible__
        self.send_frame(self.header(API_KEYS[api], version, flexible=flexible) + body)

    def header(self, api_key: int, version: int, *, flexible: bool) -> bytes:
        self._correlation_id += 1
        client_id = b"compat"
        fixed = struct.pack(">hhih", api_key, version, self._correlation_id, len(client_id))
        return fixed + client_id + (b"\x00" if flexible else b"")

    def send_frame(self, frame: bytes) -> None:
        self.send_bytes(struct.pack(">i", len(frame)) + frame)

    def send_bytes(self, data: bytes) -> None:
        self._socket.sendall(data)

    def receive(self, api: str, version: int) -> Answer:
        frame = io.BytesIO(self.receive_frame())
        schema = load_response_schema(API_KEYS[api], version)
        header, body = entity_reader(schema.__header_schema__), entity_reader(schema)
        data = frame.getvalue()
        _, size = header(data, 0)
        entity, body_size = body(data, size)
        assert size + body_size == len(data), (
            f"{len(data) - size - body_size} bytes follow the answer to {api} v{version}"
        )
        return dict(plain(entity))

    def receive_frame(self) -> bytes:
        (length,) = struct.unpack(">i", self._receive_exactly(4))
        return self._receive_exactly(length)

    def _receive_exactly(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            try:
                chunk = self._socket.recv(count - len(data))
            except ConnectionResetError:
                chunk = b""
            if not chunk:
                raise ConnectionClosed(f"after {len(data)} of {count} bytes")
            data += chunk
        return bytes(data)


def encode_request(api: str, version: int, fields: dict[str, Any]) -> bytes:
    schema = load_request_schema(API_KEYS[api], version)
    buffer = io.BytesIO()
    entity_writer(schema)(buffer, _built(schema, fields))
    return buffer.getvalue()


@functools.cache
def _hints(schema: type) -> dict[str, Any]:
    return typing.get_type_hints(schema)


def _built(schema: Any, values: dict[str, Any]) -> Any:
    """A kio entity from plain values; what the caller left out takes the protocol's default."""
    arguments = {}
    for field in dataclasses.fields(schema):
        if field.name in values:
            arguments[field.name] = _converted(_hints(schema)[field.name], values[field.name])
        elif field.default is dataclasses.MISSING:
            arguments[field.name] = _converted(_hints(schema)[field.name], None)
    return schema(**arguments)


def _converted(hint: Any, value: Any) -> Any:
    """Fits a plain value to a field's type; None becomes the type's zero where null is not allowed."""
    if isinstance(hint, types.UnionType):
        if value is None:
            return None
        (hint,) = (each for each in typing.get_args(hint) if each is not type(None))
    if typing.get_origin(hint) is tuple:
        inner = typing.get_args(hint)[0]
        return tuple(_converted(inner, each) for each in value or ())
    if dataclasses.is_dataclass(hint):
        return _built(hint, value or {})
    if issubclass(hint, datetime.timedelta):
        return datetime.timedelta(milliseconds=value or 0)
    if issubclass(hint, datetime.datetime):
        return _EPOCH + datetime.timedelta(milliseconds=value or 0)
    if issubclass(hint, uuid.UUID):
        return value or uuid.UUID(int=0)
    if issubclass(hint, ErrorCode):
        return ErrorCode(value or 0)
    if issubclass(hint, str):
        return value or ""
    if issubclass(hint, bytes):
        return value or b""
    return value or 0


def plain(value: Any) -> Any:
    """A decoded entity as dicts, lists, numbers and strings; errors by their Kafka name, times in ms."""
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple):
        return [plain(each) for each in value]
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, datetime.timedelta):
        return round(value.total_seconds() * 1000)
    if isinstance(value, datetime.datetime):
        return round((value - _EPOCH).total_seconds() * 1000)
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, bool):
        return bool(value)
    if isinstance(value, int):
        return int(value)
    return str(value) if isinstance(value, str) else value


def create_topic(bootstrap: str, name: str, partitions: int = 1, configs: dict[str, str] | None = None) -> None:
    """Creates a topic and returns once every partition takes requests."""
    with Wire(bootstrap) as wire:
        wanted = {
            "name": name,
            "num_partitions": partitions,
            "replication_factor": 1,
            "configs": [{"name": key, "value": value} for key, value in (configs or {}).items()],
        }
        (answer,) = wire.ask("create_topics", 7, topics=[wanted], timeout=10_000)["topics"]
        assert answer["error_code"] == "none", answer
        wait_for_leaders(wire, name, partitions)


def wait_for_leaders(wire: Wire, name: str, partitions: int) -> None:
    """A broker may list a topic a moment before it leads it; ListOffsets tells when it does."""
    asked = [{"partition_index": index, "timestamp": -1, "current_leader_epoch": -1} for index in range(partitions)]
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        (topic,) = wire.ask("list_offsets", 7, replica_id=-1, topics=[{"name": name, "partitions": asked}])["topics"]
        errors = {each["error_code"] for each in topic["partitions"]}
        if errors == {"none"}:
            return
        assert time.monotonic() < deadline, f"{name} has no leaders: {errors}"


def topic_id(wire: Wire, name: str) -> uuid.UUID:
    request = {"topics": [{"name": name}], "allow_auto_topic_creation": False}
    (topic,) = wire.ask("metadata", 12, **request)["topics"]
    return uuid.UUID(topic["topic_id"])


def fetch_records(bootstrap: str, topic: str, partition: int, offset: int = 0) -> bytes:
    """The record batches of one partition from the one that holds `offset`, as the broker sends them."""
    wanted = {
        "partition": partition,
        "fetch_offset": offset,
        "partition_max_bytes": 50_000_000,
        "current_leader_epoch": -1,
        "last_fetched_epoch": -1,
        "log_start_offset": -1,
    }
    with Wire(bootstrap) as wire:
        request = {"max_wait": 0, "min_bytes": 0, "topics": [{"topic": topic, "partitions": [wanted]}]}
        answer = wire.ask("fetch", 12, replica_id=-1, **request)
    (found,) = answer["responses"][0]["partitions"]
    assert found["error_code"] == "none", found
    return found["records"] or b""


def api_name(key: int) -> str:
    return str(api_key_map.get(key, key))
