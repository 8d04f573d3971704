"""Nouns of the command line that are imported when they are asked for, so that `bifrost --help` imports none of them.

A noun is one line in a table: where its code is and what the front page says of it. The front page and the completion
of its name are answered from the table alone. A noun's own help never is: its module says more, and is loaded for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption
from typer.main import get_command, get_group

from bifrost.cli.failure import told

_TYPED = "bifrost.typed"


class Noun(NamedTuple):
    """A command or a group of commands: `attribute` of `module` is a function or a `typer.Typer`.

    The class of a function's command is `COMMAND` of the module, if it has one.
    """

    module: str
    attribute: str
    summary: str
    panel: str


class LazyGroup(TyperGroup):
    """The root command; `nouns` is its table, in the order of the front page."""

    nouns: ClassVar[Mapping[str, Noun]] = {}

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, noun in self.nouns.items():
            self.add_command(TyperCommand(name, help=noun.summary, rich_help_panel=noun.panel), name)

    def load(self, name: str) -> TyperCommand | TyperGroup:
        """The noun's real command."""
        noun = self.nouns[name]
        found = getattr(import_module(noun.module), noun.attribute)
        holder = typer.Typer(add_completion=False, rich_markup_mode=self.rich_markup_mode)
        if isinstance(found, typer.Typer):
            holder.add_typer(found, name=name)
            loaded: Any = get_group(holder).commands[name]
        else:
            from bifrost.cli.options import CONTEXT

            kind = getattr(import_module(noun.module), "COMMAND", TyperCommand)
            holder.command(name, cls=kind, context_settings=CONTEXT)(found)
            loaded = get_command(holder)
        assert isinstance(loaded, TyperCommand | TyperGroup)
        return loaded

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Runs the real command in place of the one that only knows what the table says. Completion comes here, too."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, self.load(name) if name is not None and name in self.nouns else command, rest

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002  # typer's, who writes help at once, too
        from bifrost.cli.front_page import print_front_page

        options = [
            (", ".join(option.opts), option.help or "")
            for option in self.get_params(ctx)
            if isinstance(option, TyperOption) and not option.hidden
        ]
        panels: dict[str, list[tuple[str, str]]] = {}
        for name, noun in self.nouns.items():
            panels.setdefault(noun.panel, []).append((name, noun.summary))
        print_front_page(self.get_usage(ctx), self.help or "", options, panels, self.epilog or "")

    def make_context(self, info_name: Any, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Reads the options before the noun."""
        typed = tuple(args)
        with told(debug="--debug" in args, command=lambda: self._path(())):
            ctx = super().make_context(info_name, args, parent, **extra)
        ctx.meta[_TYPED] = typed
        return ctx

    def invoke(self, ctx: Any) -> Any:
        with told(debug=ctx.params["debug"], command=lambda: self._path(ctx.meta[_TYPED])):
            return super().invoke(ctx)

    def _path(self, typed: Sequence[str]) -> str:
        """The command in what was typed: noun and verb."""
        words = [word for word in typed if not word.startswith("-")]
        path = [self.name or ""]
        if words and words[0] in self.nouns:
            path.append(words[0])
            verbs = getattr(self.load(words[0]), "commands", {})
            path += [word for word in words[1:2] if word in verbs]
        return " ".join(path)
