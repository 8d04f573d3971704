"""What a page shows of an output, held against what was printed.

`…` or `...` stands for anything in a line, and alone on a line for any lines. How wide a table is drawn does not
matter, since names and ports differ in length: a run of spaces is one space, and a run of ruling one stroke.
"""

from __future__ import annotations

import difflib
import re

_ANYTHING = re.compile(r"…|\.\.\.")
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_RULING = re.compile(r"([─━═-])\1+")


def difference(shown: str, printed: str) -> str | None:
    """None when the page is right, otherwise both, line by line."""
    expected, actual = _normal(shown), _normal(printed)
    pattern = "".join(r"(?:[^\n]*\n)*?" if _ANYTHING.fullmatch(line) else _line(line) for line in expected)
    if re.fullmatch(pattern, "".join(f"{line}\n" for line in actual)):
        return None
    return "\n".join(difflib.unified_diff(expected, actual, "on the page", "printed", lineterm="", n=100))


def _line(expected: str) -> str:
    return "[^\n]*".join(re.escape(part) for part in _ANYTHING.split(expected)) + "\n"


def _normal(text: str) -> list[str]:
    """Lines without colours, trailing spaces, and empty lines at both ends; of a line redrawn, what was last to see."""
    plain = _ESCAPES.sub("", text).replace("\r\n", "\n").strip("\n")
    lines = [line.rstrip().rpartition("\r")[2] for line in plain.split("\n")]
    squeezed = [re.sub(r" {2,}", " ", _RULING.sub(r"\1", line)).strip() for line in lines]
    return [line for line in squeezed if line]
