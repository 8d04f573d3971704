"""The options that commands share, so that one name means one thing everywhere.

Which cluster is meant is decided by `bifrost.client.clusters`, which also reads the environment: the options here only
pass on what was typed, since a typed `--cluster` must win over an address in the environment.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bifrost.cli import completion
from bifrost.cli.failure import fail

if TYPE_CHECKING:
    from bifrost.client.admin import Admin
    from bifrost.client.wire.client import WireClient

CLUSTER_PANEL = "Cluster"


def _seconds(typed: str | float) -> float:
    """What `--timeout` means; its default is a number already."""
    from bifrost.cli.data.times import TimeError, parse_timeout

    if not isinstance(typed, str):
        return typed
    try:
        return parse_timeout(typed) / 1000
    except TimeError as error:
        raise typer.BadParameter(str(error)) from None


Bootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        "-b",
        metavar="ADDRESS",
        help="host:port, or several with commas. Else BIFROST_BOOTSTRAP, the configured default, localhost:9092.",
        rich_help_panel=CLUSTER_PANEL,
        show_default=False,
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        "-c",
        metavar="NAME",
        help="One that the configuration file names. Else BIFROST_CLUSTER.",
        rich_help_panel=CLUSTER_PANEL,
        show_default=False,
        autocompletion=completion.clusters,
    ),
]
CommandConfig = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        metavar="FILE",
        help="Instead: a file with properties of a Kafka client.",
        rich_help_panel=CLUSTER_PANEL,
        show_default=False,
    ),
]
TopicOption = Annotated[
    list[str] | None,
    typer.Option("--topic", hidden=True, autocompletion=completion.topics),  # as Kafka's tools want it
]
Timeout = Annotated[
    float,
    typer.Option(
        "--timeout",
        metavar="DURATION",
        parser=_seconds,
        help="How long an answer may take: 500ms, 5s, 1m; a number alone is seconds.",
        rich_help_panel=CLUSTER_PANEL,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before something is destroyed.")]
TIMEOUT_S = 15.0

# Kafka's own tools call it so; a second name in the help would only take the room of what it means.
_ALSO_KNOWN_AS = {"bootstrap-server": "bootstrap"}
CONTEXT = {"token_normalize_func": lambda name: _ALSO_KNOWN_AS.get(name, name)}
"""Context settings of nouns with `Bootstrap`."""


def connect(bootstrap: str | None, cluster: str | None, timeout: float, command_config: Path | None = None) -> Admin:
    """The admin for what was typed."""
    from bifrost.client.admin import Admin

    if command_config is None:
        return Admin(bootstrap, cluster=cluster, timeout_s=timeout)
    from bifrost.cli.data.typed import from_file

    address, settings = from_file(command_config, bootstrap, cluster)
    return Admin(address, timeout_s=timeout, config=settings)


def connect_wire(
    bootstrap: str | None, cluster: str | None, timeout: float, command_config: Path | None = None
) -> WireClient:
    """The same, for what librdkafka cannot ask."""
    from bifrost.client.clusters import resolve
    from bifrost.client.wire.client import WireClient

    if command_config is None:
        meant = resolve(bootstrap, cluster=cluster)
        address, settings = meant.bootstrap, dict(meant.config)
    else:
        from bifrost.cli.data.typed import from_file

        address, settings = from_file(command_config, bootstrap, cluster)
    limits = ("request.timeout.ms", "default.api.timeout.ms", "socket.connection.setup.timeout.ms")
    return WireClient(address, {**settings, **dict.fromkeys(limits, max(1, int(timeout * 1000)))})


def topics_meant(arguments: Sequence[str] | None, options: Sequence[str] | None) -> list[str]:
    """Those that were named in either way."""
    names = [*(arguments or []), *(options or [])]
    if not names:
        fail("no topic was named", hint="Name it behind the command, as in `bifrost topic create orders`.", code=2)
    return names


def topic_meant(argument: str | None, options: Sequence[str] | None) -> str:
    """The one that was named in either way."""
    names = topics_meant([argument] if argument else [], options)
    if len(names) > 1:
        fail(f"one topic at a time, not {' and '.join(names)}", code=2)
    return names[0]


def parse_assignments(assignments: Iterable[str], option: str, example: str) -> dict[str, str]:
    """Repeated `NAME=VALUE` as a mapping."""
    named: dict[str, str] = {}
    for assignment in assignments:
        name, separator, value = assignment.partition("=")
        if not separator or not name.strip():
            fail(f"{option} takes NAME=VALUE, such as {example}, not {assignment!r}", code=2)
        named[name.strip()] = value.strip()
    return named
