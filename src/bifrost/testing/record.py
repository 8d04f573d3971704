"""Records as tests write and read them, and when one that is there is the one that was expected.

A test says as little as it wants to: what it does not mention is not compared. `"hello"` is a value of UTF-8 text,
`("key", "hello")` has a key, a dictionary is JSON that is compared as data and not as text, `None` is a tombstone, and
a `Record` says everything else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import lru_cache
from typing import Any, Final

import msgspec


class _Anything:
    """Equal to whatever it is compared with."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "ANY"


ANY: Final[Any] = _Anything()
"""Stands for what a test does not care about."""


@dataclass(frozen=True, slots=True, repr=False)
class Record:
    """A record to produce, one that is expected, or one that was read.

    One that was read has it all, key and value as bytes. In one that is expected, what was left out is not compared;
    in one to produce, the cluster decides it.
    """

    value: Any = None
    key: Any = ANY
    headers: Any = ANY
    """Pairs of a name and a value, or a mapping where neither order nor repetition matters."""
    partition: Any = ANY
    offset: Any = ANY
    timestamp_ms: Any = ANY

    @property
    def text(self) -> str:
        """The value as UTF-8 text."""
        return _encoded_or_empty(self.value).decode()

    def json(self) -> Any:
        """The value, read as JSON."""
        return msgspec.json.decode(_encoded_or_empty(self.value))

    def __repr__(self) -> str:
        named = ((field.name, getattr(self, field.name)) for field in fields(self))
        return f"Record({', '.join(f'{name}={value!r}' for name, value in named if value is not ANY)})"


def as_record(given: object) -> Record:
    """What a test wrote for a record."""
    if isinstance(given, Record):
        return given
    if isinstance(given, tuple):
        if len(given) != 2:
            raise TypeError(f"a tuple is a key and a value; this one has {len(given)} parts: {given!r}")
        return Record(key=given[0], value=given[1])
    return Record(value=given)


def as_records(given: Iterable[object]) -> list[Record]:
    """A list of what a test wrote; one record on its own is refused, since its parts would pass for records."""
    if isinstance(given, str | bytes | bytearray | Mapping | tuple | Record):
        raise TypeError(f"give a list of records, also if it is one: [{given!r}]")
    return [as_record(each) for each in given]


def encode(part: object) -> bytes | None:
    """A key, a value or a header's value as it goes over the wire."""
    if part is None or part is ANY:
        return None
    if isinstance(part, str):
        return part.encode()
    if isinstance(part, bytes | bytearray | memoryview):
        return bytes(part)
    try:
        return msgspec.json.encode(part)
    except (TypeError, ValueError, OverflowError) as error:
        problem = f"{part!r} cannot be sent: give text, bytes, None, or what can be JSON ({error})"
    raise TypeError(problem)  # out here, so that only this one is shown


def header_pairs(headers: object) -> list[tuple[str, bytes | None]]:
    """Headers as they go over the wire."""
    if headers is None or headers is ANY:
        return []
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    assert isinstance(pairs, Iterable)
    return [(name, encode(value)) for name, value in pairs]


def agrees(expected: Record, found: Record) -> bool:
    """Whether the record that is there is as expected in all that the test mentioned."""
    return not disagreements(expected, found)


def disagreements(expected: Record, found: Record) -> list[str]:
    """The names of the fields that are not as expected."""
    wrong = [
        name for name in ("partition", "offset", "timestamp_ms") if getattr(expected, name) != getattr(found, name)
    ]
    if not _part_agrees(expected.key, found.key):
        wrong.append("key")
    if not _part_agrees(expected.value, found.value):
        wrong.append("value")
    if not _headers_agree(expected.headers, found.headers):
        wrong.append("headers")
    return wrong


def _headers_agree(expected: Any, found: Sequence[tuple[str, bytes | None]]) -> bool:
    if expected is ANY:
        return True
    if isinstance(expected, Mapping):
        last = dict(found)
        return expected.keys() == last.keys() and all(
            _part_agrees(value, last[name]) for name, value in expected.items()
        )
    pairs = list(expected or ())
    return len(pairs) == len(found) and all(
        name == found_name and _part_agrees(value, found_value)
        for (name, value), (found_name, found_value) in zip(pairs, found)
    )


def _part_agrees(expected: object, found: bytes | None) -> bool:
    if expected is ANY:
        return True
    if expected is None or isinstance(expected, str | bytes | bytearray | memoryview):
        return encode(expected) == found
    if found is None:
        return bool(expected == found)
    try:
        decoded = _decoded(found)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return bool(expected == found)  # an object with an idea of equality of its own, such as mock.ANY
    if isinstance(expected, msgspec.Struct) or (is_dataclass(expected) and not isinstance(expected, type)):
        expected = msgspec.to_builtins(expected)
    return bool(expected == decoded)


@lru_cache(maxsize=1024)
def _decoded(data: bytes) -> Any:
    return msgspec.json.decode(data)


def _encoded_or_empty(part: object) -> bytes:
    data = encode(part)
    if data is None:
        raise ValueError("the record has no value: it is a tombstone")
    return data
