"""Cuts a page into its blocks of code, and decides what becomes of each by its kind.

A block says its kind behind the fence. `title="app.py"` makes it a file of that name in the page's directory. A `text`
block with `title="Output"`, or right below a Python block, is what that Python prints. A block that cannot be run says
why in the line above the fence: `<!-- not run: it takes an hour -->`. Knows nothing of brokers or processes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

RUN = frozenset({"python", "pycon", "console", "bash"})
READ = frozenset({"toml", "json", "properties", "ini", "yaml"})
SHOWN = frozenset({"text"})
OUTPUT = "Output"

_FENCE = re.compile(r"^(?P<indent>[ \t]*)(?P<fence>`{3,}|~{3,})[ \t]*(?P<info>[^`]*)$")
_TITLE = re.compile(r'title="([^"]*)"')
_NOT_RUN = re.compile(r"^\s*<!--\s*not run:\s*(.*?)\s*-->\s*$")
_FILE = re.compile(r"^[\w./-]+\.\w+$")


@dataclass(frozen=True, slots=True)
class Block:
    """The text between two fences, without the indentation of the fence."""

    page: str
    line: int
    """Of the first line of its text, counted from 1."""
    kind: str
    text: str
    title: str | None = None
    reason: str | None = None
    """Why it is not run."""
    is_output: bool = False
    """Of the Python before it."""

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def file(self) -> str | None:
        """The name of the file that it is to be, if its title is one."""
        return self.title if self.title and _FILE.match(self.title) else None

    @property
    def fate(self) -> str:
        if self.reason is not None:
            return "not run"
        if self.is_output:
            return "compared"
        return "run" if self.kind in RUN else "read" if self.kind in READ else "shown"


class BadPage(Exception):
    """A page that cannot be run as it is written; says where and what to do."""


def pages(root: Path = ROOT) -> list[str]:
    """Every page a reader may follow: the README and all below docs."""
    found = [root / "README.md", *sorted((root / "docs").rglob("*.md"))]
    return [str(path.relative_to(root)) for path in found]


def blocks(page: str, text: str) -> list[Block]:
    """In the order of the page; raises BadPage for a block without a known kind."""
    found: list[Block] = []
    lines = text.splitlines()
    number = last = 0
    reason: str | None = None
    while number < len(lines):
        line = lines[number]
        fence = _FENCE.match(line)
        if fence is None:
            if reason is not None and line.strip():
                raise BadPage(f"{page}:{number}: a reason for not running stands directly above the fence")
            said = _NOT_RUN.match(line)
            if said is not None:
                reason = said[1]
                if not reason:
                    raise BadPage(f"{page}:{number + 1}: say why the block is not run")
            number += 1
            continue
        end = _end(lines, number, fence["fence"], page)
        follows = bool(found) and found[-1].kind == "python" and not "".join(lines[last:number]).strip()
        found.append(_block(page, number + 2, fence, lines[number + 1 : end], reason, follows=follows))
        reason = None
        number = last = end + 1
    if reason is not None:
        raise BadPage(f"{page}: a reason for not running without a block")
    return found


def _end(lines: list[str], start: int, fence: str, page: str) -> int:
    for number in range(start + 1, len(lines)):
        stripped = lines[number].strip()
        if stripped.startswith(fence) and not stripped.strip(fence[0]):
            return number
    raise BadPage(f"{page}:{start + 1}: the block never ends")


def _block(page: str, line: int, fence: re.Match[str], lines: list[str], reason: str | None, *, follows: bool) -> Block:
    kind = (fence["info"].split() or [""])[0]
    if kind not in RUN | READ | SHOWN:
        known = ", ".join(sorted(RUN | READ | SHOWN))
        raise BadPage(f"{page}:{line - 1}: a block of kind {kind!r}; known are {known}")
    indent = fence["indent"]
    title = _TITLE.search(fence["info"])
    text = "\n".join(each.removeprefix(indent) for each in lines) + "\n"
    named = title[1] if title else None
    is_output = kind == "text" and (named == OUTPUT or (follows and named is None))
    return Block(page, line, kind, text, named, reason, is_output)
