"""`bifrost console-producer`: the options of `kafka-console-producer`, as people type them from memory.

Decides nothing of its own: options become settings and a line reader, and `bifrost.cli.data.sending` does the rest. It
differs from Kafka's in that it says so, and ends with an error, when a record was not acknowledged.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from bifrost.cli import completion
from bifrost.cli.data.spread import filled
from bifrost.cli.options import Bootstrap, Cluster

if TYPE_CHECKING:
    from bifrost.cli.data.lines import Parse

_AGAIN = "bifrost console-producer …"
_TUNING = "Settings of the producer, each under its name in Kafka's tool"


class COMMAND(TyperCommand):
    """Reads `--compression-codec` as Kafka's tool does: without a value, it is gzip."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, filled(args, "--compression-codec", "gzip"))


TopicOption = Annotated[
    str,
    typer.Option("--topic", "-t", help="The topic; made if the broker makes topics.", autocompletion=completion.topics),
]
PropertiesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--reader-property",
        "--property",
        metavar="NAME=VALUE",
        help="Of the line reader: parse.key, key.separator, parse.headers, null.marker, ignore.error …",
    ),
]
ReaderConfigOption = Annotated[
    Path | None, typer.Option("--reader-config", help="A file with properties of the line reader.")
]
LineReaderClassOption = Annotated[
    str, typer.Option("--line-reader", help="Kafka's class; only the default.", show_default=False)
]
ProducerPropertiesOption = Annotated[
    list[str] | None,
    typer.Option("--command-property", "--producer-property", metavar="NAME=VALUE", help="Of the producer."),
]
ProducerConfigOption = Annotated[
    Path | None,
    typer.Option("--command-config", "--producer.config", help="A file with properties of the producer."),
]
SyncOption = Annotated[bool, typer.Option("--sync", help="Wait for each record before the next.")]
CompressionOption = Annotated[
    str, typer.Option("--compression-codec", metavar="[CODEC]", help="none, gzip, snappy, lz4 or zstd; gzip alone.")
]
AcksOption = Annotated[
    str | None, typer.Option("--request-required-acks", metavar="ACKS", help="acks", rich_help_panel=_TUNING)
]
LingerMsOption = Annotated[
    int | None, typer.Option("--timeout", metavar="MS", help="linger.ms", rich_help_panel=_TUNING)
]
RequestTimeoutMsOption = Annotated[
    int | None,
    typer.Option("--request-timeout-ms", metavar="MS", help="request.timeout.ms", rich_help_panel=_TUNING),
]
RetriesOption = Annotated[
    int | None, typer.Option("--message-send-max-retries", metavar="N", help="retries", rich_help_panel=_TUNING)
]
RetryBackoffMsOption = Annotated[
    int | None, typer.Option("--retry-backoff-ms", metavar="MS", help="retry.backoff.ms", rich_help_panel=_TUNING)
]
BatchSizeOption = Annotated[
    int | None,
    typer.Option(
        "--batch-size", "--max-partition-memory-bytes", metavar="BYTES", help="batch.size", rich_help_panel=_TUNING
    ),
]
MaxMemoryBytesOption = Annotated[
    int | None, typer.Option("--max-memory-bytes", metavar="BYTES", help="buffer.memory", rich_help_panel=_TUNING)
]
SocketBufferSizeOption = Annotated[
    int | None,
    typer.Option("--socket-buffer-size", metavar="BYTES", help="send.buffer.bytes", rich_help_panel=_TUNING),
]
MetadataExpiryMsOption = Annotated[
    int | None,
    typer.Option("--metadata-expiry-ms", metavar="MS", help="metadata.max.age.ms", rich_help_panel=_TUNING),
]
MaxBlockMsOption = Annotated[
    int | None, typer.Option("--max-block-ms", metavar="MS", help="max.block.ms", rich_help_panel=_TUNING)
]
BrokerListOption = Annotated[str | None, typer.Option("--broker-list", help="As --bootstrap-server.", hidden=True)]


def console_producer(
    topic: TopicOption,
    properties: PropertiesOption = None,
    reader_config: ReaderConfigOption = None,
    line_reader_class: LineReaderClassOption = "org.apache.kafka.tools.LineMessageReader",
    producer_properties: ProducerPropertiesOption = None,
    producer_config: ProducerConfigOption = None,
    sync: SyncOption = False,
    compression: CompressionOption = "none",
    acks: AcksOption = None,
    linger_ms: LingerMsOption = None,
    request_timeout_ms: RequestTimeoutMsOption = None,
    retries: RetriesOption = None,
    retry_backoff_ms: RetryBackoffMsOption = None,
    batch_size: BatchSizeOption = None,
    max_memory_bytes: MaxMemoryBytesOption = None,
    socket_buffer_size: SocketBufferSizeOption = None,
    metadata_expiry_ms: MetadataExpiryMsOption = None,
    max_block_ms: MaxBlockMsOption = None,
    broker_list: BrokerListOption = None,
    bootstrap: Bootstrap = None,
    cluster: Cluster = None,
) -> None:
    """Send lines as Kafka's console producer does, with its options.

    \b
    $ bifrost console-producer --bootstrap-server host:9092 --topic orders
    $ bifrost console-producer --topic orders --property parse.key=true
    $ bifrost console-producer --topic orders --producer-property acks=1
    """
    from bifrost.cli.data.properties import for_librdkafka, load, parse_assignments
    from bifrost.cli.data.sender import Sender
    from bifrost.cli.data.sending import run
    from bifrost.cli.data.typed import connection, remark_on

    parse = _parser(line_reader_class, reader_config, properties or [])
    named = {
        "acks": acks,
        "linger.ms": linger_ms,
        "request.timeout.ms": request_timeout_ms,
        "retries": retries,
        "retry.backoff.ms": retry_backoff_ms,
        "batch.size": batch_size,
        "buffer.memory": max_memory_bytes,
        "send.buffer.bytes": socket_buffer_size,
        "metadata.max.age.ms": metadata_expiry_ms,
        "max.block.ms": max_block_ms,
    }
    given = {
        "client.id": "console-producer",
        **load(producer_config),
        **parse_assignments(producer_properties or [], "--producer-property"),
        **{name: str(value) for name, value in named.items() if value is not None},
        "compression.type": compression or "none",
    }
    settings, left_out = for_librdkafka(given)
    remark_on(left_out)
    sender = Sender(connection((bootstrap, broker_list), cluster, settings), topic, settings, create=True)
    prompt = ">" if sys.stdin.isatty() and sys.stdout.isatty() else ""
    run(sender, sys.stdin.buffer, parse, delimiter=b"\n", quiet=True, prompt=prompt, one_by_one=sync, again=_AGAIN)


def _parser(class_name: str, config: Path | None, properties: list[str]) -> Parse:
    from bifrost.cli.data.console_lines import line_reader
    from bifrost.cli.data.properties import load, parse_assignments
    from bifrost.client.errors import UnsupportedError

    if class_name.rpartition(".")[2] != "LineMessageReader":
        raise UnsupportedError(f"the reader {class_name} is a Java class", "`bifrost produce` reads JSON and hex.")
    parse = line_reader({**load(config), **parse_assignments(properties, "--reader-property")})
    return lambda line: parse(line.removesuffix(b"\r"))  # Java's lines end with any kind of newline
