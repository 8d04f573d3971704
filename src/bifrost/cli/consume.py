"""`bifrost consume`: messages of topics on stdout, in the format that is wanted."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from bifrost.cli import completion
from bifrost.cli.options import Bootstrap, Cluster, CommandConfig, TopicOption, topics_meant
from bifrost.cli.patience import hogo_lo

if TYPE_CHECKING:
    from bifrost.cli.data.formats import Format
    from bifrost.cli.data.reader import Plan

_START = "Where to start"
_END = "When to stop"
_LOOK = "How messages look"


TopicsArgument = Annotated[
    list[str] | None, typer.Argument(metavar="TOPIC...", help="The topics.", autocompletion=completion.topics)
]
FromBeginningOption = Annotated[
    bool, typer.Option("--from-beginning", help="Start with the oldest message.", rich_help_panel=_START)
]
OffsetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--offset",
        "-o",
        metavar="OFFSET",
        rich_help_panel=_START,
        help="earliest, latest, an offset, or -N: the last N of each partition; s@MS and e@MS as in kcat.",
    ),
]
SinceOption = Annotated[
    str | None,
    typer.Option(
        "--since",
        metavar="MOMENT",
        rich_help_panel=_START,
        help="10m (ago), yesterday, 2026-05-01T12:00, milliseconds.",
    ),
]
PartitionsOption = Annotated[
    list[int] | None,
    typer.Option("--partition", "-p", min=0, help="Only this partition; repeatable.", rich_help_panel=_START),
]
GroupOption = Annotated[
    str | None,
    typer.Option(
        "--group",
        "-g",
        autocompletion=completion.groups,
        rich_help_panel=_START,
        help="Read as a member of this group and commit what was printed. Without it, nothing is committed.",
    ),
]
MaxMessagesOption = Annotated[
    int | None, typer.Option("--max-messages", "-n", min=1, help="Stop after so many.", rich_help_panel=_END)
]
FollowOption = Annotated[
    bool | None,
    typer.Option(
        "--follow/--no-follow",
        rich_help_panel=_END,
        show_default=False,
        help="Wait for more (the default), or stop at the end.",
    ),
]
ExitOption = Annotated[
    bool,
    typer.Option("--exit", "-e", rich_help_panel=_END, help="The same as --no-follow."),
]
UntilOption = Annotated[
    str | None,
    typer.Option("--until", metavar="MOMENT", help="Stop at messages of this time.", rich_help_panel=_END),
]
TimeoutOption = Annotated[
    str | None,
    typer.Option(
        "--timeout",
        metavar="DURATION",
        help="Stop when none came for so long: 500ms, 5s, 5, 1m.",
        rich_help_panel=_END,
    ),
]
FormatOption = Annotated[
    str,
    typer.Option(
        "--format",
        "-f",
        metavar="FORMAT",
        rich_help_panel=_LOOK,
        help=r"text, json, hex (a dump), or a template such as '%t %p %o %k %s\n'.",
    ),
]
KeySeparatorOption = Annotated[
    str | None,
    typer.Option("--key-separator", "-K", metavar="TEXT", help="Print keys, too.", rich_help_panel=_LOOK),
]
KeyFormatOption = Annotated[
    str, typer.Option("--key-format", metavar="SHAPE", help="As for values.", rich_help_panel=_LOOK)
]
ValueFormatOption = Annotated[
    str,
    typer.Option(
        "--value-format",
        metavar="SHAPE",
        rich_help_panel=_LOOK,
        help="What values are: text, json, hex, base64, int, float, uuid, bool.",
    ),
]
NullOption = Annotated[str, typer.Option("--null", metavar="TEXT", help="How null is printed.", rich_help_panel=_LOOK)]
AsJsonOption = Annotated[
    bool, typer.Option("--json", help="The same as --format json: one object per line.", rich_help_panel=_LOOK)
]
AssignmentsOption = Annotated[
    list[str] | None,
    typer.Option("--set", "-X", metavar="NAME=VALUE", help="A setting of librdkafka's consumer; repeatable."),
]


def consume(
    topics: TopicsArgument = None,
    topic_options: TopicOption = None,
    from_beginning: FromBeginningOption = False,
    offset: OffsetOption = None,
    since: SinceOption = None,
    partitions: PartitionsOption = None,
    group: GroupOption = None,
    max_messages: MaxMessagesOption = None,
    follow: FollowOption = None,
    ends: ExitOption = False,
    until: UntilOption = None,
    timeout: TimeoutOption = None,
    form: FormatOption = "text",
    key_separator: KeySeparatorOption = None,
    key_format: KeyFormatOption = "text",
    value_format: ValueFormatOption = "text",
    null: NullOption = "null",
    as_json: AsJsonOption = False,
    assignments: AssignmentsOption = None,
    bootstrap: Bootstrap = None,
    cluster: Cluster = None,
    command_config: CommandConfig = None,
) -> None:
    """Print the messages of topics.

    Starts with new messages and waits for more. With --no-follow (-e) it
    stops at the end and, unless told otherwise, starts at the beginning.

    \b
    $ bifrost consume orders --from-beginning
    $ bifrost consume orders -e --since 10m --json
    $ bifrost consume orders --offset -5 -n 15 --key-separator ' = '
    $ bifrost consume orders -e -f '%d %t-%p@%o %k: %s\\n'
    $ bifrost consume orders --group billing --from-beginning

    Template: %s value, %k key, %t topic, %p partition, %o offset,
    %T timestamp, %d date, %h headers, %S and %K lengths, %% percent.
    """
    from bifrost.cli.data.cluster import leaders_awaited
    from bifrost.cli.data.printing import Printer
    from bifrost.cli.data.properties import parse_assignments
    from bifrost.cli.data.reader import Reader
    from bifrost.cli.data.typed import kcat_offsets, reached, timeout_ms
    from bifrost.client.errors import TimedOutError

    settings = {"client.id": "bifrost-consume", **parse_assignments(assignments or [], "--set")}
    _refuse_contradictions(group, settings, ends=ends, follow=follow, as_json=as_json, form=form)
    silence_s = None if timeout is None else timeout_ms("--timeout", timeout) / 1000
    render = _format("json" if as_json else form, key_format, value_format, key_separator, null)
    start, since, until = kcat_offsets(offset or [], since, until)
    follows = False if ends else follow
    names = topics_meant(topics, topic_options)
    plan = _plan(names, from_beginning, start, since, partitions or [], group, follows, until)
    connection = reached(bootstrap, cluster, command_config)
    awaited = partial(leaders_awaited, connection, names)
    with hogo_lo(awaited, connection.bootstrap), Reader(connection, plan, settings) as reader:
        outcome = Printer(reader, render).run(limit=max_messages, silence_s=silence_s)
    if sys.stderr.isatty():
        from bifrost.cli.output import remark

        remark(f"{outcome.count:,} message{'' if outcome.count == 1 else 's'}")
    if outcome.exit_code:
        raise typer.Exit(outcome.exit_code)
    if outcome.timed_out and max_messages is not None:
        raise TimedOutError(f"only {outcome.count:,} of {max_messages:,} messages came", f"None came for {timeout}.")


def _refuse_contradictions(
    group: str | None, settings: Mapping[str, str], *, ends: bool, follow: bool | None, as_json: bool, form: str
) -> None:
    from bifrost.client.errors import ConfigError

    if ends and follow:
        raise ConfigError("--follow and --exit contradict each other", "Leave one of them out.")
    if as_json and form not in {"text", "json"}:
        raise ConfigError(f"--json and --format {form} contradict each other", "Leave one of them out.")
    named = settings.get("group.id", group)
    if named != group:
        problem = "group.id alone does not make a member of a group"
        if group is not None:
            problem = f"--group {group} and group.id={named} contradict each other"
        raise ConfigError(problem, "Name the group with --group.")


def _plan(
    topics: list[str],
    from_beginning: bool,
    offset: str | None,
    since: str | None,
    partitions: list[int],
    group: str | None,
    follow: bool | None,
    until: str | None,
) -> Plan:
    """ConfigError if the options contradict each other."""
    from bifrost.cli.data import typed
    from bifrost.cli.data.reader import EARLIEST, LATEST, Plan
    from bifrost.client.errors import ConfigError

    starts = {"--from-beginning": from_beginning, "--offset": offset is not None, "--since": since is not None}
    given = [name for name, is_given in starts.items() if is_given]
    if len(given) > 1:
        raise ConfigError(f"{' and '.join(given)} contradict each other", "Give one of them.")
    if group is not None:
        own = [name for name in ("--offset", "--since") if starts[name]]
        own += ["--partition"] * bool(partitions) + ["--until"] * (until is not None)
        if own:
            hint = "Read without a group, or move the group first: `bifrost group reset`."
            raise ConfigError(f"a group decides itself where its members read; {own[0]} cannot", hint)
    since_ms = None if since is None else typed.moment_ms("--since", since)
    until_ms = None if until is None else typed.moment_ms("--until", until)
    if since_ms is not None and until_ms is not None and since_ms >= until_ms:
        raise ConfigError("--since is not before --until")
    past = until_ms is not None and until_ms <= time.time() * 1000
    follows = not past if follow is None else follow and not past
    default = LATEST if follows and until is None else EARLIEST
    start = EARLIEST if from_beginning else default if offset is None else typed.offset(offset, relative=True)
    if group is not None and not from_beginning:
        start = LATEST if follows else EARLIEST
    return Plan(
        topics=topics,
        group=group,
        partitions=partitions,
        start=start,
        since_ms=since_ms,
        until_ms=until_ms,
        follow=follows,
    )


def _format(form: str, key_shape: str, value_shape: str, key_separator: str | None, null: str) -> Format:
    from bifrost.cli.data import formats
    from bifrost.cli.data.lines import LineError, unescape
    from bifrost.cli.data.shapes import SHAPES
    from bifrost.cli.data.template import TemplateError, template_format
    from bifrost.client.errors import ConfigError, nearest

    for option, shape in (("--key-format", key_shape), ("--value-format", value_shape)):
        if shape not in SHAPES:
            raise ConfigError(
                f"{option}: there is no {shape!r}", nearest(shape, SHAPES) or f"There are: {', '.join(SHAPES)}."
            )
    terminal = sys.stdout.isatty()
    key = formats.part(key_shape, null=null.encode(), terminal=terminal)
    value = formats.part(value_shape, null=null.encode(), terminal=terminal)
    try:
        if form == "json":
            render = formats.json_format(key=key_shape, value=value_shape)
        elif form == "hex":
            render = formats.hex_format
        elif form == "text":
            separator = None if key_separator is None else unescape(key_separator)
            render = formats.text_format(key_separator=separator, key=key, value=value)
        elif "%" in form:
            render = template_format(form, key=key, value=value)
        else:
            raise ConfigError(
                f"there is no format {form!r}", r"There are text, json, hex and templates such as '%k %s\n'."
            )
    except (TemplateError, LineError) as error:
        raise ConfigError(f"--format: {error}") from None
    return formats.guarded(render, advice="choose another --key-format or --value-format, such as hex")
