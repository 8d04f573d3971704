"""The words in which Kafka's messages are declared: one class per message, holding the fields of all its versions.

    class HeartbeatRequest(Message, api=ApiKey.HEARTBEAT, versions=range(5), flexible=4):
        group_id: str
        generation_id: I32
        member_id: str
        group_instance_id: Annotated[str | None, since(3)] = None

The Python type names the wire type: `str`, `bytes`, `bool`, `float`, `UUID`, `list[...]`, another `Struct`, `| None`
where null may travel. Only integers need a width (`I8` to `I64`, `U16`, `U32`). `since`, `before`, `nullable_since` and
`tag` tell what differs between versions. A field that some version lacks needs a default for its readers.

This file knows no bytes; `codec` turns a declaration and a version into a reader and a writer. Durations and times are
plain integers in the unit of their name, and an all-zero UUID is `ZERO_UUID`, never None.
"""

from __future__ import annotations

from functools import cache
from struct import calcsize
from types import NoneType
from typing import Annotated, Any, ClassVar, Final, dataclass_transform, get_args, get_origin
from uuid import UUID

import msgspec

from bifrost.protocol.apis import NEVER_FLEXIBLE, ApiKey

ZERO_UUID: Final = UUID(int=0)
FOREVER: Final = 1 << 15
"""Above every version that fits in a header."""


class Fixed(msgspec.Struct, frozen=True):
    """A value of constant size; `code` is its letter in the `struct` module."""

    code: str

    @property
    def size(self) -> int:
        return calcsize(">" + self.code)


class String(msgspec.Struct, frozen=True):
    """UTF-8 behind its length."""


class Bytes(msgspec.Struct, frozen=True):
    """Bytes behind their length."""


class Array(msgspec.Struct, frozen=True):
    """Elements behind their count."""

    element: WireType


class Nested(msgspec.Struct, frozen=True):
    """The fields of another struct, in place."""

    cls: type[Struct]


WireType = Fixed | String | Bytes | Array | Nested

BOOL: Final = Fixed("?")
FLOAT64: Final = Fixed("d")
UUID128: Final = Fixed("16s")

I8 = Annotated[int, Fixed("b")]
I16 = Annotated[int, Fixed("h")]
I32 = Annotated[int, Fixed("i")]
I64 = Annotated[int, Fixed("q")]
U16 = Annotated[int, Fixed("H")]
U32 = Annotated[int, Fixed("I")]

_PLAIN: Final[dict[object, WireType]] = {
    str: String(),
    bytes: Bytes(),
    bool: BOOL,
    float: FLOAT64,
    UUID: UUID128,
}


class _Note(msgspec.Struct, frozen=True):
    """A remark in an annotation about the field's life over the versions."""

    name: str
    value: int


def since(version: int) -> _Note:
    """`version` is the first that has the field."""
    return _Note("since", version)


def before(version: int) -> _Note:
    """`version` is the first that no longer has the field."""
    return _Note("before", version)


def nullable_since(version: int) -> _Note:
    """`version` is the first in which null may travel. Without this note, `| None` means in every version."""
    return _Note("nullable_since", version)


def tag(number: int) -> _Note:
    """The field travels under this number, and only when it differs from its default (KIP-482)."""
    return _Note("tag", number)


class _StructMeta(msgspec.StructMeta):
    """Makes fields keyword-only, and keeps a message's API and versions beside its fields."""

    def __new__(
        mcls,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        api: ApiKey | None = None,
        versions: range = range(0),
        flexible: int = NEVER_FLEXIBLE,
    ) -> Any:
        # Messages are trees: the cycle collector would find nothing in them, and not tracking them halves their price.
        cls: Any = super().__new__(mcls, name, bases, namespace, kw_only=True, gc=False)
        if versions:
            cls.versions, cls.flexible = versions, flexible
        if api is not None:
            cls.api = api
        return cls


@dataclass_transform(kw_only_default=True, field_specifiers=(msgspec.field,))
class Struct(msgspec.Struct, metaclass=_StructMeta):
    """A part of a message, such as the element of an array."""


class Message(Struct):
    """What has versions of its own: a body, declared with its `api`, its `versions` and the first `flexible` one.

    A record of an internal topic is declared in the same words, without an `api`.
    """

    api: ClassVar[ApiKey]
    versions: ClassVar[range]
    flexible: ClassVar[int]


class Field(msgspec.Struct, frozen=True):
    """What a declaration says about one field."""

    name: str
    type: WireType
    default: Any
    """The value of readers whose version lacks the field; `msgspec.NODEFAULT` when every version has it."""
    since: int = 0
    before: int = FOREVER
    nullable_since: int = FOREVER
    tag: int | None = None

    def present(self, version: int) -> bool:
        return self.since <= version < self.before

    def nullable(self, version: int) -> bool:
        return self.nullable_since <= version


@cache
def fields_of(cls: type[Struct]) -> tuple[Field, ...]:
    """The fields of `cls` in wire order."""
    return tuple(_field(info) for info in msgspec.structs.fields(cls))


def _field(info: msgspec.structs.FieldInfo) -> Field:
    annotation, notes = _split(info.type)
    inner, nullable = _without_none(annotation)
    life = {note.name: note.value for note in notes if isinstance(note, _Note)}
    if nullable:
        life.setdefault("nullable_since", 0)
    default = info.default if info.default_factory is msgspec.NODEFAULT else info.default_factory()
    return Field(name=info.name, type=_wire_type(inner, notes), default=default, **life)


def _split(annotation: Any) -> tuple[Any, tuple[object, ...]]:
    """An annotation without its notes, and the notes."""
    if get_origin(annotation) is Annotated:
        inner, *notes = get_args(annotation)
        return inner, tuple(notes)
    return annotation, ()


def _without_none(annotation: Any) -> tuple[Any, bool]:
    """`X | None` as `X` and True."""
    choices = get_args(annotation)
    if NoneType not in choices:
        return annotation, False
    (inner,) = (choice for choice in choices if choice is not NoneType)
    return inner, True


def _wire_type(annotation: Any, notes: tuple[object, ...] = ()) -> WireType:
    for note in notes:
        if isinstance(note, Fixed):
            return note
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    if get_origin(annotation) is list:
        return Array(_wire_type(*_split(get_args(annotation)[0])))
    assert issubclass(annotation, Struct), f"no wire type for {annotation}"
    return Nested(annotation)
