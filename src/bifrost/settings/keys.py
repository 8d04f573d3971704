"""What one configuration name is: its type, its default, what it may hold, and how it is written as text.

Values travel as text in files, on the command line, in metadata records and on the wire, and as Python values
everywhere else. This is the one place where the two meet. Nothing here knows any particular name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from math import isnan

Value = bool | int | float | str | tuple[str, ...] | None

_INTEGER = re.compile(r"[+-]?[0-9]{1,20}")
_COMMA = re.compile(r"\s*,\s*")


class Kind(IntEnum):
    """The types a value can have; the numbers are those of DescribeConfigs (Kafka: ConfigEntry.ConfigType)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Update(StrEnum):
    """When a change can take effect. The words are those of Kafka's reference."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


_BITS = {Kind.SHORT: 16, Kind.INT: 32, Kind.LONG: 64}
_NOUN = {
    Kind.BOOLEAN: "true or false",
    Kind.STRING: "text",
    Kind.INT: "a 32-bit integer",
    Kind.SHORT: "a 16-bit integer",
    Kind.LONG: "a 64-bit integer",
    Kind.DOUBLE: "a number",
    Kind.LIST: "a comma-separated list",
    Kind.CLASS: "a class name",
    Kind.PASSWORD: "text",
}


@dataclass(frozen=True, slots=True)
class Key:
    """One name with everything that parsing, documentation and DescribeConfigs need to know about it."""

    name: str
    kind: Kind
    default: Value
    doc: str = ""
    at_least: float | None = None
    at_most: float | None = None
    also: int | None = None  # one value outside the range that has a meaning of its own, usually -1
    choices: tuple[str, ...] = ()
    pattern: str = ""  # every item of a list has to match it, and of a text that is one
    update: Update = Update.READ_ONLY
    note: str = ""  # what to tell whoever sets it: mostly that it has no effect yet
    own: bool = False  # not one of Kafka's names

    def parse(self, text: str) -> Value:
        """The value that `text` stands for; ValueError says what would have been accepted."""
        value = _read(self.kind, text.strip())
        if value is None or not self._allows(value):
            raise ValueError(f"{self.name}={text}: expected {self.allowed()}")
        if isinstance(value, tuple) and self.choices:
            value = tuple(dict.fromkeys(value))
        return value

    def format(self, value: Value) -> str | None:
        """The text that `parse` would read back; None when there is no value."""
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, tuple):
            return ",".join(value)
        return None if value is None else str(value)

    def allowed(self) -> str:
        """What may be written, as the end of a sentence that starts with `expected`."""
        if self.kind is Kind.LIST or self.pattern:
            items = f" of {', '.join(self.choices)}" if self.choices else ""
            return _NOUN[Kind.LIST] + items + (f" (each item {self.pattern})" if self.pattern else "")
        if self.choices:
            return "one of " + ", ".join(self.choices)
        words = _NOUN[self.kind]
        if self.at_least is not None and self.at_most is not None:
            words += f" from {self.at_least:.15g} to {self.at_most:.15g}"
        elif self.at_least is not None:
            words += f", at least {self.at_least:.15g}"
        return words + (f", or {self.also}" if self.also is not None else "")

    def _allows(self, value: Value) -> bool:
        if isinstance(value, tuple):
            return all(
                (not self.choices or item in self.choices)
                and (not self.pattern or re.fullmatch(self.pattern, item) is not None)
                for item in value
            )
        if isinstance(value, str):
            items = [item for item in _COMMA.split(value) if item] if self.pattern else []
            fits = all(re.fullmatch(self.pattern, item) for item in items)
            return fits and (not self.choices or value in self.choices)
        if isinstance(value, bool) or value is None or value == self.also:
            return True
        return (self.at_least is None or value >= self.at_least) and (self.at_most is None or value <= self.at_most)


def _read(kind: Kind, text: str) -> Value:
    """The plain value, or None when the text is not of this kind at all."""
    if kind is Kind.BOOLEAN:
        return {"true": True, "false": False}.get(text.lower())
    if kind in _BITS:
        if _INTEGER.fullmatch(text) is None:  # int() would also take 1_000 and digits of other scripts
            return None
        number = int(text)
        bound = 1 << (_BITS[kind] - 1)
        return number if -bound <= number < bound else None
    if kind is Kind.DOUBLE:
        try:
            fraction = float(text)
        except ValueError:
            return None
        return None if isnan(fraction) else fraction
    if kind is Kind.LIST:
        return tuple(_COMMA.split(text)) if text else ()
    return text


def hours(count: int) -> int:
    """Hours as milliseconds; a negative count means no limit, which is -1 in every unit."""
    return -1 if count < 0 else count * 3_600_000


def minutes(count: int) -> int:
    """Minutes as milliseconds, with the same rule."""
    return -1 if count < 0 else count * 60_000
