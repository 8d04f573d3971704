"""The characters that topics may be called by, and the sets of them that have names."""

from __future__ import annotations

import string
import unicodedata
from typing import Final

LEGAL: Final = frozenset(string.ascii_letters + string.digits + "._-")
WORD: Final = frozenset(string.ascii_letters + string.digits + "_")

PERL: Final = {"d": frozenset(string.digits), "w": WORD, "s": frozenset("\t\n\f\r ")}

POSIX: Final = {
    "alnum": frozenset(string.ascii_letters + string.digits),
    "alpha": frozenset(string.ascii_letters),
    "ascii": LEGAL,
    "blank": frozenset("\t "),
    "cntrl": frozenset(map(chr, [*range(32), 127])),
    "digit": frozenset(string.digits),
    "graph": LEGAL,
    "lower": frozenset(string.ascii_lowercase),
    "print": LEGAL,
    "punct": frozenset(string.punctuation),
    "space": frozenset(string.whitespace),
    "upper": frozenset(string.ascii_uppercase),
    "word": WORD,
    "xdigit": frozenset(string.hexdigits),
}

_CATEGORIES: Final = {
    "C": "cfos",
    "L": "lmotu",
    "M": "cen",
    "N": "dlo",
    "P": "cdefios",
    "S": "ckmo",
    "Z": "lps",
}
"""Unicode's general categories: a letter, or a letter and one of those behind it."""


def unicode_class(name: str) -> frozenset[str] | None:
    """The characters of a general category, or of one of the scripts that have any; None if it is unknown."""
    if name == "Any":
        return LEGAL
    if name == "Latin":
        return POSIX["alpha"]
    if name == "Common":
        return LEGAL - POSIX["alpha"]
    if name[:1] not in _CATEGORIES or len(name) > 2 or name[1:] not in _CATEGORIES[name[0]]:
        return None
    return frozenset(character for character in LEGAL if unicodedata.category(character).startswith(name))


def either_case(characters: frozenset[str]) -> frozenset[str]:
    return characters | {character.swapcase() for character in characters}
