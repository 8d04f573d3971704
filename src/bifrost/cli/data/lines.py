"""Lines of input as records: text with an optional key, hexadecimal digits, JSON.

Decides what a line means and what is wrong with it. One line is one record, so whoever sends knows the line's number.
Never guesses: a field that nobody knows or a missing separator is an error, not a record that is slightly different.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from bifrost.cli.data.times import TimeError, parse_moment
from bifrost.cli.output import remark
from bifrost.client.errors import nearest

Header = tuple[str, bytes | None]
ANY_PARTITION = -1
NOW = 0


class Record(NamedTuple):
    """What is sent. The partitioner chooses the partition and the client the time, unless they are given."""

    value: bytes | None
    key: bytes | None = None
    headers: Sequence[Header] = ()
    partition: int = ANY_PARTITION
    timestamp_ms: int = NOW


class LineError(ValueError):
    """What is wrong with a line, without its number."""


Parse = Callable[[bytes], Record]

_FIELDS = ("key", "key_base64", "value", "value_base64", "headers", "partition", "timestamp")
_ESCAPES = {b"t": b"\t", b"n": b"\n", b"r": b"\r", b"0": b"\0", b"\\": b"\\"}
_READ_BACK = {"topic", "offset", "timestamp_type", "leader_epoch"}  # in what `consume --json` prints; not for sending


def text_lines(like: Record, *, key_separator: bytes | None = None, null: bytes | None = None) -> Parse:
    """Every line is a value, or key and value; the rest is as in `like`. A part that equals `null` is null."""
    _, fixed_key, headers, partition, timestamp_ms = like

    def value_only(line: bytes) -> Record:
        return Record(None if line == null else line, fixed_key, headers, partition, timestamp_ms)

    def key_and_value(line: bytes) -> Record:
        assert key_separator is not None
        key, found, value = line.partition(key_separator)
        if not found:
            raise LineError(f"there is no key separator {shown(key_separator)} in {shown(line)}")
        return Record(None if value == null else value, None if key == null else key, headers, partition, timestamp_ms)

    return key_and_value if key_separator else value_only


def remarking(parse: Parse) -> Parse:
    """The same, with a remark if the first line is a record that `consume --json` printed and becomes a value now."""
    unseen = True

    def parsed(line: bytes) -> Record:
        nonlocal unseen
        if unseen:
            unseen = False
            if line.startswith(b'{"topic":') and b'"partition":' in line and b'"offset":' in line:
                remark("these lines look like records of `bifrost consume --json`; --format json sends them as such")
        return parse(line)

    return parsed


def hex_lines(like: Record, *, key_separator: bytes | None = None, null: bytes | None = None) -> Parse:
    """As text, with keys and values written in hexadecimal digits."""
    parse = text_lines(like, key_separator=key_separator, null=null)

    def decode(part: bytes | None) -> bytes | None:
        try:
            return None if part is None else bytes.fromhex(part.decode("ascii"))
        except ValueError:
            raise LineError(f"{shown(part or b'')} is not hexadecimal") from None

    def hexadecimal(line: bytes) -> Record:
        record = parse(line)
        key = decode(record.key) if key_separator else record.key
        return record._replace(value=decode(record.value), key=key)

    return hexadecimal


def json_lines(like: Record, *, now_ms: int = 0) -> Parse:
    """Every line is an object; what it does not say is as in `like`. Headers are those of `like` and then its own."""
    decode = msgspec.json.Decoder().decode

    def parse(line: bytes) -> Record:
        try:
            fields = decode(line)
        except msgspec.DecodeError as error:
            raise LineError(f"this is not JSON: {error}") from None
        if not isinstance(fields, dict):
            raise LineError(f'a record is an object such as {{"value": "hello"}}, not {shown(line)}')
        _check_names(fields)
        return Record(
            _content(fields, "value"),
            _content(fields, "key") if "key" in fields or "key_base64" in fields else like.key,
            [*like.headers, *_headers(fields.get("headers"))],
            _partition(fields.get("partition"), like.partition),
            _timestamp(fields.get("timestamp"), like.timestamp_ms, now_ms),
        )

    return parse


def parse_header(text: str) -> Header:
    """`name=value` as it is typed; `name` alone has no value."""
    name, equals, value = text.partition("=")
    if not name:
        raise LineError(f"a header is NAME=VALUE, such as trace=abc, not {text!r}")
    return name, value.encode() if equals else None


def unescape(text: str) -> bytes:
    r"""`\t`, `\n`, `\0`, `\x1f` as they are meant: shells hand them on as they are typed."""

    def meant(match: re.Match[bytes]) -> bytes:
        escape = match[1]
        if escape[:1] == b"x" and len(escape) == 3:
            return bytes.fromhex(escape[1:].decode())
        if escape not in _ESCAPES:
            raise LineError(rf"{text!r} has an unknown escape; there are \t, \n, \r, \0, \\ and \x1f")
        return _ESCAPES[escape]

    return re.sub(rb"\\(x[0-9a-fA-F]{2}|.?)", meant, text.encode())


def shown(line: bytes, limit: int = 40) -> str:
    """A line in an error: short, on one line, without control characters."""
    text = line[: limit * 4].decode("utf-8", "backslashreplace")
    return repr(text if len(text) <= limit else text[: limit - 1] + "…")


def _check_names(fields: dict[str, Any]) -> None:
    for name in fields:
        if name not in _FIELDS and name not in _READ_BACK:
            hint = nearest(name, _FIELDS) or f"known: {', '.join(_FIELDS)}"
            raise LineError(f"there is no field {name!r}; {hint}")
    for name in ("value", "key"):
        if name in fields and f"{name}_base64" in fields:
            raise LineError(f"there are both {name!r} and '{name}_base64'")
    if "value" not in fields and "value_base64" not in fields:
        raise LineError("there is no field 'value'; null makes a tombstone")


def _content(fields: dict[str, Any], name: str) -> bytes | None:
    """Text is sent as it is, null as null, anything else as compact JSON."""
    if name in fields:
        value = fields[name]
        if value is None:
            return None
        return value.encode() if isinstance(value, str) else msgspec.json.encode(value)
    return _base64(fields[f"{name}_base64"], f"{name}_base64")


def _base64(text: object, name: str) -> bytes:
    try:
        if isinstance(text, str):
            return base64.b64decode(text, validate=True)
    except binascii.Error:
        pass
    raise LineError(f"{name!r} is not base64")


def _headers(given: object) -> list[Header]:
    """An object, or a list of pairs where a name may come twice."""
    if given is None:
        return []
    pairs = list(given.items()) if isinstance(given, dict) else given
    if not isinstance(pairs, list):
        raise LineError('\'headers\' is neither an object nor a list such as [["name", "value"]]')
    found: list[Header] = []
    for pair in pairs:
        if not isinstance(pair, list | tuple) or len(pair) != 2 or not isinstance(pair[0], str):
            raise LineError('\'headers\' holds something that is not a pair such as ["name", "value"]')
        name, value = pair
        if isinstance(value, dict) and value.keys() == {"base64"}:
            found.append((name, _base64(value["base64"], f"headers.{name}")))
        elif value is None or isinstance(value, str):
            found.append((name, None if value is None else value.encode()))
        else:
            raise LineError(f"the value of header {name!r} is neither text nor null")
    return found


def _partition(given: object, fallback: int) -> int:
    if given is None or fallback != ANY_PARTITION:  # what the command line says holds for every line
        return fallback
    if isinstance(given, bool) or not isinstance(given, int) or given < 0:
        raise LineError(f"'partition' is a number from 0 on, not {given!r}")
    return given


def _timestamp(given: object, fallback: int, now_ms: int) -> int:
    if given is None:
        return fallback
    if isinstance(given, int) and not isinstance(given, bool) and given >= 0:
        return given
    try:
        if isinstance(given, str):
            return parse_moment(given, now_ms)
    except TimeError:
        pass
    raise LineError(f"'timestamp' is milliseconds since 1970 or a date such as 2026-05-01T12:00:00Z, not {given!r}")
