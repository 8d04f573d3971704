"""Generates writers. Values of constant size that follow each other, lengths included, are packed in one call."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct as Packer
from typing import Any, Final

from bifrost.protocol.codec.source import Source, word
from bifrost.protocol.schema import (
    FOREVER,
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
)
from bifrost.protocol.wire import UVARINT

_LENGTH_CODE: Final = {String: "h", Bytes: "i", Array: "i"}
_EMPTY: Final = {String: "''", Bytes: "b''", Array: "()"}


class WriterSource(Source):
    """Writes `write(m)`: `m` is the message, `out` the list of parts that are joined at the end.

    Expressions wait in `parts` until a loop or a branch needs the list to be complete.
    """

    def __init__(self, cls: type[Message], version: int) -> None:
        super().__init__(cls, version)
        self.names["UVARINT"] = UVARINT
        self.out = "out"
        self.parts: list[str] = []
        self.codes: list[str] = []
        self.values: list[str] = []

    def compile(self) -> Callable[[Any], bytes]:
        with self.block("def write(m)"):
            self.line("out = []")
            self.struct(self.cls, "m")
            self.flush()
            self.line("return b''.join(out)")
        function: Callable[[Any], bytes] = self.define("write")
        return function

    def struct(self, cls: type[Struct], owner: str) -> None:
        in_place, tagged = self.fields(cls)
        for field in in_place:
            self.field(field, f"{owner}.{field.name}")
        if tagged:
            self.tagged(tagged, owner)
        elif self.flexible:
            self.fixed("x")

    def field(self, field: Field, value: str) -> None:
        if field.nullable(self.version):
            self.nullable(field, value)
        elif field.nullable_since < FOREVER:
            self.value(field.type, f"({value} or {_EMPTY[type(field.type)]})", field.name)
        else:
            self.value(field.type, value, field.name)

    def value(self, kind: WireType, value: str, name: str) -> None:
        match kind:
            case Fixed(code):
                self.fixed(code, f"{value}.bytes" if kind == UUID128 else value)
            case String():
                self.raw(self.length(kind, f"{value}.encode()", name))
            case Bytes():
                self.raw(self.length(kind, value, name))
            case Array(element):
                self.elements(element, self.length(kind, value, name), name)
            case Nested(cls):
                self.struct(cls, value)

    def nullable(self, field: Field, value: str) -> None:
        variable = self.fresh(field.name)
        self.flush()
        self.line(f"{variable} = {value}")
        with self.block(f"if {variable} is None"):
            if isinstance(field.type, Nested):
                self.fixed("b", "-1" if field.tag is None else "0")  # KIP-893
            elif self.flexible:
                self.fixed("x")
            else:
                self.fixed(_LENGTH_CODE[type(field.type)], "-1")
            self.flush()
        with self.block("else"):
            if isinstance(field.type, Nested):
                self.fixed("b", "1")
            self.value(field.type, variable, field.name)
            self.flush()

    def length(self, kind: WireType, value: str, name: str) -> str:
        """Adds the length of `value`; returns the variable that holds it."""
        variable = self.fresh(name)
        if self.flexible:
            self.raw(f"UVARINT[len({variable} := {value}) + 1]")
        else:
            self.fixed(_LENGTH_CODE[type(kind)], f"len({variable} := {value})")
        return variable

    def elements(self, element: WireType, array: str, name: str) -> None:
        if isinstance(element, Fixed) and element != UUID128:
            self.raw(f"{self.packers(element.code)}[len({array})].pack(*{array})")
            return
        self.flush()
        variable = self.fresh(name)
        with self.block(f"for {variable} in {array}"):
            self.value(element, variable, name)
            self.flush()

    def tagged(self, fields: list[Field], owner: str) -> None:
        self.flush()
        outer, tags = self.out, self.fresh("tags")
        self.line(f"{tags} = []")
        for field in fields:
            default = self.bind(self.fresh("default"), field.default)
            with self.block(f"if {owner}.{field.name} != {default}"):
                self.out = self.fresh("out")
                self.line(f"{self.out} = []")
                self.field(field, f"{owner}.{field.name}")
                self.flush()
                self.line(f"{self.out} = b''.join({self.out})")
                self.line(f"{tags} += (UVARINT[{field.tag}], UVARINT[len({self.out})], {self.out})")
        self.out = outer
        self.raw(f"UVARINT[len({tags}) // 3]")
        self.raw(f"*{tags}")

    def fixed(self, code: str, value: str | None = None) -> None:
        """Adds a value of constant size to the run that is packed in one call; code `x` is a zero byte."""
        self.codes.append(code)
        if value is not None:
            self.values.append(value)

    def raw(self, expression: str) -> None:
        """Adds an expression that is bytes already."""
        self.end_run()
        self.parts.append(expression)

    def end_run(self) -> None:
        if self.codes:
            codes = "".join(self.codes)
            self.names[f"pack_{word(codes)}"] = Packer(">" + codes).pack
            self.parts.append(f"pack_{word(codes)}({', '.join(self.values)})" if codes != "x" else "b'\\0'")
            self.codes.clear()
            self.values.clear()

    def flush(self) -> None:
        self.end_run()
        if self.parts:
            self.line(f"{self.out} += ({', '.join(self.parts)},)")
            self.parts.clear()
