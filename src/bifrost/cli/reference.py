"""The reference of the command line, `docs/cli.md`, made from what the commands themselves say in `--help`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from typer.core import TyperGroup
from typer.main import get_group

from bifrost.cli.lazy import LazyGroup
from bifrost.cli.main import app
from bifrost.cli.options import CLUSTER_PANEL

_EXAMPLES = "\b"  # opens a paragraph of help whose lines stay as they are
_INTRODUCTION = """\
# The command line

Made by `make docs` from the commands themselves; `--help` behind any of them says the same.

An error is one line, and often a second that says what to do. The exit code is 0 when all went well, 1 when something
could not be done, 2 when what was typed makes no sense, and 130 after Ctrl-C; `bifrost --debug` shows the traceback.

With `--json`, a command prints one JSON document on stdout, whose names stay as they are. Remarks, questions and errors
go to stderr.

`bifrost --install-completion` teaches your shell to complete commands, options, and the names of topics and groups.
"""
_CLUSTER = """\
## The cluster

Commands that talk to a cluster work with Bifrost and Apache Kafka alike. They share these options:
"""


def render_markdown() -> str:
    """`docs/cli.md`."""
    root = get_group(app)
    assert isinstance(root, LazyGroup)
    nouns = {name: root.load(name) for name in root.nouns}
    shared = {
        param.name: param for command in _commands(nouns.values()) for param in command.params if _is_shared(param)
    }
    parts = [_INTRODUCTION, _CLUSTER, *_table((_option(param), _meaning(param)) for param in shared.values())]
    for name, command in nouns.items():
        parts.extend(_sections(f"bifrost {name}", command, level=2))
    return "\n".join(parts)


def examples(command: Any) -> list[str]:
    """The lines of a command's examples, without the prompt."""
    return [
        line.removeprefix("$ ") for text in _paragraphs(command) if text.startswith(_EXAMPLES) for line in _lines(text)
    ]


def _sections(path: str, command: Any, level: int) -> Iterator[str]:
    yield f"{'#' * level} {path}\n"
    yield from _texts(command)
    if isinstance(command, TyperGroup):
        for name, each in command.commands.items():
            yield from _sections(f"{path} {name}", each, level + 1)
        return
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    options = [param for param in command.params if param.param_type_name == "option" and not param.hidden]
    own = [param for param in options if not _is_shared(param)]
    usage = " ".join([path, *(["[OPTIONS]"] if options else []), *map(_argument, arguments)])
    yield f"Usage: `{usage}`\n"
    rows = [(f"`{_argument(param)}`", _meaning(param)) for param in arguments]
    rows += [(_option(param), _meaning(param)) for param in own]
    if len(own) < len(options):
        rows.append(("[the cluster](#the-cluster)", "Where it is, and how long an answer may take."))
    yield from _table(rows)


def _table(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    written = [f"| {name} | {meaning} |\n" for name, meaning in rows]
    if written:
        yield "| | |\n|---|---|"
        yield "".join(written)


def _commands(roots: Iterable[Any]) -> Iterator[Any]:
    for command in roots:
        yield command
        yield from _commands(getattr(command, "commands", {}).values())


def _is_shared(param: Any) -> bool:
    return getattr(param, "rich_help_panel", None) == CLUSTER_PANEL


def _texts(command: Any) -> Iterator[str]:
    for text in _paragraphs(command):
        if text.startswith(_EXAMPLES):
            yield "\n".join(["```text", *_lines(text), "```\n"])
        else:
            yield " ".join(text.split()) + "\n"


def _paragraphs(command: Any) -> list[str]:
    return [text for text in (command.help or "").split("\n\n") if text.strip()]


def _lines(text: str) -> list[str]:
    return text.removeprefix(_EXAMPLES).strip("\n").splitlines()


def _argument(param: Any) -> str:
    name = param.metavar or param.name.upper()
    return name if param.required else f"[{name}]"


def _option(param: Any) -> str:
    names = ", ".join(f"`{name}`" for name in [*param.opts, *param.secondary_opts])
    if param.is_flag:
        return names
    return f"{names} `{param.metavar or param.type.name.removesuffix(' range').upper()}`"


def _meaning(param: Any) -> str:
    text = (param.help or "").replace("|", "\\|")
    if param.show_default and param.default not in (None, False, "", ()):
        text += f" Default: `{param.default}`."
    return text.strip()
