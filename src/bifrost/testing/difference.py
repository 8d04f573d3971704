"""Tells a person how the records of a topic differ from those that a test expected. Decides nothing else.

Marks at the start of a line: `-` missing, `+` extra, `!` out of order, `~` like an expected one but not equal, with
that one below it and a caret under the first character that differs. Right records are shown around the wrong ones
only, and long values are cut around the place that matters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from bifrost.testing.matching import Match, Partitions, match
from bifrost.testing.record import ANY, Record, disagreements, encode, header_pairs

_CONTEXT = 2
_WRONG_MAX = 40
_WIDTH_MAX = 100
_LEAD = 40

Place = tuple[int, int]


def difference(topic: str, expected: Sequence[Record], there: Partitions, *, ordered: bool = True) -> str | None:
    """What is wrong with the records that are there, or None if nothing is."""
    result = match(expected, there, ordered=ordered)
    if result.perfect:
        return None
    return _Account(topic, expected, there, result).text()


def listing(records: Sequence[Record]) -> str:
    """Records as lines, for a message that has nothing to compare them with."""
    lines = [f"  partition {record.partition} offset {record.offset}  {_shown(record)}" for record in records]
    return "\n".join(_cut(lines, "records")) or "  (none)"


class _Account:
    """One failed comparison."""

    def __init__(self, topic: str, expected: Sequence[Record], there: Partitions, result: Match) -> None:
        self._topic = topic
        self._expected = expected
        self._there = there
        self._result = result
        self._pairs = _pairs(expected, there, result)
        self._extra = [place for place in result.extra if place not in self._pairs]
        self._missing = [number for number in result.missing if number not in self._pairs.values()]

    def text(self) -> str:
        lines = [line for partition in sorted(self._there) for line in self._partition(partition)]
        if not any(self._there.values()):
            lines.append("  the topic is empty" if self._expected else "")
        lines += _cut([f"  - #{number}  {_shown(self._expected[number])}  <- missing" for number in self._missing])
        return "\n".join([self._summary(), *lines])

    def _summary(self) -> str:
        counts = {
            "different": len(self._pairs),
            "missing": len(self._missing),
            "extra": len(self._extra),
            "out of order": len(self._result.displaced),
        }
        wrong = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
        right = len(self._result.found) - len(self._result.displaced)
        return f"records of {self._topic} are not as expected: {wrong}; {right} of {len(self._expected)} right"

    def _partition(self, partition: int) -> Iterator[str]:
        records = self._there[partition]
        wrong = [index for index in range(len(records)) if self._is_wrong((partition, index))]
        if not wrong:
            if records:
                yield f"  partition {partition}: {len(records)} as expected"
            return
        yield f"  partition {partition}"
        told = wrong[:_WRONG_MAX]
        shown = {near for index in told for near in range(index - _CONTEXT, index + _CONTEXT + 1)}
        skipped = 0
        for index, record in enumerate(records[: told[-1] + _CONTEXT + 1]):
            if index not in shown:
                skipped += 1
                continue
            if skipped:
                yield f"      ... {skipped} as expected"
            skipped = 0
            yield from self._record((partition, index), record)
        rest = len(records) - told[-1] - _CONTEXT - 1
        if rest > 0:
            yield f"      ... {rest} more" + (f", {len(wrong) - len(told)} of them wrong" if told != wrong else "")

    def _is_wrong(self, place: Place) -> bool:
        return place not in self._result.found or place in self._result.displaced

    def _record(self, place: Place, record: Record) -> Iterator[str]:
        where = f"offset {record.offset}"
        if place in self._pairs:
            number = self._pairs[place]
            yield from _compared(where, record, f"expected #{number}", self._expected[number])
        elif place in self._result.displaced:
            number = self._result.found[place]
            yield f"    ! {where}  {_shown(record)}  <- out of order: {self._should_be(place, number)}"
        elif place in self._result.found:
            yield f"      {where}  {_shown(record)}"
        else:
            yield f"    + {where}  {_shown(record)}  <- extra"

    def _should_be(self, place: Place, number: int) -> str:
        """Where the record belongs among those that are in order."""
        partition, _ = place
        in_order = {
            found: self._there[partition][index].offset
            for (other, index), found in self._result.found.items()
            if other == partition and (other, index) not in self._result.displaced
        }
        after = max((found for found in in_order if found < number), default=None)
        if after is None:
            return f"expected as #{number}, before offset {in_order[min(in_order)]}"
        return f"expected as #{number}, after offset {in_order[after]}"


def _pairs(expected: Sequence[Record], there: Partitions, result: Match) -> dict[Place, int]:
    """Extra records that look like missing ones which came out wrong: same key, or the place where it should be."""
    open_numbers = list(result.missing)
    pairs: dict[Place, int] = {}
    for place in result.extra:
        partition, index = place
        record = there[partition][index]
        before = result.found.get((partition, index - 1), pairs.get((partition, index - 1), -1))
        for number in open_numbers:
            wanted = expected[number]
            if wanted.partition != partition:
                continue
            key = encode(wanted.key)
            same_key = key is not None and key == record.key
            if same_key or ((key is None or record.key is None) and number == before + 1):
                pairs[place] = number
                open_numbers.remove(number)
                break
    return pairs


def _compared(where: str, record: Record, wanted_as: str, wanted: Record) -> Iterator[str]:
    width = max(len(where), len(wanted_as))
    wrong = disagreements(wanted, record)
    found, should = _fields(record, wanted, wrong)
    heads = f"    ~ {where:<{width}}  ", f"      {wanted_as:<{width}}  "
    line, other, caret = _aligned(found, should)
    yield heads[0] + line
    yield heads[1] + other
    if caret is not None:
        yield " " * (len(heads[0]) + caret) + "^"


def _fields(record: Record, wanted: Record, wrong: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
    """The same fields of both, those that are right only where they help to recognise the record."""
    found, should = {}, {}
    for name in ("partition", "offset", "timestamp_ms", "key", "value", "headers"):
        if name in wrong or (name in {"key", "value"} and getattr(wanted, name) is not ANY):
            found[name], should[name] = _alike(name, getattr(record, name), getattr(wanted, name))
    return found, should


def _aligned(found: Mapping[str, str], should: Mapping[str, str]) -> tuple[str, str, int | None]:
    """Both as lines with fields below one another, and the column of the first difference."""
    line, other, caret = "", "", None
    for name in found:
        one, two = found[name], should[name]
        at = _first_difference(one, two)
        if at is not None:
            one, two, at = _around(one, two, at)
            caret = len(line) + len(name) + 1 + at if caret is None else caret
        else:
            one = two = _shortened(one)
        width = max(len(one), len(two))
        line += f"{name} {one:<{width}}  "
        other += f"{name} {two:<{width}}  "
    return line.rstrip(), other.rstrip(), caret


def _first_difference(one: str, two: str) -> int | None:
    if one == two:
        return None
    return next((at for at, (left, right) in enumerate(zip(one, two)) if left != right), min(len(one), len(two)))


def _around(one: str, two: str, at: int) -> tuple[str, str, int]:
    """Both cut to the place where they part."""
    if max(len(one), len(two)) <= _WIDTH_MAX:
        return one, two, at
    start = max(0, at - _LEAD)
    return _window(one, start), _window(two, start), at - start + (3 if start else 0)


def _window(text: str, start: int) -> str:
    kept = text[start : start + _WIDTH_MAX]
    return ("..." if start else "") + kept + ("..." if start + _WIDTH_MAX < len(text) else "")


def _shown(record: Record) -> str:
    parts = [] if record.key is ANY or record.key is None else [f"key {_shortened(_text(record.key))}"]
    parts.append(f"value {_shortened(_text(record.value))}")
    return "  ".join(parts)


def _shortened(text: str) -> str:
    return _window(text, 0)


def _alike(name: str, found: Any, wanted: Any) -> tuple[str, str]:
    """Both as text that differs only where they do: JSON is brought to one form if it is expected as data."""
    if name == "headers":
        pairs = wanted if isinstance(wanted, Mapping) else dict(enumerate(header_pairs(wanted)))
        return _headers(dict(found) if isinstance(wanted, Mapping) else dict(enumerate(found))), _headers(pairs)
    if name in {"key", "value"} and not isinstance(wanted, str | bytes | bytearray | memoryview | None):
        try:
            one = msgspec.json.encode(msgspec.json.decode(found or b""), order="sorted").decode()
            return one, msgspec.json.encode(wanted, order="sorted").decode()
        except (msgspec.DecodeError, TypeError):
            pass  # no JSON after all: shown as it is
    return _text(found), _text(wanted)


def _headers(headers: Mapping[Any, Any]) -> str:
    pairs = sorted(headers.items()) if all(isinstance(name, str) for name in headers) else headers.values()
    return "[" + ", ".join(f"{name}={_text(value)}" for name, value in pairs) + "]"


def _text(part: Any) -> str:
    """A key or a value as one line: text in quotes, other bytes as Python writes them, JSON as it is."""
    if part is None:
        return "null"
    if isinstance(part, bytes | bytearray | memoryview):
        try:
            return repr(bytes(part).decode())
        except UnicodeDecodeError:
            return repr(bytes(part))
    if isinstance(part, str | int):
        return repr(part)
    try:
        return msgspec.json.encode(part).decode()
    except TypeError:
        return repr(part)


def _cut(lines: list[str], what: str = "like this") -> list[str]:
    if len(lines) <= _WRONG_MAX:
        return lines
    return [*lines[:_WRONG_MAX], f"  ... {len(lines) - _WRONG_MAX} more {what}"]
