"""`make demo`: a real broker, a real Kafka client, and proof that nothing went missing.

An embedded Bifrost node starts in this process. confluent-kafka, a client that knows nothing of Bifrost, streams truck
positions into a topic of ten partitions, keyed by truck, and reads them back. Then every truck's reports are counted
and their order is checked.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter, defaultdict

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.live import Live
from rich.panel import Panel
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from bifrost.testing import Cluster
from examples.fleet.trucks import fleet, reports

TOPIC = "truck-positions"
PARTITIONS = 10


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reports", type=int, default=200_000, help="how many positions to send")
    parser.add_argument("--trucks", type=int, default=25, help="how many trucks drive")
    options = parser.parse_args()
    console = Console()
    console.print(
        Panel(
            "[bold]Bifrost[/bold] runs inside this process: a broker that speaks Kafka's protocol.\n"
            f"{options.trucks} trucks report {options.reports:,} positions through confluent-kafka.\n"
            "A truck's name is the message key, so all of its reports share one of ten partitions and stay in order.\n"
            "Every write is acknowledged only once it is safe on disk (flush.policy=ack).",
            title="The fleet",
            expand=False,
        )
    )
    started = time.perf_counter()
    with Cluster(flush_policy="ack") as cluster:
        console.print(
            f"broker up at [cyan]{cluster.bootstrap}[/cyan] after {(time.perf_counter() - started) * 1000:.0f} ms"
        )
        create_topic(cluster.bootstrap)
        sent, acknowledged = produce(cluster.bootstrap, options.reports, options.trucks, console)
        read = consume(cluster.bootstrap, sum(acknowledged.values()), console)
        return report(console, sent, acknowledged, read)


def create_topic(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, num_partitions=PARTITIONS, replication_factor=1)])[TOPIC].result(10)


def progress_bar(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console
    )


def produce(bootstrap: str, count: int, trucks: int, console: Console) -> tuple[Counter[str], Counter[int]]:
    """Send every report; returns how many each truck sent and how many each partition acknowledged."""
    rng = random.Random(2026)
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "partitioner": "murmur2_random",
            "compression.type": "lz4",
            "linger.ms": 5,
        }
    )
    sent: Counter[str] = Counter()
    acknowledged: Counter[int] = Counter()

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        if error is None:
            acknowledged[message.partition()] += 1

    with progress_bar(console) as progress:
        task = progress.add_task("sending ", total=count)
        for number, (truck, value) in enumerate(reports(fleet(trucks, rng), count, rng), 1):
            while True:
                try:
                    producer.produce(TOPIC, key=truck, value=value, on_delivery=on_delivery)
                    break
                except BufferError:
                    producer.poll(0.1)
            sent[truck] += 1
            if number % 500 == 0:
                producer.poll(0)
                progress.update(task, completed=sum(acknowledged.values()))
        producer.flush(30)
        progress.update(task, completed=sum(acknowledged.values()))
    return sent, acknowledged


def consume(bootstrap: str, count: int, console: Console) -> dict[str, list[tuple[int, int]]]:
    """Read everything from the beginning: (partition, sequence) of every report, by truck, in the order read."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "fleet-demo",
            "enable.auto.commit": False,
            "enable.partition.eof": False,
        }
    )
    consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
    read: dict[str, list[tuple[int, int]]] = defaultdict(list)
    latest: dict[str, dict[str, object]] = {}
    total, deadline = 0, time.monotonic() + 60
    with Live(console=console, refresh_per_second=8) as live:
        while total < count and time.monotonic() < deadline:
            for message in consumer.consume(5_000, timeout=1.0):
                if message.error() is not None:
                    console.print(f"[red]{message.error()}[/red]")
                    continue
                position = json.loads(message.value())
                read[position["truck"]].append((message.partition(), position["seq"]))
                latest[position["truck"]] = position
                total += 1
            live.update(positions_table(latest, read, total))
    consumer.close()
    return read


def positions_table(latest: dict[str, dict[str, object]], read: dict[str, list[tuple[int, int]]], total: int) -> Table:
    table = Table(title=f"read back so far: {total:,}", title_justify="left")
    for heading in ("truck", "partition", "reports", "last position", "km/h"):
        table.add_column(heading, justify="left" if heading == "truck" else "right")
    for truck in sorted(latest)[:10]:
        position = latest[truck]
        place = f"{position['lat']:.3f} N {position['lon']:.3f} E"
        table.add_row(truck, str(read[truck][-1][0]), f"{len(read[truck]):,}", place, str(position["speed_kmh"]))
    if len(latest) > 10:
        table.add_row(f"… {len(latest) - 10} more", "", "", "", "", style="dim")
    return table


def report(
    console: Console, sent: Counter[str], acknowledged: Counter[int], read: dict[str, list[tuple[int, int]]]
) -> int:
    """Compare what was sent, acknowledged and read; returns the exit code."""
    missing = sum(sent.values()) - sum(map(len, read.values()))
    disordered = sum(
        [seq for _, seq in reports_] != list(range(1, sent[truck] + 1)) for truck, reports_ in read.items()
    )
    scattered = sum(len({partition for partition, _ in reports_}) != 1 for reports_ in read.values())
    table = Table(title="the proof", title_justify="left", show_header=False)
    table.add_row("sent", f"{sum(sent.values()):,}")
    table.add_row("acknowledged", f"{sum(acknowledged.values()):,} over {len(acknowledged)} partitions")
    table.add_row("read back", f"{sum(map(len, read.values())):,}")
    table.add_row("missing or doubled", str(missing))
    table.add_row("trucks out of order", str(disordered))
    table.add_row("trucks in more than one partition", str(scattered))
    console.print(table)
    good = missing == disordered == scattered == 0 and sum(sent.values()) == sum(acknowledged.values())
    console.print(
        "[green]Nothing is missing, and every truck is in order.[/green]" if good else "[red]Something is wrong.[/red]"
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
