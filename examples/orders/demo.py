"""`python -m examples.orders.demo`: orders by category, totals, and a join of two streams.

An embedded Bifrost node starts in this process. Orders go to the partition of their category, by a partitioner that is
a plain function. Spark adds up each category and joins orders with payments that come in time, over two runs. What it
found is compared with what plain Python counts.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

import bifrost
from bifrost.pipeline.prerequisites import require_spark
from bifrost.spark.failures import MissingSoftwareError
from bifrost.testing import Cluster
from examples.orders import expected
from examples.orders.queries import ORDERS, PAID, PAYMENTS, TOTALS, Queries
from examples.orders.shop import PARTITION_OF, Event, afternoon, by_category
from examples.terminal import open_console, waiting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER = "local[2]"


@dataclass
class Findings:
    """What is in the topics after the last run."""

    partitions: dict[str, set[int]]
    """Where orders of each category are."""
    totals: dict[str, tuple[int, int]]
    paid: list[tuple[int, int]]

    def differences(self, orders: list[Event], payments: list[Event]) -> list[str]:
        """Empty if the two agree in everything."""
        found = []
        if self.partitions != {category: {PARTITION_OF[category]} for category in self.partitions}:
            found.append(f"categories are in partitions {self.partitions}")
        if self.totals != expected.totals(orders):
            found.append(f"totals are {self.totals}, expected {expected.totals(orders)}")
        wanted = expected.paid(orders, payments)
        if sorted(self.paid) != sorted(wanted):
            found.append(f"{len(self.paid)} orders joined with a payment, {len(wanted)} expected")
        return found


def create_topics(bootstrap: str) -> None:
    with bifrost.Admin(bootstrap) as admin:
        for topic in (ORDERS, PAYMENTS, TOTALS, PAID):
            admin.create_topic(topic, partitions=len(PARTITION_OF))


def send(bootstrap: str, orders: list[Event], payments: list[Event]) -> str:
    """Orders to the partition of their category, payments to that of their order's number; the producers' reports."""
    with bifrost.Producer(bootstrap, key="str", value="json", partitioner=by_category) as shop:
        for order in orders:
            shop.send(ORDERS, order, key=order["category"])
    with bifrost.Producer(bootstrap, key="str", value="json") as bank:
        for payment in payments:
            bank.send(PAYMENTS, payment, key=str(payment["order"]))
    return f"orders: {shop.report().summary()}; payments: {bank.report().summary()}"


def run_twice(spark: SparkSession, bootstrap: str, folder: Path, orders: list[Event], payments: list[Event]) -> None:
    """Half of the orders and a third of the payments, a run, the rest, a run: orders wait for payments in between."""
    queries = Queries(spark, bootstrap, folder)
    half, third = len(orders) // 2, len(payments) // 3
    for some_orders, some_payments in ((orders[:half], payments[:third]), (orders[half:], payments[third:])):
        send(bootstrap, some_orders, some_payments)
        queries.run()


def look(bootstrap: str) -> Findings:
    """The topics, as any client reads them."""
    found = Findings({}, {}, [])
    options = {"bootstrap": bootstrap, "key": "str", "value": "json", "from_beginning": True, "until_end": True}
    with bifrost.Consumer(ORDERS, **options) as consumer:  # type: ignore[arg-type]
        for message in consumer:
            found.partitions.setdefault(message.value["category"], set()).add(message.partition)
    with bifrost.Consumer(TOTALS, **options) as consumer:  # type: ignore[arg-type]
        for message in consumer:
            found.totals[message.key] = (message.value["orders"], message.value["cents"])
    with bifrost.Consumer(PAID, **options) as consumer:  # type: ignore[arg-type]
        found.paid = [(message.value["order"], message.value["paid_ms"]) for message in consumer]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--orders", type=int, default=20_000, help="how many orders come in")
    count = parser.parse_args().orders
    console = open_console()
    orders, payments = afternoon(count, random.Random(2026))
    with Cluster() as cluster, tempfile.TemporaryDirectory(prefix="orders-") as folder:
        create_topics(cluster.bootstrap)
        try:
            require_spark()
        except MissingSoftwareError as error:
            console.print(send(cluster.bootstrap, orders, payments))
            by_partition = Counter(PARTITION_OF[order["category"]] for order in orders)
            console.print(f"orders in each partition: {dict(sorted(by_partition.items()))}")
            console.print(f"[yellow]The rest needs Spark.[/yellow] {error.problem}. Install it, and run this again:")
            console.print(f"\n    {error.hint}\n")
            return 0
        return analyse(console, cluster.bootstrap, Path(folder), orders, payments)


def analyse(console: Console, bootstrap: str, folder: Path, orders: list[Event], payments: list[Event]) -> int:
    from bifrost.pipeline.connect import driver

    settings = {
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    }
    began = time.perf_counter()
    with waiting(console, "Spark starts") as tell, driver("orders", MASTER, settings, folder / "spark.log") as spark:
        tell(f"{len(orders):,} orders and {len(payments):,} payments go through two runs of two queries")
        run_twice(spark, bootstrap, folder, orders, payments)
    findings = look(bootstrap)
    table = Table(title=f"what it found in {time.perf_counter() - began:.0f} s", title_justify="left")
    for heading in ("category", "partition", "orders", "total"):
        table.add_column(heading, justify="left" if heading == "category" else "right")
    for category, (number, cents) in sorted(findings.totals.items()):
        table.add_row(
            category, ", ".join(map(str, findings.partitions[category])), f"{number:,}", f"{cents / 100:,.2f}"
        )
    console.print(table)
    console.print(f"paid in time: {len(findings.paid):,} of {len(orders):,} orders")
    differences = findings.differences(orders, payments)
    for difference in differences:
        console.print(f"[red]{difference}[/red]")
    agree = "[green]Spark and plain Python agree in every total and every payment.[/green]"
    console.print(agree if not differences else "[red]They do not agree.[/red]")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
