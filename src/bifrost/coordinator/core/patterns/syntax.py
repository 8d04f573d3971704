"""Reads a regular expression in RE2's syntax into a tree. Look-around, back-references and possessive repetition, which
cannot be matched in linear time, are refused as RE2 refuses them.

A name has no line breaks and matches whole or not at all, so greed and the flags `m`, `s` and `U` change nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, NoReturn, TypeAlias

from bifrost.coordinator.core.patterns.characters import LEGAL, PERL, POSIX, either_case, unicode_class

NESTING_MAX: Final = 100
REPEAT_MAX: Final = 1000
_CONTROLS: Final = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_OCTAL: Final = frozenset("01234567")


class InvalidPatternError(ValueError):
    """A regular expression that RE2 would not take either, or that is too large."""


class Place(Enum):
    """A condition on where in the name one is."""

    START = auto()
    END = auto()
    WORD_EDGE = auto()
    NO_WORD_EDGE = auto()


@dataclass(frozen=True, slots=True)
class OneOf:
    """One character."""

    characters: frozenset[str]


@dataclass(frozen=True, slots=True)
class Sequence:
    """One after the other; nothing at all if it is empty."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    part: Node
    low: int
    high: int | None


Node: TypeAlias = OneOf | Sequence | Choice | Repeat | Place

_REPEATS: Final = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_PLACES: Final = {"^": Place.START, "$": Place.END}
_ESCAPED_PLACES: Final = {"A": Place.START, "z": Place.END, "b": Place.WORD_EDGE, "B": Place.NO_WORD_EDGE}


def parse(text: str) -> Node:
    """The tree of the whole expression."""
    return _Parser(text).whole()


class _Parser:
    """A recursive descent; `at` is the next character's place."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._any_case = False
        self._names: set[str] = set()

    def whole(self) -> Node:
        node = self._choice()
        if self._peek():
            self._fail("unexpected )")
        return node

    def _peek(self, count: int = 1) -> str:
        return self._text[self._at : self._at + count]

    def _take(self, expected: str) -> bool:
        if self._text.startswith(expected, self._at):
            self._at += len(expected)
            return True
        return False

    def _next(self, wanted: str) -> str:
        if self._at >= len(self._text):
            self._fail(f"missing {wanted}")
        self._at += 1
        return self._text[self._at - 1]

    def _fail(self, reason: str) -> NoReturn:
        raise InvalidPatternError(f"{reason} at position {self._at}")

    def _choice(self) -> Node:
        """Flags that are set inside hold to the end of the group."""
        outer = self._any_case
        parts: list[Node] = [self._sequence()]
        while self._take("|"):
            parts.append(self._sequence())
        self._any_case = outer
        if len(parts) == 1:
            return parts[0]
        sets = [part.characters for part in parts if isinstance(part, OneOf)]
        return OneOf(frozenset[str]().union(*sets)) if len(sets) == len(parts) else Choice(tuple(parts))

    def _sequence(self) -> Node:
        parts: list[Node] = []
        while self._peek() not in {"", "|", ")"}:
            if self._take("\\Q"):
                parts += self._quoted()
            elif (atom := self._atom()) is not None:
                parts.append(self._repeated(atom))
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _quoted(self) -> list[Node]:
        """Characters that mean themselves, up to `\\E`; what follows may repeat the last of them."""
        quoted, _, _ = self._text[self._at :].partition("\\E")
        self._at += len(quoted)
        self._take("\\E")
        parts: list[Node] = [self._one_of({character}) for character in quoted]
        return [*parts[:-1], self._repeated(parts[-1])] if parts else []

    def _repeated(self, atom: Node) -> Node:
        bounds = self._repeat()
        if bounds is None:
            return atom
        self._take("?")
        if self._repeat() is not None:
            self._fail("a repetition of a repetition")
        return Repeat(atom, *bounds)

    def _repeat(self) -> tuple[int, int | None] | None:
        """A repetition operator, if one is next. What only looks like `{n,m}` is meant literally."""
        if self._peek() in _REPEATS:
            return _REPEATS[self._next("repetition")]
        end = self._text.find("}", self._at)
        if self._peek() != "{" or end < 0:
            return None
        low, comma, high = self._text[self._at + 1 : end].partition(",")
        if not _is_number(low) or not (_is_number(high) or not high):
            return None
        first = int(low)
        last = first if not comma else int(high) if high else None
        if first > REPEAT_MAX or (last is not None and not first <= last <= REPEAT_MAX):
            self._fail(f"cannot repeat {{{low}{comma}{high}}}")
        self._at = end + 1
        return first, last

    def _atom(self) -> Node | None:
        """One thing that may be repeated; None if it only set flags."""
        if self._repeat() is not None:
            self._fail("nothing to repeat")
        character = self._next("expression")
        if character == "(":
            return self._group()
        if character == "[":
            return self._one_of(self._class())
        if character == ".":
            return OneOf(LEGAL)
        if character in _PLACES:
            return _PLACES[character]
        if character != "\\":
            return self._one_of({character})
        if self._peek() in _ESCAPED_PLACES:
            return _ESCAPED_PLACES[self._next("escape")]
        return self._one_of(self._escape())

    def _one_of(self, characters: set[str] | frozenset[str]) -> OneOf:
        found = frozenset(characters)
        return OneOf((either_case(found) if self._any_case else found) & LEGAL)

    def _group(self) -> Node | None:
        self._depth += 1
        if self._depth > NESTING_MAX:
            self._fail("nested too deeply")
        outer = self._any_case
        if self._take("?"):
            if self._take("P<") or (self._peek() == "<" and self._peek(2) not in {"<=", "<!"} and self._take("<")):
                self._name()
            elif self._flags() == ")":
                self._depth -= 1
                return None
        node = self._choice()
        if not self._take(")"):
            self._fail("missing )")
        self._any_case = outer
        self._depth -= 1
        return node

    def _name(self) -> None:
        name, closed, _ = self._text[self._at :].partition(">")
        if not closed or not name.isascii() or not name.replace("_", "a").isalnum() or name in self._names:
            self._fail("not a name for a group")
        self._names.add(name)
        self._at += len(name) + 1

    def _flags(self) -> str:
        """Reads flags up to the `:` or `)` that ends them, and returns it."""
        wanted, seen = True, False
        while True:
            flag = self._next("flags")
            if flag in {":", ")"} and (wanted or seen):
                return flag
            if flag == "-" and wanted:
                wanted, seen = False, False
            elif flag in {"i", "m", "s", "U"}:
                seen = True
                if flag == "i":
                    self._any_case = wanted
            else:
                self._fail(f"(?{flag} is not supported")

    def _class(self) -> frozenset[str]:
        negated = self._take("^")
        found: set[str] = set()
        first = True
        while first or self._peek() != "]":
            first = False
            named = self._named_class()
            found |= self._range() if named is None else named
        self._at += 1
        found = set(either_case(frozenset(found))) if self._any_case else found
        return LEGAL - found if negated else frozenset(found)

    def _named_class(self) -> frozenset[str] | None:
        """`[:alpha:]`, `[:^alpha:]`, or an escape that stands for many."""
        end = self._text.find(":]", self._at + 2)
        if self._peek(2) == "[:" and end >= 0:
            name = self._text[self._at + 2 : end]
            if name.removeprefix("^") not in POSIX:
                self._fail(f"no class [:{name}:]")
            self._at = end + 2
            characters = POSIX[name.removeprefix("^")]
            return LEGAL - characters if name.startswith("^") else characters
        if self._peek() == "\\" and self._peek(2)[1:].lower() in {"d", "w", "s", "p"}:
            self._at += 1
            return self._escape()
        return None

    def _range(self) -> set[str]:
        low = self._class_character()
        if self._peek() != "-" or self._peek(2) in {"-", "-]"}:
            return {low}
        self._at += 1
        high = self._class_character()
        if low > high:
            self._fail(f"no range {low}-{high}")
        return {character for character in LEGAL if low <= character <= high}

    def _class_character(self) -> str:
        character = self._next("]")
        if character != "\\":
            return character
        (character,) = self._escape(single=True)
        return character

    def _escape(self, single: bool = False) -> frozenset[str]:
        """What a backslash makes of the next characters."""
        letter = self._next("escape")
        if letter.lower() in PERL and not single:
            characters = PERL[letter.lower()]
            return characters if letter.islower() else LEGAL - characters
        if letter in {"p", "P"} and not single:
            return self._unicode_class(letter == "P")
        if letter == "0" or (letter in _OCTAL and self._peek() in _OCTAL):
            return frozenset(self._octal(letter))
        if letter == "x":
            return frozenset(self._hexadecimal())
        if letter in _CONTROLS:
            return frozenset(_CONTROLS[letter])
        if letter.isascii() and letter.isalnum():
            self._fail(f"\\{letter} is not supported")
        return frozenset(letter)

    def _unicode_class(self, negated: bool) -> frozenset[str]:
        name = self._next("name of a class")
        if name == "{":
            name, closed, _ = self._text[self._at :].partition("}")
            if not closed:
                self._fail("missing }")
            self._at += len(name) + 1
        characters = unicode_class(name.removeprefix("^"))
        if characters is None:
            self._fail(f"no class \\p{{{name}}}")
        return LEGAL - characters if negated != name.startswith("^") else characters

    def _octal(self, digits: str) -> str:
        while len(digits) < 3 and self._peek() in _OCTAL:
            digits += self._next("digit")
        return chr(int(digits, 8))

    def _hexadecimal(self) -> str:
        if self._take("{"):
            digits, closed, _ = self._text[self._at :].partition("}")
            self._at += len(digits) + len(closed)
        else:
            digits = self._peek(2)
            closed = "}" if len(digits) == 2 else ""
            self._at += len(digits)
        if (
            not closed
            or not digits
            or any(digit not in POSIX["xdigit"] for digit in digits)
            or int(digits, 16) > 0x10FFFF
        ):
            self._fail("not a hexadecimal number")
        return chr(int(digits, 16))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
