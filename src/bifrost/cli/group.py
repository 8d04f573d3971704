"""`bifrost group`: who reads, how far they are, and where they go on."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from bifrost.cli import completion
from bifrost.cli.group_reset import reset
from bifrost.cli.options import CONTEXT, TIMEOUT_S, Bootstrap, Cluster, CommandConfig, Json, Timeout, Yes, connect
from bifrost.cli.output import confirm, plain, print_json, print_table, remark
from bifrost.client.descriptions import GroupDescription, GroupMember, GroupOffset
from bifrost.types import TopicPartition

app = typer.Typer(
    help="Look at consumer groups, reset and delete them.", no_args_is_help=True, context_settings=CONTEXT
)
app.command("reset")(reset)

Names = Annotated[
    list[str],
    typer.Argument(metavar="NAME...", help="The groups.", autocompletion=completion.groups, show_default=False),
]
Name = Annotated[
    str, typer.Argument(metavar="NAME", help="The group.", autocompletion=completion.groups, show_default=False)
]


@app.command("list")
def list_groups(
    pattern: Annotated[str, typer.Argument(help="Show only names that contain this.", show_default=False)] = "",
    bootstrap: Bootstrap = None,
    cluster: Cluster = None,
    command_config: CommandConfig = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """List consumer groups with their state.

    \b
    $ bifrost group list
    $ bifrost group list --json | jq -r '.[] | select(.state == "Empty").name'
    """
    with connect(bootstrap, cluster, timeout, command_config) as admin:
        found = [group for group in admin.groups() if pattern in group.name]
    if as_json:
        print_json(found)
    else:
        print_table(["group", "state", "protocol"], [[group.name, group.state, group.protocol] for group in found])


@app.command()
def describe(
    names: Names,
    bootstrap: Bootstrap = None,
    cluster: Cluster = None,
    command_config: CommandConfig = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Show a group's state, its members, and how far it has come in each partition.

    \b
    $ bifrost group describe billing
    """
    with connect(bootstrap, cluster, timeout, command_config) as admin:
        found = [admin.group(name) for name in names]
    if as_json:
        print_json([{**plain(group), "offsets": _offsets(group), **_lag(group)} for group in found])
        return
    for index, group in enumerate(found):
        if index:
            typer.echo()
        _show_head(group)
        if group.members:
            typer.echo()
            _show_members(group.members)
        typer.echo()
        _show_lag(group)


@app.command()
def members(
    name: Name,
    bootstrap: Bootstrap = None,
    cluster: Cluster = None,
    command_config: CommandConfig = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Show who is in a group, from which address, and the partitions that each of them owns.

    \b
    $ bifrost group members billing
    """
    with connect(bootstrap, cluster, timeout, command_config) as admin:
        group = admin.group(name)
    if as_json:
        print_json(group.members)
    else:
        _show_members(group.members)
    if not group.members:
        remark(f"group {name} has no members (it is {group.state})")


@app.command()
def lag(
    name: Name,
    bootstrap: Bootstrap = None,
    cluster: Cluster = None,
    command_config: CommandConfig = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Show how many messages a group has still to read, by partition and in all.

    \b
    $ bifrost group lag billing
    $ bifrost group lag billing --json | jq .lag
    """
    with connect(bootstrap, cluster, timeout, command_config) as admin:
        group = admin.group(name)
    if as_json:
        print_json({"name": group.name, **_lag(group), "offsets": _offsets(group)})
    else:
        _show_lag(group)
        typer.echo(_lag_text(group))


@app.command()
def delete(
    names: Names,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="A group that is not there is fine.")] = False,
    yes: Yes = False,
    bootstrap: Bootstrap = None,
    cluster: Cluster = None,
    command_config: CommandConfig = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Delete groups with the offsets that they have committed. Asks first, unless nobody is there to answer.

    \b
    $ bifrost group delete billing
    """
    rows: list[dict[str, Any]] = []
    with connect(bootstrap, cluster, timeout, command_config) as admin:
        confirm(f"Delete {', '.join(names)} at {admin.bootstrap} with the committed offsets?", yes=yes)
        try:
            for name in names:
                deleted = admin.delete_group(name, missing_ok=if_exists)
                rows.append({"name": name, "deleted": deleted})
                if not as_json:
                    typer.echo(f"deleted {name}" if deleted else f"{name} was not there")
        finally:  # also when one in the middle is refused: a script must know which are gone
            if as_json:
                print_json(rows)


def _offsets(group: GroupDescription) -> list[dict[str, Any]]:
    return [{**plain(each), "lag": each.lag} for each in group.offsets]


def _lag(group: GroupDescription) -> dict[str, Any]:
    return {"lag": group.lag, "partitions_without_lag": group.untold}


def _lag_text(group: GroupDescription) -> str:
    left_out = f" without {group.untold} partition{'s' * (group.untold > 1)} in which nothing is committed"
    return f"lag {'-' if group.lag is None else group.lag}{left_out if group.untold else ''}"


def _show_head(group: GroupDescription) -> None:
    facts = [group.state, f"{group.protocol} protocol"]
    if group.assignor:
        facts.append(f"assignor {group.assignor}")
    if group.coordinator is not None:
        facts.append(f"coordinator {group.coordinator}")
    typer.echo(f"{typer.style(group.name, bold=True)}  {', '.join(facts)}, {_lag_text(group)}")


def _show_members(found: tuple[GroupMember, ...]) -> None:
    rows = [[each.client_id, each.host, each.instance_id, _places(each.partitions), each.id] for each in found]
    print_table(["client", "host", "instance", "partitions", "member"], rows)


def _show_lag(group: GroupDescription) -> None:
    clients = {member.id: member.client_id for member in group.members}

    def row(each: GroupOffset) -> list[object]:
        owner = clients.get(each.member or "")
        return [each.topic, each.partition, each.committed, each.end, each.lag, owner]

    print_table(["topic", "partition", "committed", "end", "lag", "client"], [row(each) for each in group.offsets])


def _places(places: tuple[TopicPartition, ...]) -> str | None:
    """`orders:0,1 invoices:2`, the form that `group reset --topic` takes."""
    by_topic: dict[str, list[str]] = {}
    for place in places:
        by_topic.setdefault(place.topic, []).append(str(place.partition))
    return " ".join(f"{topic}:{','.join(listed)}" for topic, listed in by_topic.items()) or None
