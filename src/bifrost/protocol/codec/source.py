"""Python source under construction: what the generators of readers and of writers have in common."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from struct import Struct as Packer
from typing import Any, Final

from bifrost.protocol.schema import Field, Message, Struct, fields_of


class Packers(dict[int, Packer]):
    """Packers of n numbers of one kind, by n. Short ones are kept; a peer's long arrays do not fill our memory."""

    _KEPT_MAX = 64

    def __init__(self, code: str) -> None:
        super().__init__()
        self._code = code

    def __missing__(self, count: int) -> Packer:
        packer = Packer(f">{count}{self._code}")
        if count <= self._KEPT_MAX:
            self[count] = packer
        return packer


_PACKERS: Final[dict[str, Packers]] = {}


class Source:
    """Lines of Python for one version of one message, and the objects that these lines name."""

    def __init__(self, cls: type[Message], version: int) -> None:
        assert version in cls.versions, f"{cls.__name__} has no version {version}"
        self.cls, self.version = cls, version
        self.flexible = version >= cls.flexible
        self.names: dict[str, Any] = {}
        self._lines: list[str] = []
        self._indent = ""
        self._variables = 0

    def line(self, text: str) -> None:
        self._lines.append(self._indent + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Lines added inside belong to the compound statement that `head` opens."""
        self.line(head + ":")
        self._indent += " "
        yield
        self._indent = self._indent[:-1]

    def fresh(self, hint: str) -> str:
        """A local variable that nothing else uses."""
        self._variables += 1
        return f"{hint}_{self._variables}"

    def bind(self, name: str, value: object) -> str:
        """Makes `value` known to the source under `name`."""
        assert self.names.setdefault(name, value) is value, f"two things called {name}"
        return name

    def packers(self, code: str) -> str:
        """The name under which the source finds packers for arrays of `code`."""
        return self.bind(f"packers_{word(code)}", _PACKERS.setdefault(code, Packers(code)))

    def fields(self, cls: type[Struct]) -> tuple[list[Field], list[Field]]:
        """The fields that this version of `cls` has: those in place, and the tagged ones by their tags."""
        present = [field for field in fields_of(cls) if field.present(self.version)]
        tagged = {field.tag: field for field in present if field.tag is not None}
        assert self.flexible or not tagged, f"{cls.__name__}: tags before the first flexible version"
        return [field for field in present if field.tag is None], [tagged[number] for number in sorted(tagged)]

    def define(self, name: str) -> Any:
        """Runs the source and returns the function that it defines."""
        exec(compile("\n".join(self._lines), f"<{self.cls.__name__} v{self.version}>", "exec"), self.names)
        return self.names[name]


def word(codes: str) -> str:
    """Codes of the `struct` module as part of a name."""
    return codes.replace("?", "t")
