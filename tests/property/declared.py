"""Values of declared messages, and two other encoders to compare ours with: kio's, and one that is slow and obvious."""

from __future__ import annotations

import dataclasses
import io
from datetime import timedelta
from functools import cache
from struct import pack
from types import NoneType
from typing import Any, get_args
from uuid import UUID

import kio.index
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.serial import entity_writer

from bifrost.protocol.messages import DECLARED, request_class, response_class
from bifrost.protocol.schema import (
    BOOL,
    FLOAT64,
    UUID128,
    ZERO_UUID,
    Array,
    Bytes,
    Field,
    Fixed,
    Message,
    Nested,
    String,
    Struct,
    WireType,
    fields_of,
)
from bifrost.protocol.wire import UVARINT

ALL = [
    (cls, version)
    for key in sorted(DECLARED)
    for cls in (request_class(key), response_class(key))
    for version in cls.versions
]
KNOWN_ERRORS = st.sampled_from([code.value for code in KioErrorCode])
MILLISECONDS = st.sampled_from([-1, 0, 1, 86_400_000, 1 << 44])
"""kio keeps durations as timedelta and writes them through a float: these survive it."""


@cache
def messages(cls: type[Struct], version: int) -> st.SearchStrategy[Any]:
    """Messages that use every field of `version` and leave the others at their defaults."""
    present = [field for field in fields_of(cls) if field.present(version)]
    return st.builds(cls, **{field.name: _values(field, version) for field in present})


def _values(field: Field, version: int) -> st.SearchStrategy[Any]:
    if field.name.endswith("error_code"):
        return KNOWN_ERRORS
    if field.name.endswith("_ms") and field.type == Fixed("q"):
        return MILLISECONDS
    values = _of_type(field.type, version)
    if field.tag is not None:
        values |= st.just(field.default)
    return st.none() | values if field.nullable(version) else values


def _of_type(kind: WireType, version: int) -> st.SearchStrategy[Any]:
    match kind:
        case String():
            return st.sampled_from(["", "a", "träume", "\U0001f69a", "x" * 126, "y" * 127, "z" * 300])
        case Bytes():
            return st.sampled_from([b"", b"\0", b"\xff\xfe", bytes(127), bytes(range(200))])
        case Array(element):
            return st.lists(_of_type(element, version), max_size=3)
        case Nested(cls):
            return messages(cls, version)
        case Fixed() if kind == BOOL:
            return st.booleans()
        case Fixed() if kind == FLOAT64:
            return st.floats(allow_nan=False)
        case Fixed() if kind == UUID128:
            return st.sampled_from([ZERO_UUID, UUID(bytes=bytes(range(16))), UUID(int=(1 << 128) - 1)])
        case Fixed(code):
            bits = kind.size * 8 - code.islower()
            lowest = -(1 << bits) if code.islower() else 0
            return st.sampled_from([lowest, 0, 1, 0x0102030405060708 & ((1 << bits) - 1), (1 << bits) - 1])


def kio_bytes(message: Message, version: int) -> bytes:
    """The message as kio writes it."""
    load = (
        kio.index.load_request_schema if type(message).__name__.endswith("Request") else kio.index.load_response_schema
    )
    entity = to_kio(message, version, load(message.api, version))
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def to_kio(struct: Struct, version: int, kio_type: Any, /, **given: Any) -> Any:
    """kio's fields are ours in the same order, under names that differ in little; its structs may have other names.

    What is `given` are fields of kio alone.
    """
    theirs = [field for field in dataclasses.fields(kio_type) if field.name not in given]
    ours = [field for field in fields_of(type(struct)) if field.present(version)]
    assert [field.name.removesuffix("_ms") for field in ours] == [_plain(field.name) for field in theirs]
    arguments = given
    for our, their in zip(ours, theirs):
        value = getattr(struct, our.name)
        if not isinstance(our.type, Fixed):
            assert our.nullable(version) == (NoneType in get_args(their.type)), f"{our.name} may be null, or not"
        match our.type:
            case Array(Nested()) if value is not None:
                value = tuple(to_kio(element, version, _kio_struct(their.type)) for element in value)
            case Array() if value is not None:
                value = tuple(value)
            case Nested() if value is not None:
                value = to_kio(value, version, _kio_struct(their.type))
            case Fixed():
                value = _kio_scalar(value, their.metadata["kafka_type"])
        arguments[their.name] = value
    return kio_type(**arguments)


def _plain(name: str) -> str:
    """A name without what kio adds to words of Python, and with KRaft as one word."""
    return name.removesuffix("_").replace("k_raft", "kraft")


def _kio_struct(annotation: Any) -> Any:
    """The class within `X`, `X | None`, `tuple[X, ...]` or `tuple[X, ...] | None`."""
    if dataclasses.is_dataclass(annotation):
        return annotation
    return next((found for part in get_args(annotation) if (found := _kio_struct(part)) is not None), None)


def _kio_scalar(value: Any, kafka_type: str) -> Any:
    if kafka_type.startswith("timedelta"):
        return timedelta(milliseconds=value)
    if kafka_type == "error_code":
        return KioErrorCode(value)
    return None if value == ZERO_UUID else value


def slow_bytes(struct: Struct, version: int, flexible: bool, unknown_tags: bytes = b"") -> bytes:
    """The fields one by one. `unknown_tags` are two well-formed tags to put at the end of every tag section."""
    ours = [field for field in fields_of(type(struct)) if field.present(version)]
    out, tags = b"", b""
    tag_count = 2 if unknown_tags else 0
    for field in sorted(ours, key=lambda field: field.tag or 0):
        value = getattr(struct, field.name)
        if field.tag is None:
            out += _slow_value(value, field.type, version, flexible, unknown_tags, field.nullable(version))
        elif value != field.default:
            encoded = _slow_value(value, field.type, version, flexible, unknown_tags, field.nullable(version))
            tags += UVARINT[field.tag] + UVARINT[len(encoded)] + encoded
            tag_count += 1
    return out + UVARINT[tag_count] + tags + unknown_tags if flexible else out


def _slow_value(value: Any, kind: WireType, version: int, flexible: bool, unknown_tags: bytes, nullable: bool) -> bytes:
    def length(number: int, code: str) -> bytes:
        return UVARINT[number + 1] if flexible else pack(">" + code, number)

    match kind:
        case Fixed(code):
            return value.bytes if isinstance(value, UUID) else pack(">" + code, value)
        case String():
            return length(-1, "h") if value is None else length(len(value.encode()), "h") + value.encode()
        case Bytes():
            return length(-1, "i") if value is None else length(len(value), "i") + value
        case Array(element):
            if value is None:
                return length(-1, "i")
            items = (_slow_value(item, element, version, flexible, unknown_tags, False) for item in value)
            return length(len(value), "i") + b"".join(items)
        case Nested():
            if value is None:
                return b"\xff"
            return (b"\x01" if nullable else b"") + slow_bytes(value, version, flexible, unknown_tags)
