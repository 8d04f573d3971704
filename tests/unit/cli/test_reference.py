"""The reference of the command line, and that what it tells people to type can be typed."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_group

from bifrost.cli.lazy import LazyGroup
from bifrost.cli.main import Bifrost, app
from bifrost.cli.reference import examples, render_markdown


def all_examples() -> Iterator[str]:
    def below(command: Any) -> Iterator[str]:
        yield from examples(command)
        for each in getattr(command, "commands", {}).values():
            yield from below(each)

    root = get_group(app)
    assert isinstance(root, LazyGroup)
    for name in root.nouns:
        yield from below(root.load(name))


@pytest.mark.parametrize("line", list(all_examples()))
def test_every_example_can_be_typed(line: str) -> None:
    """Parsed by the command that it is for, and by nothing more: its topics do not exist."""
    words = shlex.split(line, posix=True)
    (start,) = [index for index, word in enumerate(words) if word == "bifrost"][:1]
    words = words[start + 1 :]
    for end in ("|", ">", "&&", "<", "&"):
        words = words[: words.index(end)] if end in words else words
    command: Any = get_group(app)
    context = command.make_context("bifrost", list(words))
    while hasattr(command, "commands"):
        name, command, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        context = command.make_context(name, rest, parent=context)


def test_every_noun_is_in_the_reference() -> None:
    page = render_markdown()
    for name in Bifrost.nouns:
        assert f"\n## bifrost {name}\n" in page
    assert "\n### bifrost group reset\n" in page
    assert "`--by-duration` `DURATION`" in page


def test_options_that_commands_share_are_explained_once() -> None:
    assert render_markdown().count("`--bootstrap`, `-b` `ADDRESS`") == 1
