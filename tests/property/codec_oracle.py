"""kio, generated from Kafka's own message definitions, as the judge of the hand-written codecs.

kio speaks in datetimes, UUIDs and enums, with one class per version; these helpers are all that the tests need of it.
"""

from __future__ import annotations

import datetime
import importlib
import io
import random
import tracemalloc
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from kio.serial import entity_reader, entity_writer

from bifrost.errors import ProtocolError
from bifrost.protocol.wire import ZERO_UUID

FEW_EXAMPLES = settings(max_examples=20, deadline=None)
"""Every version of a message has its own tests, and versions differ little: together they see many examples."""

INT16 = st.integers(-(2**15), 2**15 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
COUNT = st.integers(0, 2**31 - 1)
NAMES = st.sampled_from(["", "t", "orders", "värld-次", "\0", "x" * 126, "x" * 127, "x" * 249])
TOPIC_IDS = st.binary(min_size=16, max_size=16).filter(lambda topic_id: topic_id != ZERO_UUID)
RECORDS = st.sampled_from([b"", b"r", b"r" * 126, b"r" * 127, b"r" * 128, b"r" * 20_000])
ERROR_CODES = st.sampled_from([-1, 0, 1, 2, 3, 6, 10, 74, 87, 100])
PAIRS = st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1))
TAG_SECTIONS = st.lists(st.tuples(st.integers(50, 400), st.binary(max_size=200)), min_size=1, max_size=3)


def module(api: str, version: int, kind: str) -> Any:
    return importlib.import_module(f"kio.schema.{api}.v{version}.{kind}")


def write(entity: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def read(entity_type: Any, body: bytes) -> Any:
    entity, size = entity_reader(entity_type)(body, 0)
    assert size == len(body)
    return entity


def as_uuid(topic_id: bytes) -> uuid.UUID | None:
    return None if topic_id == ZERO_UUID else uuid.UUID(bytes=topic_id)


def as_timedelta(milliseconds: int) -> datetime.timedelta:
    return datetime.timedelta(milliseconds=milliseconds)


def as_datetime(milliseconds: int) -> datetime.datetime | None:
    if milliseconds == -1:
        return None
    return datetime.datetime.fromtimestamp(0, datetime.UTC) + datetime.timedelta(milliseconds=milliseconds)


def request_header_bytes(client_id: str, *, flexible: bool) -> int:
    return 4 + 8 + 2 + len(client_id) + flexible


def assert_survives_damage(decode: Callable[[memoryview], object], body: bytes, seed: int) -> None:
    """Cut anywhere, `body` is refused; changed anywhere, it is refused or read as something else. Never worse."""
    for size in range(len(body)):
        with pytest.raises(ProtocolError):
            decode(memoryview(body[:size]))
    rng = random.Random(seed)
    tracemalloc.start()
    try:
        for _ in range(100):
            damaged = bytearray(body)
            for _ in range(rng.randint(1, 3)):
                damaged[rng.randrange(len(damaged))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            try:
                decode(memoryview(damaged))
            except ProtocolError:
                pass
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 50_000 + 100 * len(body)
