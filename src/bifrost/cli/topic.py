"""`bifrost topic`: make topics, look at them, change them, delete them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from bifrost.cli import completion, topic_data, topic_moves, topic_trim
from bifrost.cli.failure import fail
from bifrost.cli.options import (
    CONTEXT,
    TIMEOUT_S,
    Bootstrap,
    Cluster,
    CommandConfig,
    Json,
    Timeout,
    TopicOption,
    Yes,
    connect,
    parse_assignments,
    topic_meant,
    topics_meant,
)
from bifrost.cli.output import confirm, counted, plain, print_json, print_table
from bifrost.cli.patience import ANSWERS, DECIDES, hogo_lo
from bifrost.client.descriptions import TopicDescription
from bifrost.client.errors import UnknownTopicError

if TYPE_CHECKING:
    from bifrost.client.admin import Admin

app = typer.Typer(
    help="Make topics, look at them, change and delete them.", no_args_is_help=True, context_settings=CONTEXT
)

Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="NAME...", help="The topics.", autocompletion=completion.topics, show_default=False),
]
Name = Annotated[
    str | None, typer.Argument(metavar="NAME", help="The topic.", autocompletion=completion.topics, show_default=False)
]
Configs = Annotated[
    list[str] | None,
    typer.Option(
        "--config",
        metavar="NAME=VALUE",
        help="A setting, such as retention.ms=86400000; may be repeated.",
        autocompletion=completion.assignments,
        show_default=False,
    ),
]


@app.command()
def create(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME...", help="The topics.", show_default=False)
    ] = None,
    topic_options: TopicOption = None,
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", "-p", help="How many; without it, the cluster decides.", show_default=False),
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option("--replication-factor", "-r", help="Copies of each; the cluster decides.", show_default=False),
    ] = None,
    config: Configs = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="A topic that is there is fine.")] = False,
    bootstrap: Bootstrap = None,
    cluster: Cluster = None,
    command_config: CommandConfig = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Create topics.

    \b
    $ bifrost topic create orders
    $ bifrost topic create orders invoices -p 6 -r 3 --config retention.ms=86400000
    """
    wanted = topics_meant(names, topic_options)
    settings = parse_assignments(config or [], "--config", "retention.ms=86400000")
    rows: list[dict[str, Any]] = []
    with connect(bootstrap, cluster, timeout, command_config) as admin, hogo_lo(DECIDES, admin.bootstrap, timeout):
        try:
            for name in wanted:
                created = admin.create_topic(name, partitions, replication_factor, settings, exist_ok=if_not_exists)
                rows.append({"name": name, "created": created})
                if not as_json:
                    typer.echo(f"created {name}" if created else f"{name} is there already")
        finally:  # also when one in the middle is refused: a script must know which are there
            if as_json:
                print_json(rows)


@app.command("list")
def list_topics(
    pattern: Annotated[str, typer.Argument(help="Show only names that contain this.", show_default=False)] = "",
    internal: Annotated[bool, typer.Option("--internal", "-i", help="The brokers' own topics, too.")] = False,
    bootstrap: Bootstrap = None,
    cluster: Cluster = None,
    command_config: CommandConfig = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """List topics with their partitions and replicas.

    \b
    $ bifrost topic list
    $ bifrost topic list order --json
    """
    with connect(bootstrap, cluster, timeout, command_config) as admin, hogo_lo(ANSWERS, admin.bootstrap, timeout):
        found = [topic for topic in admin.topics(internal=internal) if pattern in topic.name]
    if as_json:
        print_json(found)
        return
    rows = [[topic.name, topic.partitions, topic.replication_factor] for topic in found]
    print_table(["topic", "partitions", "replicas"], rows)


@app.command()
def describe(
    names: Names = None,
    topic_options: TopicOption = None,
    bootstrap: Bootstrap = None,
    cluster: Cluster = None,
    command_config: CommandConfig = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Show the partitions of topics, where they are and what they hold, and the settings that were given.

    All topics, if none is named.

    \b
    $ bifrost topic describe orders
    $ bifrost topic describe orders --json | jq '.[0].partitions[] | .end_offset - .start_offset'
    """
    with connect(bootstrap, cluster, timeout, command_config) as admin, hogo_lo(ANSWERS, admin.bootstrap, timeout):
        wanted = [*(names or []), *(topic_options or [])]
        found, missing = _described(admin, wanted or [topic.name for topic in admin.topics()])
    if as_json:
        print_json([{**plain(topic), "config": settings} for topic, settings in found])
    else:
        for index, (topic, settings) in enumerate(found):
            if index:
                typer.echo()
            _show(topic, settings)
    if not wanted:
        return  # nobody asked for those that were deleted in the meantime
    if len(missing) > 1:
        raise UnknownTopicError(
            f"topics {', '.join(missing)} do not exist", "See which there are: `bifrost topic list`."
        )
    for error in missing.values():
        raise error


def _described(
    admin: Admin, names: list[str]
) -> tuple[list[tuple[TopicDescription, dict[str, str | None]]], dict[str, UnknownTopicError]]:
    """The topics that there are, and what is to be said of the others."""
    found, missing = [], {}
    for name in names:
        try:
            settings = {key: each.value for key, each in admin.configs(topic=name).items() if each.is_set}
            found.append((admin.topic(name), settings))
        except UnknownTopicError as error:
            missing[name] = error
    return found, missing


def _show(topic: TopicDescription, settings: dict[str, str | None]) -> None:
    head = f"{counted(len(topic.partitions), 'partition')}, replication factor {topic.replication_factor}"
    typer.echo(f"{typer.style(topic.name, bold=True)}  {head}")
    typer.echo(f"id {topic.id}" + ("  internal" if topic.internal else ""))
    for name, value in settings.items():
        typer.echo(f"{name}={value}")
    rows = []
    for each in topic.partitions:
        messages = None
        if each.start_offset is not None and each.end_offset is not None:
            messages = each.end_offset - each.start_offset
        places = [",".join(map(str, nodes)) for nodes in (each.replicas, each.isr)]
        rows.append([each.partition, each.leader, *places, each.start_offset, each.end_offset, messages])
    print_table(["partition", "leader", "replicas", "isr", "start", "end", "offsets"], rows)


@app.command()
def alter(
    name: Name = None,
    topic_options: TopicOption = None,
    config: Configs = None,
    delete_config: Annotated[
        list[str] | None,
        typer.Option(
            "--delete-config",
            metavar="NAME",
            help="A setting that gets its default back; may be repeated.",
            autocompletion=completion.topic_settings,
            show_default=False,
        ),
    ] = None,
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", "-p", help="How many it shall have, more than now.", show_default=False),
    ] = None,
    bootstrap: Bootstrap = None,
    cluster: Cluster = None,
    command_config: CommandConfig = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Change settings of a topic, or give it more partitions.

    \b
    $ bifrost topic alter orders --config retention.ms=3600000 --delete-config cleanup.policy
    $ bifrost topic alter orders --partitions 12
    """
    name = topic_meant(name, topic_options)
    settings = parse_assignments(config or [], "--config", "retention.ms=86400000")
    unset = delete_config or []
    if not settings and not unset and partitions is None:
        fail("nothing to alter", hint="Give --config, --delete-config or --partitions.", code=2)
    with connect(bootstrap, cluster, timeout, command_config) as admin, hogo_lo(DECIDES, admin.bootstrap, timeout):
        if unset:  # first, since a name that there is not changes nothing here
            admin.unset_configs(unset, topic=name)
        if settings:
            admin.set_configs(settings, topic=name)
        if partitions is not None:
            admin.add_partitions(name, partitions)
    if as_json:
        print_json({"name": name, "set": settings, "unset": unset, "partitions": partitions})
    else:
        typer.echo(f"altered {name}")


@app.command("add-partitions")
def add_partitions(
    name: Name = None,
    topic_options: TopicOption = None,
    partitions: Annotated[
        int | None, typer.Option("--partitions", "-p", help="How many it shall have.", show_default=False)
    ] = None,
    more: Annotated[
        int | None, typer.Option("--num", "-n", min=1, help="How many more it shall have.", show_default=False)
    ] = None,
    bootstrap: Bootstrap = None,
    cluster: Cluster = None,
    command_config: CommandConfig = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Give a topic more partitions. Messages stay where they are; new ones with the same key may go elsewhere.

    \b
    $ bifrost topic add-partitions orders --partitions 12
    $ bifrost topic add-partitions orders --num 3
    """
    name = topic_meant(name, topic_options)
    if (partitions is None) == (more is None):
        fail("how many partitions?", hint="Give --partitions for all, or --num for those that are added.", code=2)
    with connect(bootstrap, cluster, timeout, command_config) as admin, hogo_lo(DECIDES, admin.bootstrap, timeout):
        before = len(admin.topic(name).partitions)
        total = partitions if partitions is not None else before + (more or 0)
        admin.add_partitions(name, total)
    if as_json:
        print_json({"name": name, "partitions": total, "before": before})
    else:
        typer.echo(f"{name} has {counted(total, 'partition')} now, {total - before} more")


@app.command()
def delete(
    names: Names = None,
    topic_options: TopicOption = None,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="A topic that is not there is fine.")] = False,
    yes: Yes = False,
    bootstrap: Bootstrap = None,
    cluster: Cluster = None,
    command_config: CommandConfig = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Delete topics with everything in them. Asks first, unless nobody is there to answer.

    \b
    $ bifrost topic delete orders
    $ bifrost topic delete orders invoices --if-exists --yes
    """
    wanted = topics_meant(names, topic_options)
    rows: list[dict[str, Any]] = []
    with connect(bootstrap, cluster, timeout, command_config) as admin:
        confirm(f"Delete {', '.join(wanted)} at {admin.bootstrap} with all messages?", yes=yes)
        try:
            with hogo_lo(DECIDES, admin.bootstrap, timeout):
                for name in wanted:
                    deleted = admin.delete_topic(name, missing_ok=if_exists)
                    rows.append({"name": name, "deleted": deleted})
                    if not as_json:
                        typer.echo(f"deleted {name}" if deleted else f"{name} was not there")
        finally:
            if as_json:
                print_json(rows)


app.command()(topic_trim.trim)
app.command()(topic_data.dump)
app.command()(topic_data.load)
app.command()(topic_moves.reassign)
app.command()(topic_moves.elect)
