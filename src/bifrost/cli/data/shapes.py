"""What bytes mean, by the name of `--key-format` and `--value-format`."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable
from struct import Struct
from typing import Final

import msgspec

Shape = Callable[[bytes], object]
"""Bytes to something that JSON can hold; ShapeError if they are not what they should be."""

_FLOATS = {4: Struct(">f"), 8: Struct(">d")}


class ShapeError(ValueError):
    """Bytes that are not of the shape that was asked for."""


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ShapeError("not UTF-8 text") from None


def _json(data: bytes) -> object:
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        raise ShapeError(f"not JSON: {error}") from None


def _int(data: bytes) -> int:
    if len(data) not in {1, 2, 4, 8}:
        raise ShapeError(f"not an integer: {len(data)} bytes instead of 1, 2, 4 or 8")
    return int.from_bytes(data, "big", signed=True)


def _float(data: bytes) -> float:
    if len(data) not in _FLOATS:
        raise ShapeError(f"not a floating-point number: {len(data)} bytes instead of 4 or 8")
    number: float = _FLOATS[len(data)].unpack(data)[0]
    return number


def _uuid(data: bytes) -> str:
    """Kafka's UUIDSerializer writes the text, others the 16 bytes."""
    try:
        return str(uuid.UUID(bytes=data) if len(data) == 16 else uuid.UUID(data.decode("ascii")))
    except ValueError:
        raise ShapeError("not a UUID") from None


def _bool(data: bytes) -> bool:
    if data not in (b"\0", b"\1"):
        raise ShapeError("not a boolean")
    return data == b"\1"


TEXT: Final = "text"
SHAPES: Final[dict[str, Shape]] = {
    TEXT: _text,
    "json": _json,
    "hex": bytes.hex,
    "base64": lambda data: base64.b64encode(data).decode(),
    "int": _int,
    "float": _float,
    "uuid": _uuid,
    "bool": _bool,
}
