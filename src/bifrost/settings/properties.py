r"""Java's .properties format, as server.properties files use it (java.util.Properties.load).

Comments start with # or !, a name ends at the first =, : or white space, a line that ends in an odd number of
backslashes goes on in the next, \uXXXX and the usual escapes are understood. A later line wins over an earlier one.
Text in, mapping out: reading the file is the caller's job.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_BLANK = " \t\f"
_END_OF_LINE = re.compile(r"\r\n|\r|\n")
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_NAME = re.compile(r"(?:\\.|[^\\=: \t\f])*", re.DOTALL)
_SEPARATOR = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_PLAIN_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """Names and values as Java would load them; ValueError for a malformed Unicode escape."""
    found: dict[str, str] = {}
    for line in _logical_lines(text):
        name = _NAME.match(line)
        separator = _SEPARATOR.match(line, name.end() if name else 0)
        assert name is not None, "the pattern also matches nothing"
        assert separator is not None, "the pattern also matches nothing"
        found[_unescape(name[0])] = _unescape(line[separator.end() :])
    return found


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments and blanks, continuations joined; a comment is never continued."""
    pending = ""
    for natural in _END_OF_LINE.split(text):
        line = natural.lstrip(_BLANK)
        if not pending and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        continued = backslashes % 2 == 1
        pending += line[:-1] if continued else line
        if not continued:
            yield pending
            pending = ""
    if pending:
        yield pending


def _unescape(text: str) -> str:
    return _ESCAPE.sub(_replace, text) if "\\" in text else text


def _replace(escape: re.Match[str]) -> str:
    code = escape[1]
    if len(code) == 5:
        return chr(int(code[1:], 16))
    if code == "u":
        raise ValueError(
            f"malformed escape near {escape.string[escape.start() : escape.start() + 6]!r}: expected \\uXXXX"
        )
    return _PLAIN_ESCAPES.get(code, code)
