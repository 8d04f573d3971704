"""`bifrost perf`: how fast a cluster takes records, gives them back, and how long one is on its way.

The options of `kafka-producer-perf-test` and `kafka-consumer-perf-test` are known under their names. Measures a cluster
through librdkafka and Python; a number here is a lower bound of what the cluster can do.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bifrost.cli import completion
from bifrost.cli.data.spread import SpreadCommand
from bifrost.cli.options import CONTEXT, Bootstrap, Cluster, Json

if TYPE_CHECKING:
    from bifrost.cli.data.measure import Read
    from bifrost.cli.data.meter import Meter

app = typer.Typer(help="Measure a cluster: throughput and latency.", no_args_is_help=True, context_settings=CONTEXT)

TopicArgument = Annotated[
    str | None, typer.Argument(metavar="TOPIC", help="The topic, which must exist.", autocompletion=completion.topics)
]
TopicOption = Annotated[str | None, typer.Option("--topic", hidden=True)]
CountOption = Annotated[int, typer.Option("--num-records", "--messages", "-n", min=1, help="How many records.")]
MaxCountOption = Annotated[
    int | None, typer.Option("--num-records", "--messages", "-n", min=1, help="How many records; all without it.")
]
SizeOption = Annotated[int, typer.Option("--record-size", "-s", min=0, help="Bytes of each value.")]
ThroughputOption = Annotated[float, typer.Option("--throughput", help="Records per second; -1: as fast as it goes.")]
AcksOption = Annotated[str, typer.Option("--acks", help="all, 1 or 0.")]
PropertiesOption = Annotated[
    list[str] | None,
    typer.Option("--command-property", "--producer-props", metavar="NAME=VALUE", help="Settings of the client."),
]
ConfigOption = Annotated[
    Path | None,
    typer.Option("--command-config", "--producer.config", "--consumer.config", help="A file with such settings."),
]
PayloadFileOption = Annotated[Path | None, typer.Option("--payload-file", help="Send lines of this file, at random.")]
PayloadDelimiterOption = Annotated[str, typer.Option("--payload-delimiter", help="What ends a payload in the file.")]
MonotonicOption = Annotated[bool, typer.Option("--payload-monotonic", help="Send 0, 1, 2 …")]
WarmupOption = Annotated[int, typer.Option("--warmup-records", min=0, help="Leave out so many at first.")]
IntervalOption = Annotated[int, typer.Option("--reporting-interval", min=1, metavar="MS", help="Between two reports.")]
GroupOption = Annotated[str | None, typer.Option("--group", help="Read as a member of this group.")]
FromLatestOption = Annotated[bool, typer.Option("--from-latest", help="Wait for new records.")]
TimeoutOption = Annotated[
    str,
    typer.Option(
        "--timeout",
        metavar="DURATION",
        help="End when none came for so long: 5s, 1m; a number alone is milliseconds, as in Kafka's tool.",
    ),
]
# Of Kafka's tools, for commands that are copied from a page: no room in the help is worth them.
BrokerListOption = Annotated[str | None, typer.Option("--broker-list", hidden=True)]
PrintMetricsOption = Annotated[bool, typer.Option("--print-metrics", hidden=True)]
ThreadsOption = Annotated[int | None, typer.Option("--threads", "--num-fetch-threads", hidden=True)]
DetailsOption = Annotated[bool, typer.Option("--show-detailed-stats", "--hide-header", hidden=True)]
FetchSizeOption = Annotated[int | None, typer.Option("--fetch-size", min=1, hidden=True)]
SocketBufferOption = Annotated[int | None, typer.Option("--socket-buffer-size", min=1, hidden=True)]


@app.command(cls=SpreadCommand)
def produce(
    topic: TopicArgument = None,
    topic_option: TopicOption = None,
    num_records: CountOption = 100_000,
    record_size: SizeOption = 100,
    throughput: ThroughputOption = -1,
    acks: AcksOption = "all",
    properties: PropertiesOption = None,
    config: ConfigOption = None,
    payload_file: PayloadFileOption = None,
    payload_delimiter: PayloadDelimiterOption = r"\n",
    monotonic: MonotonicOption = False,
    warmup: WarmupOption = 0,
    interval_ms: IntervalOption = 5000,
    print_metrics: PrintMetricsOption = False,
    broker_list: BrokerListOption = None,
    bootstrap: Bootstrap = None,
    cluster: Cluster = None,
    as_json: Json = False,
) -> None:
    """Send records as fast as they are acknowledged, and time each of them.

    \b
    $ bifrost perf produce orders -n 1000000 -s 100
    $ bifrost perf produce orders --throughput 5000 --producer-props acks=1
    """
    from bifrost.cli.data.interrupt import Interrupt
    from bifrost.cli.data.measure import payloads, send_records
    from bifrost.cli.data.meter import Meter, print_figures
    from bifrost.cli.data.properties import for_librdkafka, load, parse_assignments
    from bifrost.cli.data.report import end
    from bifrost.cli.data.sender import Sender
    from bifrost.cli.data.typed import connection, remark_on

    given = {"acks": acks, "client.id": "bifrost-perf", **load(config)}
    settings, left_out = for_librdkafka({**given, **parse_assignments(properties or [], "--command-property")})
    remark_on(left_out)
    _remark_on_java(print_metrics)
    values = payloads(record_size, payload_file, payload_delimiter, monotonic=monotonic)
    meter = Meter(quiet=as_json, interval_s=interval_ms / 1000)
    sender = Sender(
        connection([bootstrap, broker_list], cluster, settings),
        _named(topic, topic_option),
        settings,
        on_latency=meter.add_latency,
    )
    sender.settle()
    with Interrupt() as interrupt, meter:
        send_records(sender, values, num_records, meter, rate=throughput, warmup=warmup, interrupt=interrupt)
        figures = meter.figures() | {"sent": sender.tally.sent, "acknowledged": sender.tally.acknowledged}
    print_figures(figures, "acknowledged", {"latency_ms": meter.latency}, as_json=as_json)
    end(sender, interrupt, None)


@app.command(cls=SpreadCommand)
def consume(
    topic: TopicArgument = None,
    topic_option: TopicOption = None,
    num_records: MaxCountOption = None,
    group: GroupOption = None,
    from_latest: FromLatestOption = False,
    timeout: TimeoutOption = "10s",
    properties: PropertiesOption = None,
    config: ConfigOption = None,
    interval_ms: IntervalOption = 5000,
    fetch_size: FetchSizeOption = None,
    socket_buffer: SocketBufferOption = None,
    threads: ThreadsOption = None,
    details: DetailsOption = False,  # noqa: ARG001  # reports come anyway, and there is no header
    print_metrics: PrintMetricsOption = False,
    broker_list: BrokerListOption = None,
    bootstrap: Bootstrap = None,
    cluster: Cluster = None,
    as_json: Json = False,
) -> None:
    """Read records as fast as they come.

    Reads from the beginning to the end, or until there are enough. Timed from
    the first request on; total_seconds has connecting and joining a group, too.

    \b
    $ bifrost perf consume orders
    $ bifrost perf consume --topic orders --messages 1000000
    """
    from bifrost.cli.data.measure import read_records
    from bifrost.cli.data.meter import Meter, print_figures
    from bifrost.cli.data.properties import for_librdkafka, load, parse_assignments
    from bifrost.cli.data.reader import EARLIEST, LATEST, Plan, Reader
    from bifrost.cli.data.typed import connection, remark_on, timeout_ms
    from bifrost.client.errors import TimedOutError

    sizes = {"max.partition.fetch.bytes": fetch_size, "receive.buffer.bytes": socket_buffer}
    given = {"client.id": "bifrost-perf", **{name: str(size) for name, size in sizes.items() if size is not None}}
    given |= load(config) | parse_assignments(properties or [], "--command-property")
    settings, left_out = for_librdkafka(given)
    remark_on(left_out)
    _remark_on_java(print_metrics, threads)
    silence_s = timeout_ms("--timeout", timeout, bare_unit="ms") / 1000
    start = LATEST if from_latest else EARLIEST
    plan = Plan(topics=[_named(topic, topic_option)], group=group, start=start, follow=from_latest)
    meter = Meter(quiet=as_json, interval_s=interval_ms / 1000)
    started_s = time.monotonic()
    with Reader(connection([bootstrap, broker_list], cluster, settings), plan, settings) as reader, meter:
        read = read_records(reader, meter, limit=num_records, silence_s=silence_s)
        assigned_s = reader.assigned_s
    print_figures(_reading(meter, started_s, assigned_s, read), "read", {}, as_json=as_json)
    _print_history(meter, as_json=as_json)
    if read.exit_code:
        raise typer.Exit(read.exit_code)
    if num_records is not None and meter.records < num_records:
        raise TimedOutError(f"only {meter.records:,} of {num_records:,} records came", "The topic has no more.")


@app.command(cls=SpreadCommand)
def latency(
    topic: TopicArgument = None,
    topic_option: TopicOption = None,
    num_records: CountOption = 1000,
    record_size: SizeOption = 100,
    acks: AcksOption = "all",
    properties: PropertiesOption = None,
    bootstrap: Bootstrap = None,
    cluster: Cluster = None,
    as_json: Json = False,
) -> None:
    """Send one record at a time, and wait until it is read back.

    \b
    $ bifrost perf latency orders -n 1000
    """
    from bifrost.cli.data.interrupt import Interrupt
    from bifrost.cli.data.measure import round_trips
    from bifrost.cli.data.meter import Meter, print_figures
    from bifrost.cli.data.properties import for_librdkafka, parse_assignments
    from bifrost.cli.data.reader import Plan, Reader
    from bifrost.cli.data.sender import Sender
    from bifrost.cli.data.typed import connection, remark_on

    given = {"acks": acks, "linger.ms": "0", "client.id": "bifrost-perf"}
    settings, left_out = for_librdkafka({**given, **parse_assignments(properties or [], "--command-property")})
    remark_on(left_out)
    where = connection([bootstrap], cluster, settings)
    name = _named(topic, topic_option)
    meter = Meter(quiet=as_json, interval_s=5)
    acknowledged = Meter(quiet=True, interval_s=5)
    sender = Sender(where, name, settings, on_latency=acknowledged.add_latency)
    with Reader(where, Plan(topics=[name]), {"client.id": "bifrost-perf"}) as reader, Interrupt() as interrupt, meter:
        round_trips(
            sender,
            reader,
            meter,
            count=num_records,
            size=record_size,
            interrupt=interrupt,
            on_warm=acknowledged.restart,
        )
        figures = meter.figures()
    histograms = {"acknowledged_ms": acknowledged.latency, "end_to_end_ms": meter.latency}
    print_figures(figures, "sent and read", histograms, as_json=as_json)
    if interrupt:
        raise typer.Exit(interrupt.exit_code)


def _named(topic: str | None, option: str | None) -> str:
    from bifrost.client.errors import ConfigError

    name = topic or option
    if name is None:
        raise ConfigError("no topic was named", "Such as: bifrost perf produce orders")
    return name


def _remark_on_java(print_metrics: bool, threads: int | None = None) -> None:
    from bifrost.cli.output import remark

    if threads is not None:
        remark("--threads is ignored, as in Kafka's tool: one consumer reads")
    if print_metrics:
        remark("--print-metrics is ignored: there are no metrics of a Java client here")


def _reading(meter: Meter, started_s: float, assigned_s: float | None, read: Read) -> dict[str, Any]:
    """Kafka's two figures: from the first request that fetches, and from the start, with connecting and joining."""
    if read.first_s is None or read.last_s is None or assigned_s is None:
        nothing = dict.fromkeys(("seconds_to_first", "total_seconds", "total_records_per_second"))
        return meter.figures(seconds=0.0) | nothing
    total_s = read.last_s - started_s
    return meter.figures(seconds=read.last_s - assigned_s) | {
        "seconds_to_first": round(read.first_s - started_s, 3),
        "total_seconds": round(total_s, 3),
        "total_records_per_second": round(meter.records / total_s, 1),
    }


def _print_history(meter: Meter, *, as_json: bool) -> None:
    from bifrost.cli.data.histogram import sparkline

    if not as_json and len(meter.windows) > 1:
        most = max(window.rate for window in meter.windows)
        typer.echo(f"over time: {sparkline([window.rate for window in meter.windows], 60)} (at most {most:,.0f}/s)")
