"""Messages as bytes for stdout: text, JSON, a hex dump. Templates have a file of their own.

Decides how a message looks. In a pipe, text is exactly the bytes of the message; on a terminal, bytes that would not
print are escaped, since a message must not be able to move the cursor or change the title of the window.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from bifrost.cli.data.shapes import SHAPES, TEXT, ShapeError
from bifrost.cli.data.times import show

TIMESTAMP_TYPES = {1: "CreateTime", 2: "LogAppendTime"}


class Received(NamedTuple):
    """A message as it was read; `timestamp_ms` is -1 and `leader_epoch` None where there is none."""

    topic: str
    partition: int
    offset: int
    timestamp_type: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    leader_epoch: int | None


Format = Callable[[Received], bytes]
Part = Callable[[bytes | None], bytes]


class FormatError(ValueError):
    """A message that cannot be shown as was asked: says which one and what to choose instead."""


def text_format(*, key_separator: bytes | None, key: Part, value: Part) -> Format:
    """The value and a newline; with a separator, the key before it."""

    def keyed(message: Received) -> bytes:
        assert key_separator is not None
        return key(message.key) + key_separator + value(message.value) + b"\n"

    def plain(message: Received) -> bytes:
        return value(message.value) + b"\n"

    return plain if key_separator is None else keyed


def part(shape: str, *, null: bytes, terminal: bool) -> Part:
    """How a key or a value is written in text and templates."""
    if shape == TEXT:
        escape = printable if terminal else None
        return lambda data: null if data is None else escape(data) if escape else data
    read = SHAPES[shape]

    def written(data: bytes | None) -> bytes:
        if data is None:
            return null
        meaning = read(data)
        return meaning.encode() if isinstance(meaning, str) else msgspec.json.encode(meaning)

    return written


def json_format(*, key: str, value: str) -> Format:
    """One object on one line, with the fields that `produce --format json` reads; bytes that are no text as base64."""
    encode = msgspec.json.Encoder().encode

    def render(message: Received) -> bytes:
        fields: dict[str, object] = {
            "topic": message.topic,
            "partition": message.partition,
            "offset": message.offset,
            "timestamp": message.timestamp_ms,
        }
        fields |= _field("key", message.key, key)
        fields |= _field("value", message.value, value)
        fields["headers"] = [(name, _header(content)) for name, content in message.headers]
        return encode(fields) + b"\n"

    return render


def _field(name: str, data: bytes | None, shape: str) -> dict[str, object]:
    if data is None:
        return {name: None}
    try:
        return {name: SHAPES[shape](data)}
    except ShapeError:
        if shape != TEXT:
            raise
        return {f"{name}_base64": base64.b64encode(data).decode()}


def _header(content: bytes | None) -> object:
    if content is None:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode()}


def hex_format(message: Received) -> bytes:
    """A line about the message, then its key, headers and value as a hex dump."""
    when = show(message.timestamp_ms) if message.timestamp_ms >= 0 else "no timestamp"
    lines = [f"{message.topic} partition {message.partition} offset {message.offset} {when}"]
    parts = [("key", message.key), *((f"header {name}", content) for name, content in message.headers)]
    for name, data in [*parts, ("value", message.value)]:
        if data is None:
            lines.append(f"  {name} null")
            continue
        lines.append(f"  {name} {len(data)} bytes")
        lines += [f"    {line}" for line in _dump(data)]
    return ("\n".join(lines) + "\n").encode()


def _dump(data: bytes) -> list[str]:
    """Offset, sixteen bytes and what of them is ASCII: 73 columns with the indent of the caller."""
    return [
        f"{start:06x}  {row[:8].hex(' '):23} {row[8:].hex(' '):23}  {''.join(_ascii(byte) for byte in row)}"
        for start in range(0, len(data), 16)
        for row in [data[start : start + 16]]
    ]


def _ascii(byte: int) -> str:
    return chr(byte) if 0x20 <= byte < 0x7F else "."


def printable(data: bytes) -> bytes:
    """Text that is safe on a terminal: control characters and bytes that are not UTF-8 as escapes. Tabs stay."""
    text = data.decode("utf-8", "backslashreplace")
    if text.isprintable():
        return text.encode()
    return "".join(
        each if each.isprintable() or each == "\t" else each.encode("unicode_escape").decode() for each in text
    ).encode()


def guarded(render: Format, *, advice: str) -> Format:
    """Names the message that cannot be shown."""

    def safe(message: Received) -> bytes:
        try:
            return render(message)
        except ShapeError as error:
            place = f"partition {message.partition} offset {message.offset} of {message.topic}"
            raise FormatError(f"{place} is {error}; {advice}") from None

    return safe
