"""What becomes of time and memory when a topic grows: it is read whole at every size, as columns and by Spark.

    python -m bench.growth [--rows 1000000,10000000,100000000] [--only arrow|spark]

One topic of 100 B values on an own broker grows from size to size. Reading is done once for practice and then once at
each size, with a `read_arrow` that looks at one batch after the other, and with a count and a sum of lengths in Spark.
Memory is the peak of the resident set during the reading: of this process (which reads), of the JVM, and of the largest
of Spark's Python workers. A last column says how much slower a row was than at the first size: 1.0 is linear.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import bifrost
from bench import procfs
from bench.arrow import PARTITIONS, table
from bifrost.testing import Cluster

TOPIC = "growth"
WRITTEN_AT_A_TIME = 200_000
PRACTICE = 200_000


class Taken(NamedTuple):
    """One reading."""

    how: str
    rows: int
    seconds: float
    peaks: dict[str, int]


def grow(bootstrap: str, there: int, rows: int) -> None:
    part = table(WRITTEN_AT_A_TIME, 100)
    for _ in range((rows - there) // WRITTEN_AT_A_TIME):
        bifrost.write_arrow(TOPIC, part, bootstrap=bootstrap)


class Arrow:
    """In this process."""

    name = "read_arrow"

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def read(self) -> int:
        return sum(batch.num_rows for batch in bifrost.read_arrow(TOPIC, bootstrap=self._bootstrap))

    def pids(self) -> dict[str, list[int]]:
        return {"this process": [os.getpid()]}


class Spark:
    """In a session with two cores and the memory that Spark takes unless told otherwise."""

    name = "spark.read"

    def __init__(self, bootstrap: str, scratch: str) -> None:
        from bifrost.spark import session

        config = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.log.level": "ERROR",
            "spark.sql.shuffle.partitions": "2",
            "spark.local.dir": scratch,
        }
        self.session = session("growth", master="local[2]", config=config)
        self._options = {"kafka.bootstrap.servers": bootstrap, "subscribe": TOPIC}

    def read(self) -> int:
        from pyspark.sql import functions as f

        frame = self.session.read.format("bifrost").options(**self._options).load()
        (found,) = frame.agg(f.count("*").alias("rows"), f.sum(f.length("value"))).collect()
        return int(found["rows"])

    def pids(self) -> dict[str, list[int]]:
        gateway: Any = self.session.sparkContext._gateway
        jvm, *workers = procfs.process_tree(gateway.proc.pid)
        return {"JVM": [jvm], "Python worker": workers}


def measure(how: str, read: Callable[[], int], pids: Callable[[], dict[str, list[int]]], rows: int) -> Taken:
    for found in pids().values():
        procfs.forget_peaks(found)
    began = time.perf_counter()
    found = read()
    seconds = time.perf_counter() - began
    assert found == rows, f"{found} of {rows} rows"
    return Taken(how, rows, seconds, {who: procfs.largest_peak_bytes(them) for who, them in pids().items()})


def run(sizes: list[int], only: str | None) -> Iterator[Taken]:
    with contextlib.ExitStack() as stack:
        scratch = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        bootstrap = stack.enter_context(Cluster(processes=True, data_dir=scratch / "broker")).bootstrap
        with bifrost.Admin(bootstrap) as admin:
            admin.create_topic(TOPIC, partitions=PARTITIONS)
        grow(bootstrap, 0, PRACTICE)
        readers: list[Arrow | Spark] = [Arrow(bootstrap)] if only != "spark" else []
        if only != "arrow":
            readers.append(made := Spark(bootstrap, str(scratch)))
            stack.callback(made.session.stop)
        for reader in readers:
            reader.read()
        there = PRACTICE
        for rows in sizes:
            grow(bootstrap, there, rows)
            there = rows
            for reader in readers:
                yield measure(reader.name, reader.read, reader.pids, rows)


def main() -> None:
    from rich.console import Console
    from rich.table import Table

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="1000000,10000000,100000000", help="sizes of the topic, growing")
    parser.add_argument("--only", choices=["arrow", "spark"])
    options = parser.parse_args()
    sizes = sorted(int(size) for size in options.rows.split(","))
    console = Console()
    shown = Table("rows", "how", "seconds", "M rows/s", "peak memory, MB", "time per row")
    first: dict[str, float] = {}
    for taken in run(sizes, options.only):
        per_row = taken.seconds / taken.rows
        ratio = per_row / first.setdefault(taken.how, per_row)
        peaks = ", ".join(f"{who} {peak / 1e6:,.0f}" for who, peak in taken.peaks.items())
        rate = f"{taken.rows / taken.seconds / 1e6:.2f}"
        shown.add_row(f"{taken.rows:,}", taken.how, f"{taken.seconds:.2f}", rate, peaks, f"{ratio:.2f}x")
        console.print(f"{taken.rows:,} rows by {taken.how}: {taken.seconds:.2f} s; {peaks}", style="dim")
    console.print(shown)


if __name__ == "__main__":
    main()
