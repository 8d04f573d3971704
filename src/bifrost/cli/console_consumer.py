"""`bifrost console-consumer`: the options of `kafka-console-consumer`, as people type them from memory.

Decides nothing of its own: options become a plan and a format, and `bifrost.cli.data.printing` does the rest. It
differs from Kafka's in that it joins a group only if one is named or a pattern given, and so starts at once.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bifrost.cli import completion
from bifrost.cli.options import Bootstrap, Cluster

if TYPE_CHECKING:
    from bifrost.cli.data.formats import Format
    from bifrost.cli.data.reader import Plan

_AS_DEFAULT = {"DefaultMessageFormatter", "LoggingMessageFormatter"}  # the latter writes a log besides
_INSTEAD = {
    "OffsetsMessageFormatter": "`bifrost group describe` shows what a group has committed.",
    "GroupMetadataMessageFormatter": "`bifrost group describe` shows a group and its members.",
}


TopicOption = Annotated[
    str | None, typer.Option("--topic", "-t", help="The topic to read.", autocompletion=completion.topics)
]
IncludeOption = Annotated[
    str | None,
    typer.Option("--include", "--whitelist", metavar="REGEX", help="Read every topic whose name matches."),
]
FromBeginningOption = Annotated[
    bool, typer.Option("--from-beginning", help="Start with the oldest message, unless the group has read before.")
]
GroupOption = Annotated[str | None, typer.Option("--group", help="The group to read for.")]
PartitionOption = Annotated[int | None, typer.Option("--partition", min=0, help="The only partition to read.")]
OffsetOption = Annotated[str | None, typer.Option("--offset", help="With --partition: earliest, latest or a number.")]
MaxMessagesOption = Annotated[int | None, typer.Option("--max-messages", help="Stop after so many.")]
TimeoutMsOption = Annotated[int | None, typer.Option("--timeout-ms", help="Stop when none came for so long.")]
PropertiesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--formatter-property",
        "--property",
        metavar="NAME=VALUE",
        help="print.key, print.timestamp, print.partition, print.offset, print.headers, key.separator …",
    ),
]
FormatterConfigOption = Annotated[
    Path | None, typer.Option("--formatter-config", help="A file with properties of the formatter.")
]
FormatterOption = Annotated[
    str,
    typer.Option("--formatter", help="Kafka's class: Default-, Logging- or NoOpMessageFormatter.", show_default=False),
]
KeyDeserializerOption = Annotated[
    str | None,
    typer.Option("--key-deserializer", metavar="CLASS", help="One of Kafka's, such as LongDeserializer."),
]
ValueDeserializerOption = Annotated[
    str | None, typer.Option("--value-deserializer", metavar="CLASS", help="The same for values.")
]
ConsumerPropertiesOption = Annotated[
    list[str] | None,
    typer.Option("--command-property", "--consumer-property", metavar="NAME=VALUE", help="Of the consumer."),
]
ConsumerConfigOption = Annotated[
    Path | None,
    typer.Option("--command-config", "--consumer.config", help="A file with properties of the consumer."),
]
IsolationLevelOption = Annotated[
    str | None, typer.Option("--isolation-level", help="read_committed or read_uncommitted.")
]
SkipMessageOnErrorOption = Annotated[bool, typer.Option("--skip-message-on-error", help="Skip what cannot be shown.")]
SystestOption = Annotated[bool, typer.Option("--enable-systest-events", hidden=True)]
BrokerListOption = Annotated[str | None, typer.Option("--broker-list", hidden=True)]


def console_consumer(
    topic: TopicOption = None,
    include: IncludeOption = None,
    from_beginning: FromBeginningOption = False,
    group: GroupOption = None,
    partition: PartitionOption = None,
    offset: OffsetOption = None,
    max_messages: MaxMessagesOption = None,
    timeout_ms: TimeoutMsOption = None,
    properties: PropertiesOption = None,
    formatter_config: FormatterConfigOption = None,
    formatter: FormatterOption = "DefaultMessageFormatter",
    key_deserializer: KeyDeserializerOption = None,
    value_deserializer: ValueDeserializerOption = None,
    consumer_properties: ConsumerPropertiesOption = None,
    consumer_config: ConsumerConfigOption = None,
    isolation_level: IsolationLevelOption = None,
    skip_message_on_error: SkipMessageOnErrorOption = False,
    systest: SystestOption = False,
    broker_list: BrokerListOption = None,
    bootstrap: Bootstrap = None,
    cluster: Cluster = None,
) -> None:
    """Print messages as Kafka's console consumer does, with its options.

    \b
    $ bifrost console-consumer --topic orders --from-beginning
    $ bifrost console-consumer --topic orders --property print.key=true
    $ bifrost console-consumer --topic orders --partition 0 --offset 5
    """
    from bifrost.cli.data.printing import Printer
    from bifrost.cli.data.properties import for_librdkafka, load, parse_assignments
    from bifrost.cli.data.reader import Reader
    from bifrost.cli.data.typed import connection, remark_on

    shown = {**load(formatter_config), **parse_assignments(properties or [], "--formatter-property")}
    classes = {"key.deserializer": key_deserializer, "value.deserializer": value_deserializer}
    render = _format(formatter, {name: text for name, text in classes.items() if text} | shown)
    given = {
        "client.id": "console-consumer",
        "isolation.level": "read_uncommitted",
        **load(consumer_config),
        **parse_assignments(consumer_properties or [], "--consumer-property"),
    }
    if isolation_level is not None:
        given["isolation.level"] = isolation_level
    settings, left_out = for_librdkafka(given)
    remark_on(left_out)
    plan = _plan(topic, include, from_beginning, group, settings, partition, offset)
    cluster_meant = connection((bootstrap, broker_list), cluster, settings)
    silence_s = None if timeout_ms is None or timeout_ms < 0 else timeout_ms / 1000
    count = 0
    try:
        with Reader(cluster_meant, plan, settings) as reader:
            printer = Printer(reader, render, skip_errors=skip_message_on_error)
            try:
                limit = None if max_messages == -1 else max_messages
                outcome = printer.run(limit=limit, silence_s=silence_s)
            finally:
                count = printer.outcome.count
    finally:
        print(f"Processed a total of {count} messages", file=sys.stderr)
        if systest:
            print("shutdown_complete", flush=True)
    if outcome.exit_code:
        raise typer.Exit(outcome.exit_code)


def _format(formatter: str, properties: dict[str, str]) -> Format:
    from bifrost.cli.data.console_format import console_format
    from bifrost.cli.data.formats import guarded
    from bifrost.client.errors import UnsupportedError

    name = formatter.rpartition(".")[2]
    if name == "NoOpMessageFormatter":
        return lambda _: b""
    if name not in _AS_DEFAULT:
        hint = _INSTEAD.get(name, "`bifrost consume --format` has json, hex and templates.")
        raise UnsupportedError(f"the formatter {formatter} is a Java class that cannot be run here", hint)
    return guarded(console_format(properties), advice="choose another deserializer, or --skip-message-on-error")


def _plan(
    topic: str | None,
    include: str | None,
    from_beginning: bool,
    group: str | None,
    settings: dict[str, str],
    partition: int | None,
    offset: str | None,
) -> Plan:
    """The combinations that Kafka's tool refuses are refused. Takes what it uses out of settings."""
    from bifrost.cli.data import typed
    from bifrost.cli.data.reader import EARLIEST, LATEST, Plan
    from bifrost.client.errors import ConfigError

    if (topic is None) == (include is None):
        raise ConfigError("exactly one of --topic and --include is needed")
    groups = {name for name in (group, settings.pop("group.id", None)) if name}
    if len(groups) > 1:
        raise ConfigError(f"--group and group.id name different groups: {', '.join(sorted(groups))}")
    if partition is not None and topic is None:
        raise ConfigError("--partition needs --topic")
    if partition is not None and groups:
        raise ConfigError("--group and --partition contradict each other", "A group decides itself who reads what.")
    if offset is not None and (partition is None or from_beginning):
        other = (
            "is for one partition: add --partition"
            if partition is None
            else "and --from-beginning contradict each other"
        )
        raise ConfigError(f"--offset {other}")
    reset = settings.pop("auto.offset.reset", EARLIEST if from_beginning else LATEST)
    if from_beginning and reset != EARLIEST:
        raise ConfigError(f"--from-beginning and auto.offset.reset={reset} contradict each other")
    name = groups.pop() if groups else None
    if name is None and include is not None:  # only a group learns of topics that are made later
        name = f"console-consumer-{random.randrange(100_000)}"
        settings.setdefault("enable.auto.commit", "false")
    return Plan(
        topics=[] if topic is None else [topic],
        pattern=include,
        group=name,
        partitions=[] if partition is None else [partition],
        start=reset if offset is None else typed.offset(offset, relative=False),
    )
