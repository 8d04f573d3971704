"""`bifrost produce`: lines of text or JSON into a topic, with an exact account of what became of them."""

from __future__ import annotations

import sys
import time
from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from bifrost.cli import completion
from bifrost.cli.options import Bootstrap, Cluster, CommandConfig, Json, TopicOption, topic_meant

if TYPE_CHECKING:
    from bifrost.cli.data.lines import Parse


class InputFormat(StrEnum):
    """What a line is."""

    TEXT = "text"
    JSON = "json"
    JSONL = "jsonl"
    HEX = "hex"
    RAW = "raw"


class Compression(StrEnum):
    """The codecs of Kafka."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class Acks(StrEnum):
    """Who has to have a record before it counts as sent."""

    ALL = "all"
    LEADER = "1"
    NOBODY = "0"


TopicArgument = Annotated[
    str | None,
    typer.Argument(metavar="TOPIC", help="The topic, which must exist.", autocompletion=completion.topics),
]
FileOption = Annotated[Path | None, typer.Option("--file", "-f", help="Read this file instead of stdin.")]
FormatOption = Annotated[
    InputFormat | None,
    typer.Option(
        "--format", help="What a line is: text unless given; jsonl is json; raw: all of the input is one value."
    ),
]
KeyOption = Annotated[str | None, typer.Option("--key", "-k", help="The key of every record.")]
KeySeparatorOption = Annotated[
    str | None,
    typer.Option("--key-separator", "-K", metavar="TEXT", help=r"Lines are KEY TEXT VALUE; \t is a tab."),
]
HeadersOption = Annotated[
    list[str] | None,
    typer.Option("--header", "--headers", "-H", metavar="NAME=VALUE", help="A header of every record; repeatable."),
]
PartitionOption = Annotated[
    int | None, typer.Option("--partition", "-p", min=0, help="Send all to this partition, not by key.")
]
NullOption = Annotated[
    str | None, typer.Option("--null", metavar="TEXT", help="A key or value that equals this is null.")
]
DelimiterOption = Annotated[str, typer.Option("--delimiter", metavar="TEXT", help="What ends a line.")]
RateOption = Annotated[float, typer.Option("--rate", min=0, help="Records per second; 0: as fast as it goes.")]
AcksOption = Annotated[Acks, typer.Option("--acks", help="Who has to have a record: all, the leader, nobody.")]
CompressionOption = Annotated[Compression, typer.Option("--compression", "-z", help="How batches are compressed.")]
TimeoutOption = Annotated[
    str,
    typer.Option("--timeout", metavar="DURATION", help="Give up on a record after so long: 500ms, 30s, 30, 1m."),
]
AssignmentsOption = Annotated[
    list[str] | None,
    typer.Option("--set", "-X", metavar="NAME=VALUE", help="A setting of librdkafka's producer; repeatable."),
]


def produce(
    topic: TopicArgument = None,
    topic_options: TopicOption = None,
    file: FileOption = None,
    form: FormatOption = None,
    key: KeyOption = None,
    key_separator: KeySeparatorOption = None,
    headers: HeadersOption = None,
    partition: PartitionOption = None,
    null: NullOption = None,
    delimiter: DelimiterOption = r"\n",
    rate: RateOption = 0,
    acks: AcksOption = Acks.ALL,
    compression: CompressionOption = Compression.NONE,
    timeout: TimeoutOption = "30s",
    assignments: AssignmentsOption = None,
    bootstrap: Bootstrap = None,
    cluster: Cluster = None,
    command_config: CommandConfig = None,
    as_json: Json = False,
) -> None:
    """Send lines from stdin or a file to a topic.

    Ends with how many records were sent and acknowledged, and where they are.
    The exit code is 0 only if all were acknowledged. Ctrl-C stops reading,
    waits for what is on its way, and reports that.

    \b
    $ echo hello | bifrost produce greetings
    $ bifrost produce orders --file orders.txt --key-separator :
    $ echo '{"key": "k", "value": 1}' | bifrost produce orders --format json
    $ bifrost produce images --format raw --key logo < logo.png

    A line of JSON has value and may have key, headers, partition, timestamp.
    A value that is not text is sent as JSON; bytes go into value_base64.
    """
    from bifrost.cli.data.cluster import check_partitions
    from bifrost.cli.data.lines import remarking
    from bifrost.cli.data.properties import parse_assignments
    from bifrost.cli.data.sender import Sender
    from bifrost.cli.data.sending import run
    from bifrost.cli.data.typed import reached, timeout_ms
    from bifrost.cli.output import remark

    topic = topic_meant(topic, topic_options)
    stream: AbstractContextManager[BinaryIO] = nullcontext(sys.stdin.buffer) if file is None else _open(file)
    chosen = InputFormat.JSON if form is InputFormat.JSONL else form or InputFormat.TEXT
    parse, end_of_line = _parser(chosen, key, key_separator, headers or [], partition, null, delimiter)
    settings: dict[str, object] = {
        "client.id": "bifrost-produce",
        "acks": acks.value,
        "enable.idempotence": acks is Acks.ALL,
        "compression.type": compression.value,
        "message.timeout.ms": timeout_ms("--timeout", timeout),
        **parse_assignments(assignments or [], "--set"),
    }
    connection = reached(bootstrap, cluster, command_config)
    sender = Sender(connection, topic, settings)
    check_partitions(topic, [] if partition is None else [partition], sender.partition_count)
    if file is None and sys.stdin.isatty():
        remark(f"Lines that you type go to {topic} at {connection}; end with Ctrl-D.")
    if form is None and key_separator is None:
        parse = remarking(parse)
    with stream as lines:
        run(sender, lines, parse, delimiter=end_of_line, rate=rate, as_json=as_json)


def _open(file: Path) -> BinaryIO:
    from bifrost.client.errors import ConfigError

    try:
        return file.open("rb")
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from error


def _parser(
    form: InputFormat,
    key: str | None,
    key_separator: str | None,
    headers: list[str],
    partition: int | None,
    null: str | None,
    delimiter: str,
) -> tuple[Parse, bytes | None]:
    """How lines are read and what ends them; None: nothing does. ConfigError if the options contradict each other."""
    from bifrost.cli.data import lines
    from bifrost.client.errors import ConfigError

    if key_separator is not None and (key is not None or form in {InputFormat.JSON, InputFormat.RAW}):
        other = f"--format {form}" if key is None else "--key"
        raise ConfigError(f"--key-separator and {other} contradict each other", "Leave one of them out.")
    try:
        like = lines.Record(
            None,
            None if key is None else key.encode(),
            [lines.parse_header(text) for text in headers],
            lines.ANY_PARTITION if partition is None else partition,
        )
        separator = None if key_separator is None else lines.unescape(key_separator)
        end_of_line = lines.unescape(delimiter)
    except lines.LineError as error:
        raise ConfigError(str(error)) from None
    if separator == b"" or not end_of_line:
        raise ConfigError(f"{'--key-separator' if end_of_line else '--delimiter'} is empty", r"Such as : or \t.")
    marker = None if null is None else null.encode()
    if form is InputFormat.JSON:
        return lines.json_lines(like, now_ms=int(time.time() * 1000)), end_of_line
    if form is InputFormat.HEX:
        return lines.hex_lines(like, key_separator=separator, null=marker), end_of_line
    parse = lines.text_lines(like, key_separator=separator, null=marker)
    return parse, None if form is InputFormat.RAW else end_of_line
