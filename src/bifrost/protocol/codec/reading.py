"""Generates readers. Values of constant size that follow each other, lengths included, are unpacked in one call.

Generated code spells out what is common, a short string or array, and calls a function of this file for what is not.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct as Packer
from struct import error as PackError  # noqa: N812 - a class, whatever its name says
from typing import Any, Final, NoReturn
from uuid import UUID

from msgspec import NODEFAULT

from bifrost.errors import ProtocolError
from bifrost.protocol.codec.source import Source, word
from bifrost.protocol.schema import (
    UUID128,
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
from bifrost.protocol.wire import Buffer, read_uvarint, skip_tags

STRING_BYTES_MAX: Final = 0x7FFF
"""What a 16-bit length can say; Kafka holds compact strings to it as well."""


class ReaderSource(Source):
    """Writes `read(b, p)`: `b` is the buffer, `p` the position in it, `end` its end.

    A slice past the end is short, never long, and positions only grow. So strings need no check of their own: the next
    read fails, or the last line of the function finds that `p` has passed the end.
    """

    def __init__(self, cls: type[Message], version: int) -> None:
        super().__init__(cls, version)
        self.names |= _RUNTIME
        self.run: list[tuple[str, str]] = []

    def compile(self) -> Callable[[Buffer, int], tuple[Any, int]]:
        with self.block("def read(b, p)"):
            with self.block("if type(b) is not bytes"):
                self.line("b = bytes(b)")
            self.line("end = len(b)")
            with self.block("try"):
                message = self.struct(self.cls)
                self.flush()
                with self.block("if p > end"):
                    self.line("raise IndexError('it ends too early')")
                self.line(f"return {message}, p")
            with self.block("except Malformed as error"):
                self.line(f"raise ProtocolError(f'{self.cls.__name__} v{self.version}: {{error}}') from error")
        function: Callable[[Buffer, int], tuple[Any, int]] = self.define("read")
        return function

    def struct(self, cls: type[Struct]) -> str:
        """Reads the fields of `cls`; returns the expression that makes one of them, valid after the next flush."""
        for field in fields_of(cls):
            known = field.present(self.version) or field.default is not NODEFAULT
            assert known, f"{cls.__name__}.{field.name} needs a default: version {self.version} lacks it"
        in_place, tagged = self.fields(cls)
        arguments = [f"{field.name}={self.field(field)}" for field in in_place]
        if self.flexible:
            arguments += self.tagged(tagged)
        return f"{self.bind(cls.__name__, cls)}({', '.join(arguments)})"

    def field(self, field: Field) -> str:
        if isinstance(field.type, Nested) and field.nullable(self.version):
            return self.nullable_struct(field.type.cls, field)
        return self.value(field.type, field.name, field.nullable(self.version))

    def value(self, kind: WireType, name: str, nullable: bool) -> str:
        """Reads one value; returns its expression, valid after the next flush."""
        match kind:
            case Fixed(code):
                variable = self.fixed(code, name)
                return f"UUID(bytes={variable})" if kind == UUID128 else variable
            case String():
                return self.sliced("h", name, nullable, ".decode()", "unusual_string")
            case Bytes():
                return self.sliced("i", name, nullable, "", "unusual_bytes")
            case Array(element):
                return self.array(element, name, nullable)
            case Nested(cls):
                return self.struct(cls)

    def fixed(self, code: str, name: str) -> str:
        variable = self.fresh(name)
        self.run.append((code, variable))
        return variable

    def flush(self) -> None:
        """Reads what is pending, so that `p` is where the next value starts."""
        if not self.run:
            return
        codes = "".join(code for code, _ in self.run)
        variables = ", ".join(variable for _, variable in self.run)
        if codes == "B":
            self.line(f"{variables} = b[p]")
            self.line("p += 1")
        else:
            packer = Packer(">" + codes)
            self.names[f"unpack_{word(codes)}"] = packer.unpack_from
            self.line(f"{variables}, = unpack_{word(codes)}(b, p)")
            self.line(f"p += {packer.size}")
        self.run.clear()

    def sliced(self, code: str, name: str, nullable: bool, decode: str, unusual: str) -> str:
        """A string or bytes. A compact length is one more than the legacy one, so that zero can mean null."""
        variable, stop = self.fresh(name), self.fresh("end")
        length = self.fixed("B" if self.flexible else code, "n")
        self.flush()
        with self.block(f"if 0 < {length} < 128" if self.flexible else f"if {length} >= 0"):
            self.line(f"{stop} = p + {length}{' - 1' if self.flexible else ''}")
            self.line(f"{variable} = b[p:{stop}]{decode}")
            self.line(f"p = {stop}")
        if self.flexible and nullable:
            with self.block(f"elif not {length}"):
                self.line(f"{variable} = None")
        with self.block("else"):
            if self.flexible:
                self.line(f"{variable}, p = {unusual}(b, p - 1, '{name}')")
            else:
                self.line(f"{variable} = null({length}, '{name}', {nullable})")
        return variable

    def array(self, element: WireType, name: str, nullable: bool) -> str:
        variable = self.fresh(name)
        count = self.count(name, nullable)
        size = self.least_size(element)
        with self.block(f"if {count} * {size} > end - p"):
            self.line(f"too_many({count}, '{name}', end - p)")
        with self.block(f"if {count} < 0"):
            self.line(f"{variable} = None")
        with self.block("else"):
            if isinstance(element, Fixed) and element != UUID128:
                self.line(f"{variable} = list({self.packers(element.code)}[{count}].unpack_from(b, p))")
                self.line(f"p += {count} * {size}")
            else:
                self.line(f"{variable} = []")
                with self.block(f"for _ in range({count})"):
                    value = self.value(element, name, nullable=False)
                    self.flush()
                    self.line(f"{variable}.append({value})")
        return variable

    def count(self, name: str, nullable: bool) -> str:
        """Reads the number of elements: -1 for null in both encodings."""
        count = self.fixed("B" if self.flexible else "i", "n")
        self.flush()
        if self.flexible:
            with self.block(f"if {'' if nullable else '0 < '}{count} < 128"):
                self.line(f"{count} -= 1")
            with self.block("else"):
                self.line(f"{count}, p = unusual_length(b, p - 1, '{name}')")
        else:
            with self.block(f"if {count} < 0"):
                self.line(f"null({count}, '{name}', {nullable})")
        return count

    def nullable_struct(self, cls: type[Struct], field: Field) -> str:
        """A byte in front says whether there is a struct (KIP-893); under a tag, zero says that there is none."""
        variable, marker = self.fresh(field.name), self.fixed("b", field.name)
        self.flush()
        with self.block(f"if {marker} < {0 if field.tag is None else 1}"):
            self.line(f"{variable} = None")
        with self.block("else"):
            value = self.struct(cls)
            self.flush()
            self.line(f"{variable} = {value}")
        return variable

    def tagged(self, fields: list[Field]) -> list[str]:
        """Reads a tag section; returns the arguments for the tags that are declared."""
        count = self.fixed("B", "tags")
        self.flush()
        if not fields:
            with self.block(f"if {count}"):
                self.line("p = skip_tags(b, p - 1)")
            return []
        variables = [self.fresh(field.name) for field in fields]
        for variable, field in zip(variables, fields):
            self.line(f"{variable} = {self.default(field, variable)}")
        with self.block(f"if {count}"):
            self.line("skip_tags(b, p - 1)  # every tag lies within the buffer")
            self.line(f"{count}, p = read_uvarint(b, p - 1)")
            with self.block(f"for _ in range({count})"):
                self.tag(variables, fields)
        return [f"{field.name}={variable}" for variable, field in zip(variables, fields)]

    def default(self, field: Field, variable: str) -> str:
        """What a tagged field is when it did not travel; a new one each time if somebody could change it."""
        if field.default == []:
            return "[]"
        if isinstance(field.default, Struct):
            return f"{self.bind(type(field.default).__name__, type(field.default))}()"
        return self.bind(f"default_{variable}", field.default)

    def tag(self, variables: list[str], fields: list[Field]) -> None:
        number, size, stop = self.fresh("tag"), self.fresh("size"), self.fresh("end")
        self.line(f"{number}, p = read_uvarint(b, p)")
        self.line(f"{size}, p = read_uvarint(b, p)")
        self.line(f"{stop} = p + {size}")
        for variable, field in zip(variables, fields):
            with self.block(f"if {number} == {field.tag}"):
                value = self.field(field)
                self.flush()
                self.line(f"{variable} = {value}")
                with self.block(f"if p != {stop}"):
                    self.line(f"raise ValueError('{field.name} does not fill its tag')")
        self.line(f"p = {stop}")

    def least_size(self, kind: WireType) -> int:
        """The fewest bytes that a value can take."""
        match kind:
            case Fixed():
                return kind.size
            case String():
                return 1 if self.flexible else 2
            case Bytes() | Array():
                return 1 if self.flexible else 4
            case Nested(cls):
                in_place, _ = self.fields(cls)
                sizes = (1 if self.may_be_absent(field) else self.least_size(field.type) for field in in_place)
                return max(1, self.flexible + sum(sizes))

    def may_be_absent(self, field: Field) -> bool:
        return isinstance(field.type, Nested) and field.nullable(self.version)


def _unusual_length(buffer: bytes, position: int, name: str) -> tuple[int, int]:
    """A compact length of several bytes, or the one that stands for a null that may not be."""
    length, position = read_uvarint(buffer, position)
    if length == 0:
        raise ValueError(f"{name} has length -1")
    return length - 1, position


def _unusual_bytes(buffer: bytes, position: int, name: str) -> tuple[bytes, int]:
    length, position = _unusual_length(buffer, position, name)
    return buffer[position : position + length], position + length


def _unusual_string(buffer: bytes, position: int, name: str) -> tuple[str, int]:
    length, position = _unusual_length(buffer, position, name)
    if length > STRING_BYTES_MAX:
        raise ValueError(f"{name} has length {length}")
    return buffer[position : position + length].decode(), position + length


def _null(length: int, name: str, nullable: bool) -> None:
    if length != -1 or not nullable:
        raise ValueError(f"{name} has length {length}")


def _too_many(count: int, name: str, remaining: int) -> NoReturn:
    raise ValueError(f"{count} {name} in {remaining} bytes")


_RUNTIME: Final = {
    "UUID": UUID,
    "ProtocolError": ProtocolError,
    "Malformed": (ValueError, IndexError, PackError),
    "read_uvarint": read_uvarint,
    "skip_tags": skip_tags,
    "unusual_length": _unusual_length,
    "unusual_bytes": _unusual_bytes,
    "unusual_string": _unusual_string,
    "null": _null,
    "too_many": _too_many,
}
