"""`bifrost quota`: what clients may use of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from bifrost.cli.failure import fail
from bifrost.cli.options import (
    CONTEXT,
    TIMEOUT_S,
    Bootstrap,
    Cluster,
    CommandConfig,
    Json,
    Timeout,
    connect_wire,
    parse_assignments,
)
from bifrost.cli.output import print_json, print_table, remark
from bifrost.cli.patience import DECIDES, hogo_lo

if TYPE_CHECKING:
    from bifrost.client.wire.quota_admin import Quota

app = typer.Typer(help="Limit what clients may use of a cluster.", no_args_is_help=True, context_settings=CONTEXT)

User = Annotated[
    str | None, typer.Option("--user", metavar="NAME", help="Who is authenticated so.", show_default=False)
]
ClientId = Annotated[
    str | None,
    typer.Option("--client-id", metavar="NAME", help="Who calls itself so (`client.id`).", show_default=False),
]
Ip = Annotated[
    str | None, typer.Option("--ip", metavar="ADDRESS", help="Whoever connects from there.", show_default=False)
]
Default = Annotated[
    list[str] | None,
    typer.Option(
        "--default",
        metavar="TYPE",
        help="Instead of a name: every `user`, `client-id` or `ip` without a limit under its own name.",
        show_default=False,
    ),
]
_TYPES = ("user", "client-id", "ip")
_EXAMPLE = "producer_byte_rate=1048576"


@app.command("list")
def list_(
    user: User = None,
    client_id: ClientId = None,
    ip: Ip = None,
    default: Default = None,
    strict: Annotated[bool, typer.Option("--strict", help="Only those that have no further names.")] = False,
    bootstrap: Bootstrap = None,
    cluster: Cluster = None,
    command_config: CommandConfig = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Show who is limited to what: all limits, or those with the names that are given.

    \b
    $ bifrost quota list
    $ bifrost quota list --client-id reports --json
    $ bifrost quota list --default user
    """
    names = _names(user, client_id, ip, default)
    with connect_wire(bootstrap, cluster, timeout, command_config) as client:
        found = client.quotas.list(names, strict=strict)
    if as_json:
        print_json(found)
        return
    rows = [[who(quota.entity), key, _number(value)] for quota in found for key, value in quota.limits.items()]
    print_table(["who", "limit", "value"], rows)
    if not rows:
        remark("nobody is limited" if not names else "no limit has these names")


@app.command("set")
def set_(
    assignments: Annotated[
        list[str], typer.Argument(metavar="LIMIT=NUMBER...", help="What to set.", show_default=False)
    ],
    user: User = None,
    client_id: ClientId = None,
    ip: Ip = None,
    default: Default = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say whether the cluster would take it.")] = False,
    bootstrap: Bootstrap = None,
    cluster: Cluster = None,
    command_config: CommandConfig = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Limit clients; other limits of theirs stay.

    Of a user, a client id, or a client id of a user: producer_byte_rate and consumer_byte_rate in bytes a second,
    request_percentage of a broker's time, controller_mutation_rate in partitions created and deleted a second. Of an
    ip: connection_creation_rate in connections a second. Each broker counts for itself. Whoever uses more is told to
    wait, and not served meanwhile.

    \b
    $ bifrost quota set producer_byte_rate=1048576 --client-id reports
    $ bifrost quota set consumer_byte_rate=10485760 request_percentage=50 --default client-id
    $ bifrost quota set connection_creation_rate=20 --default ip
    """
    names = _entity(user, client_id, ip, default)
    limits = {key: _parse(key, text) for key, text in parse_assignments(assignments, "quota set", _EXAMPLE).items()}
    client = connect_wire(bootstrap, cluster, timeout, command_config)
    with client, hogo_lo(DECIDES, client.bootstrap, timeout):
        client.quotas.alter(names, limits, validate_only=dry_run)
    if as_json:
        print_json({"entity": names, "set": limits})
    else:
        for key, value in limits.items():
            typer.echo(f"{who(names)}: {key}={_number(value)}" + (" (not set: --dry-run)" if dry_run else ""))


@app.command("delete")
def delete(
    keys: Annotated[
        list[str] | None,
        typer.Argument(metavar="LIMIT...", help="Which; all that these clients have.", show_default=False),
    ] = None,
    user: User = None,
    client_id: ClientId = None,
    ip: Ip = None,
    default: Default = None,
    bootstrap: Bootstrap = None,
    cluster: Cluster = None,
    command_config: CommandConfig = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Take limits away.

    \b
    $ bifrost quota delete --client-id reports
    $ bifrost quota delete producer_byte_rate --user alice --default client-id
    """
    names = _entity(user, client_id, ip, default)
    client = connect_wire(bootstrap, cluster, timeout, command_config)
    with client, hogo_lo(DECIDES, client.bootstrap, timeout):
        found: list[Quota] = client.quotas.list(names, strict=True)
        present = [key for quota in found for key in quota.limits]
        missing = [key for key in keys or [] if key not in present]
        if missing or not present:
            fail(f"{who(names)} has no limit {missing[0] if missing else ''}".rstrip(), hint=_has(present), code=1)
        gone = keys or present
        client.quotas.alter(names, dict.fromkeys(gone))
    if as_json:
        print_json({"entity": names, "deleted": gone})
    else:
        for key in gone:
            typer.echo(f"{who(names)}: {key} is not limited any more")


def who(names: dict[str, str | None]) -> str:
    """An entity in words, the user first."""
    return ", ".join(f"{kind} {_DEFAULT if names[kind] is None else names[kind]}" for kind in _TYPES if kind in names)


_DEFAULT = "<default>"


def _names(user: str | None, client_id: str | None, ip: str | None, default: list[str] | None) -> dict[str, str | None]:
    names: dict[str, str | None] = {kind: name for kind, name in zip(_TYPES, (user, client_id, ip)) if name is not None}
    for kind in default or []:
        if kind not in _TYPES:
            fail(f"--default takes {', '.join(_TYPES[:-1])} or {_TYPES[-1]}, not {kind!r}", code=2)
        if kind in names:
            fail(f"the {kind} is given by its name and as the default", hint="Give one of them.", code=2)
        names[kind] = None
    return names


def _entity(
    user: str | None, client_id: str | None, ip: str | None, default: list[str] | None
) -> dict[str, str | None]:
    names = _names(user, client_id, ip, default)
    if not names:
        fail("whose limits?", hint="Give --user, --client-id or --ip with a name, or --default TYPE.", code=2)
    return names


def _parse(key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        fail(f"{key} takes a number, not {text!r}", code=2)


def _has(present: list[str]) -> str:
    return f"It has: {', '.join(present)}." if present else "`bifrost quota list` shows who has."


def _number(value: float) -> str:
    """All digits: a rate is not rounded."""
    return str(int(value)) if value.is_integer() else repr(value)
