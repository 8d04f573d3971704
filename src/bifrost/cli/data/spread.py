"""Options of Kafka's tools that take several values after one name, `--producer-props acks=1 linger.ms=5`, or none."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from typer.core import TyperCommand

_MANY = ("--producer-props", "--command-property")


def spread(arguments: Sequence[str], options: Collection[str]) -> list[str]:
    """The same with the name before each value. What has no equals sign is not such a value."""
    found: list[str] = []
    option: str | None = None
    for argument in arguments:
        if argument.startswith("-"):
            option = argument if argument in options else None
        elif option is not None and "=" in argument and found[-1] != option:
            found.append(option)
        found.append(argument)
    return found


def filled(arguments: Sequence[str], option: str, value: str) -> list[str]:
    """The same with the value that the option has when none comes after it."""
    found: list[str] = []
    for argument, following in zip(arguments, [*arguments[1:], "-"]):
        found.append(argument)
        if argument == option and following.startswith("-"):
            found.append(value)
    return found


class SpreadCommand(TyperCommand):
    """A command with such options."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, spread(args, _MANY))
