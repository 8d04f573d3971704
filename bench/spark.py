"""Topics in and out of Spark: `format("bifrost")` beside Spark's own Kafka connector, in one session on one machine.

    python -m bench.spark [--quick] [--only WORD] [--unix-sockets] [--bootstrap HOST:PORT] [--packages P | --jars A,B]

Every arm takes its turn in every round, on the same topics of one broker (an own process unless an address is given),
after a round that nobody counts. A figure is the median. CPU seconds are those of the JVM, of Spark's Python
workers and of the broker, and vary less than wall time. The connector is no part of PySpark: it comes from
`--packages` or `--jars`, once at its defaults and once tuned; without it its arms are "not run". Prints a table, writes
bench/results/spark.json and spark.png.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import pathlib
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import bifrost
from bench import procfs
from bench.arrow import PARTITIONS, table
from bench.peers import Bifrost, Durability

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RESULTS = pathlib.Path(__file__).parent / "results"
READ_TUNED = {
    "kafka.max.partition.fetch.bytes": str(8 << 20),
    "kafka.fetch.max.bytes": str(64 << 20),
    "kafka.max.poll.records": "10000",
}
WRITE_TUNED = {"kafka.linger.ms": "20", "kafka.batch.size": "500000"}
TRIGGERS = 60
ROWS_PER_TRIGGER = 400


@dataclass
class Arm:
    """One way to do it."""

    name: str
    source: str
    options: dict[str, str] = field(default_factory=dict)


@dataclass
class Spent:
    """What one run took."""

    seconds: float
    jvm: float = 0.0
    python: float = 0.0
    broker: float = 0.0

    @property
    def cpu(self) -> float:
        return self.jvm + self.python + self.broker


class Bench:
    """A session, a broker, and what was measured with them."""

    def __init__(self, spark: SparkSession, bootstrap: str, broker: Bifrost | None, scratch: pathlib.Path) -> None:
        self.spark = spark
        self.bootstrap = bootstrap
        self.scratch = scratch
        self._broker = broker
        gateway: Any = spark.sparkContext._gateway
        self._jvm_pid = gateway.proc.pid
        self.rows: list[dict[str, Any]] = []
        self._targets: list[str] = []

    def topic(self, rows: int, size: int) -> str:
        name = f"spark-{size}-{rows}-{time.time_ns()}"
        self.create(name)
        written = 0
        while written < rows:
            part = table(min(200_000, rows - written), size)
            bifrost.write_arrow(name, part, bootstrap=self.bootstrap)
            written += part.num_rows
        return name

    def create(self, name: str) -> str:
        with bifrost.Admin(self.bootstrap) as admin:
            admin.create_topic(name, partitions=PARTITIONS)
        return name

    def target(self) -> str:
        """A topic to write to, for one run: without it the next one has memory to write to that is in use already."""
        self._targets.append(f"written-{time.time_ns()}")
        return self.create(self._targets[-1])

    def drop_targets(self) -> None:
        with bifrost.Admin(self.bootstrap) as admin:
            while self._targets:
                admin.delete_topic(self._targets.pop())

    def parquet(self, rows: int, size: int) -> str:
        import pyarrow.parquet

        folder = self.scratch / f"rows-{size}"
        folder.mkdir()
        for part in range(PARTITIONS):
            pyarrow.parquet.write_table(table(rows // PARTITIONS, size), folder / f"{part}.parquet")
        return str(folder)

    def read(self, arm: Arm, topic: str, **more: str) -> DataFrame:
        reader = self.spark.read.format(arm.source).options(**self._where(), **arm.options, **more)
        return reader.option("subscribe", topic).load()

    def read_stream(self, arm: Arm, topic: str, **more: str) -> DataFrame:
        reader = self.spark.readStream.format(arm.source).options(**self._where(), **arm.options, **more)
        return reader.option("subscribe", topic).option("startingOffsets", "earliest").load()

    def write_options(self, arm: Arm, topic: str) -> dict[str, str]:
        return {**self._where(), **arm.options, "topic": topic}

    def _where(self) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.bootstrap}

    def compare(
        self, name: str, rows: int, unit: str, arms: list[Arm], run: Callable[[Arm], object], rounds: int
    ) -> None:
        """Run all arms in turn; a run may return its own figure in place of its seconds."""
        taken: dict[str, list[Spent]] = {arm.name: [] for arm in arms}
        for number in range(rounds + 1):
            for arm in arms:
                spent = self._measured(lambda arm=arm: run(arm))  # type: ignore[misc]
                self.drop_targets()
                if number:
                    taken[arm.name].append(spent)
                print(f"  {name}: {arm.name} {spent.seconds:.2f} s", file=sys.stderr)
        for arm in arms:
            middle = {
                part: statistics.median(getattr(spent, part) for spent in taken[arm.name])
                for part in ("seconds", "jvm", "python", "broker", "cpu")
            }
            self.rows.append({"question": name, "arm": arm.name, "rows": rows, "unit": unit, **middle})

    def _measured(self, run: Callable[[], object]) -> Spent:
        before = self._cpu()
        started = time.perf_counter()
        figure = run()
        seconds = time.perf_counter() - started
        after = self._cpu()
        return Spent(figure if isinstance(figure, float) else seconds, *(b - a for a, b in zip(before, after)))

    def _cpu(self) -> tuple[float, float, float]:
        own, *workers = procfs.process_tree(self._jvm_pid)
        broker = self._broker.pids() if self._broker is not None else []
        return procfs.cpu_seconds([own]), procfs.cpu_seconds(workers), procfs.cpu_seconds(broker)


def reading(bench: Bench, arms: list[Arm], scale: int, rounds: int) -> None:
    from pyspark.sql import functions as f

    ours = [arm for arm in arms if arm.source == "bifrost"]
    pruned = [Arm(f"{arm.name}, columns=value", arm.source, {**arm.options, "columns": "value"}) for arm in ours]
    small, large = 8_000_000 // scale, 2_000_000 // scale
    topic = bench.topic(small, 100)

    def lengths(arm: Arm, topic: str, rows: int) -> None:
        (found,) = bench.read(arm, topic).agg(f.count("*").alias("n"), f.sum(f.length("value")).alias("b")).collect()
        assert found["n"] == rows, found

    def all_columns(arm: Arm) -> None:
        frame = bench.read(arm, topic)
        sums = [f.sum(f.hash(frame[name])).alias(name) for name in frame.columns]
        assert len(frame.agg(*sums).collect()) == 1

    bench.compare(
        "read 100 B: sum(length(value))", small, "rows", arms + pruned, lambda a: lengths(a, topic, small), rounds
    )
    bench.compare("read 100 B: all columns", small, "rows", arms, all_columns, rounds)

    def stream(arm: Arm, **limits: str) -> None:
        query = bench.read_stream(arm, topic, **limits).writeStream.format("noop").trigger(availableNow=True).start()
        query.awaitTermination()
        assert sum(progress.numInputRows for progress in query.recentProgress) == small

    bench.compare("stream 100 B: one batch", small, "rows", arms, stream, rounds)
    each = str(small // 10)
    bench.compare(
        "stream 100 B: ten batches", small, "rows", arms, lambda a: stream(a, maxOffsetsPerTrigger=each), rounds
    )
    wide = bench.topic(large, 1000)
    bench.compare(
        "read 1 KB: sum(length(value))", large, "rows", arms + pruned, lambda a: lengths(a, wide, large), rounds
    )


def writing(bench: Bench, arms: list[Arm], scale: int, rounds: int) -> None:
    for rows, size in ((2_000_000 // scale, 100), (400_000 // scale, 1000)):
        folder = bench.parquet(rows, size)
        schema = bench.spark.read.parquet(folder).schema

        def batch(arm: Arm, folder: str = folder) -> None:
            topic = bench.target()
            options = bench.write_options(arm, topic)
            bench.spark.read.parquet(folder).write.format(arm.source).options(**options).mode("append").save()

        def stream(arm: Arm, folder: str = folder, schema: Any = schema) -> None:
            topic = bench.target()
            source = bench.spark.readStream.schema(schema).parquet(folder)
            with checkpoint(bench) as place:
                writer = source.writeStream.format(arm.source).options(**bench.write_options(arm, topic))
                writer.option("checkpointLocation", place).trigger(availableNow=True).start().awaitTermination()

        bench.compare(f"write {size} B", rows, "rows", arms, batch, rounds)
        bench.compare(f"stream to a topic, {size} B", rows, "rows", arms, stream, rounds)


def triggers(bench: Bench, arms: list[Arm], sinks: list[Arm], rounds: int) -> None:
    """Milliseconds from one small batch to the next, once the query runs."""
    topic = bench.topic(ROWS_PER_TRIGGER * TRIGGERS, 100)

    def run(arm: Arm, sink: Arm | None) -> float:
        frame = bench.read_stream(arm, topic, maxOffsetsPerTrigger=str(ROWS_PER_TRIGGER))
        with checkpoint(bench) as place:
            if sink is None:
                writer = frame.writeStream.format("noop")
            else:
                target = bench.target()
                writer = frame.select("key", "value").writeStream.format(sink.source)
                writer = writer.options(**bench.write_options(sink, target))
            query = writer.option("checkpointLocation", place).trigger(availableNow=True).start()
            query.awaitTermination()
            took = [progress.durationMs["triggerExecution"] for progress in query.recentProgress]
        return statistics.median(took[len(took) // 2 :]) / 1000

    bench.compare("trigger of 400 rows to noop", 1, "trigger", arms, lambda arm: run(arm, None), rounds)
    by_name = {arm.name: sink for arm, sink in zip(arms, sinks)}
    bench.compare("trigger of 400 rows to a topic", 1, "trigger", arms, lambda arm: run(arm, by_name[arm.name]), rounds)


@contextlib.contextmanager
def checkpoint(bench: Bench) -> Iterator[str]:
    place = tempfile.mkdtemp(dir=bench.scratch)
    yield place
    shutil.rmtree(place, ignore_errors=True)


def show(rows: list[dict[str, Any]], not_run: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    shown = Table("question", "arm", "wall", "rate", "CPU s (JVM + Python + broker)", "times the first")
    last = ""
    base = 1.0
    for row in rows:
        first = row["question"] != last
        base = row["seconds"] if first else base
        last = row["question"]
        is_trigger = row["unit"] == "trigger"
        wall = f"{row['seconds'] * 1000:.0f} ms" if is_trigger else f"{row['seconds']:.2f} s"
        rate = "" if is_trigger else f"{row['rows'] / row['seconds'] / 1e6:.2f} M/s"
        cpu = f"{row['jvm']:.1f} + {row['python']:.1f} + {row['broker']:.1f} = {row['cpu']:.1f}"
        shown.add_row(last if first else "", row["arm"], wall, rate, cpu, f"{base / row['seconds']:.2f}x")
    console = Console()
    console.print(shown)
    if not_run:
        console.print("Spark's Kafka connector: not run (name it with --packages or --jars)")


def plot(rows: list[dict[str, Any]], path: pathlib.Path) -> None:
    """Every question with its arms side by side, as many times the first arm: by wall time, and by CPU time."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    questions = list(dict.fromkeys(row["question"] for row in rows))
    arms = list(dict.fromkeys(row["arm"] for row in rows))
    thick = 0.8 / len(arms)
    figure, (wall, cpu) = pyplot.subplots(
        1, 2, sharey=True, figsize=(10, 0.75 * len(questions) + 1.2), layout="constrained"
    )
    for axes, measured, title in ((wall, "seconds", "wall time"), (cpu, "cpu", "CPU seconds: JVM, Python, broker")):
        for number, arm in enumerate(arms):
            at, times = [], []
            for place, question in enumerate(questions):
                asked = [row for row in rows if row["question"] == question]
                found = [row for row in asked if row["arm"] == arm]
                if found:
                    at.append(place + number * thick)
                    times.append(asked[0][measured] / found[0][measured])
            bars = axes.barh(at, times, thick, label=arm)
            axes.bar_label(bars, fmt="%.1f", padding=2, fontsize=7)
        axes.axvline(1, color="black", linewidth=0.5)
        axes.set_title(title, fontsize=10)
        axes.set_xlabel(f"times as good as {arms[0]}")
        axes.spines[["top", "right"]].set_visible(False)
        axes.margins(x=0.1)
    wall.set_yticks([place + thick * (len(arms) - 1) / 2 for place in range(len(questions))], questions, fontsize=8)
    wall.invert_yaxis()
    wall.legend(fontsize=8, loc="lower right")
    figure.savefig(path, dpi=110)


def session(options: argparse.Namespace, scratch: pathlib.Path) -> SparkSession:
    from bifrost.spark import session as bifrost_session

    config = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "3g",
        "spark.local.dir": str(scratch),
        "spark.python.unix.domain.socket.enabled": str(options.unix_sockets).lower(),
    }
    if options.packages:
        config["spark.jars.packages"] = options.packages
    if options.jars:
        config["spark.jars"] = options.jars
    return bifrost_session("bench", master="local[2]", config=config)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, one round: shows that it works")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=["reading", "writing", "triggers"])
    parser.add_argument("--bootstrap", help="use this broker instead of an own one")
    parser.add_argument("--packages", help="coordinates of Spark's Kafka connector")
    parser.add_argument("--jars", help="files of Spark's Kafka connector and what it needs")
    parser.add_argument("--unix-sockets", action="store_true", help="between the JVM and Python, in place of TCP")
    options = parser.parse_args()
    scale, rounds = (10, 1) if options.quick else (1, options.rounds)
    connector = bool(options.packages or options.jars)
    readers, writers = [Arm("bifrost", "bifrost")], [Arm("bifrost", "bifrost")]
    if connector:
        readers = [Arm("kafka", "kafka"), Arm("kafka, tuned", "kafka", READ_TUNED), *readers]
        writers = [Arm("kafka", "kafka"), Arm("kafka, tuned", "kafka", WRITE_TUNED), *writers]
    with contextlib.ExitStack() as stack:
        scratch = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        broker: Bifrost | None = None
        if options.bootstrap is None:
            broker = Bifrost(scratch / "broker")
            broker.start()
            stack.callback(broker.discard)
            broker.drop_topic(broker.new_topic(1, Durability.OS))  # until it serves
            options.bootstrap = broker.bootstrap
        spark = session(options, scratch)
        stack.callback(spark.stop)
        bench = Bench(spark, options.bootstrap, broker, scratch)
        if options.only in (None, "reading"):
            reading(bench, readers, scale, rounds)
        if options.only in (None, "writing"):
            writing(bench, writers, scale, rounds)
        if options.only in (None, "triggers"):
            triggers(bench, readers, writers, rounds)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "spark.json").write_text(json.dumps(bench.rows, indent=2))
    plot(bench.rows, RESULTS / "spark.png")
    show(bench.rows, not connector)


if __name__ == "__main__":
    main()
