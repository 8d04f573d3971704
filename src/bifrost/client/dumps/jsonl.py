"""JSON lines: one object for each record, with the fields that `bifrost consume` prints and `bifrost produce` reads.

    {"topic": "t", "partition": 0, "offset": 7, "timestamp": 1777636800000, "key": "k", "value": "v", "headers": []}

UTF-8 text is a string, null is null, other bytes are base64 in `key_base64`, `value_base64`, or `{"base64": ...}` as
a header's value. In a file that a person wrote, everything but the value may be left out, and a key or a value that
is no string is stored as JSON.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from bifrost.client.dumps.rows import APPEND_TIME, DumpFileError, Row

_KNOWN = {"topic", "partition", "offset", "timestamp", "timestamp_type", "headers"}
_KNOWN |= {"key", "key_base64", "value", "value_base64"}
_LINE_BYTES_MAX = 64 << 20
_TYPES = {0: "create", APPEND_TIME: "append"}


class JsonLinesWriter:
    """Writes rows to an open file."""

    def __init__(self, file: BinaryIO, topic: str) -> None:
        self._file = file
        self._topic = topic
        self._encoder = msgspec.json.Encoder()

    def write(self, rows: list[Row]) -> None:
        self._file.write(self._encoder.encode_lines([self._object(row) for row in rows]))

    def close(self) -> None:
        """Nothing is held back."""

    def _object(self, row: Row) -> dict[str, Any]:
        headers = [(name, _header(value)) for name, value in row.headers]
        fields: dict[str, Any] = {"topic": self._topic, "partition": row.partition, "offset": row.offset}
        fields["timestamp"] = row.timestamp_ms
        if row.timestamp_type:
            fields["timestamp_type"] = _TYPES[row.timestamp_type]
        return {**fields, **_field("key", row.key), **_field("value", row.value), "headers": headers}


def read_json_lines(path: Path) -> Iterator[Row]:
    """The rows of a file, line by line; empty lines are skipped."""
    decoder = msgspec.json.Decoder()
    with path.open("rb") as file:
        for number, line in enumerate(iter(lambda: file.readline(_LINE_BYTES_MAX), b""), start=1):
            if line.isspace():
                continue
            try:
                yield _row(decoder.decode(line))
            except (ValueError, TypeError) as error:  # msgspec's, ours, base64's, and surrogates that are no text
                raise DumpFileError(
                    f"{path} line {number}: {_reason(error)}", "Mend the line, or remove it."
                ) from error


def _reason(error: Exception) -> str:
    if isinstance(error, msgspec.DecodeError):
        return f"not JSON: {error}"
    if isinstance(error, binascii.Error):
        return f"not base64: {error}"
    if isinstance(error, UnicodeEncodeError):
        return "half of a surrogate pair is no text"
    return str(error)


def _field(name: str, data: bytes | None) -> dict[str, str | None]:
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}


def _header(data: bytes | None) -> str | dict[str, str] | None:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _row(found: Any) -> Row:
    if not isinstance(found, dict):
        raise ValueError('not an object such as {"key": "k", "value": "v"}')
    if unknown := sorted(found.keys() - _KNOWN):
        raise ValueError(f"unknown field {unknown[0]}; known are {', '.join(sorted(_KNOWN))}")
    if "value" not in found and "value_base64" not in found:
        raise ValueError("there is no value (a tombstone has the value null)")
    return Row(
        value=_bytes(found, "value"),
        key=_bytes(found, "key"),
        headers=[_pair(each) for each in found.get("headers") or ()],
        partition=_integer(found, "partition"),
        offset=_integer(found, "offset"),
        timestamp_ms=_integer(found, "timestamp"),
        timestamp_type=APPEND_TIME if found.get("timestamp_type") == _TYPES[APPEND_TIME] else 0,
    )


def _bytes(found: dict[str, Any], name: str) -> bytes | None:
    encoded = found.get(f"{name}_base64")
    if encoded is not None:
        return base64.b64decode(encoded, validate=True)
    value = found.get(name)
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else msgspec.json.encode(value)


def _pair(given: Any) -> tuple[str, bytes | None]:
    match given:
        case [str(name), None]:
            return name, None
        case [str(name), str(value)]:
            return name, value.encode()
        case [str(name), {"base64": str(value)}]:
            return name, base64.b64decode(value, validate=True)
    raise ValueError(f'a header is ["name", "value"], and not {msgspec.json.encode(given).decode()}')


def _integer(found: dict[str, Any], name: str) -> int | None:
    value = found.get(name)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise ValueError(f"{name} is a number, and not {msgspec.json.encode(value).decode()}")
    return value
