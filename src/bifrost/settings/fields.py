"""How a setting is declared: a field of a frozen dataclass that carries its `Key`."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from bifrost.settings.keys import Key, Kind, Value

INT_MAX = (1 << 31) - 1
LONG_MAX = (1 << 63) - 1

LATER = "it is remembered and described, but nothing acts on it yet"
_KIND_OF = {bool: Kind.BOOLEAN, int: Kind.INT, float: Kind.DOUBLE, str: Kind.STRING, tuple: Kind.LIST}


def key(name: str, default: Value, *, doc: str, kind: Kind | None = None, **rules: Any) -> Any:
    """A dataclass field that carries its `Key`; the kind follows from the default unless given."""
    described = Key(name, _KIND_OF[type(default)] if kind is None else kind, default, doc, **rules)
    return field(default=default, metadata={"key": described})


def long(name: str, default: int | None, *, doc: str, **rules: Any) -> Any:
    return key(name, default, doc=doc, kind=Kind.LONG, **rules)
