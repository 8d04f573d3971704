"""How long it takes from `with Cluster()` to the first acknowledged write: `python -m tests.integration.start_up`.

The import is timed on its own, because a test session pays it once. The first run of a process compiles codecs and
warms caches; the others are what every further cluster of a session costs.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from itertools import pairwise
from typing import NamedTuple

from bifrost.testing import Cluster
from tests.integration.command import environment
from tests.integration.conftest import create_topic
from tests.integration.wire import Wire, batch


class Times(NamedTuple):
    """Milliseconds."""

    start: float
    create: float
    write: float
    stop: float

    @property
    def first_write(self) -> float:
        return self.start + self.create + self.write


def measure(**settings: str) -> Times:
    moments = [time.perf_counter()]
    with Cluster(**settings) as cluster:
        moments.append(time.perf_counter())
        with Wire(cluster.bootstrap) as wire:
            create_topic(wire, "t")
            moments.append(time.perf_counter())
            assert wire.produce("t", batch(b"x")).error_code == 0
            moments.append(time.perf_counter())
    moments.append(time.perf_counter())
    return Times(*(1000 * (after - before) for before, after in pairwise(moments)))


def import_ms(module: str) -> float:
    """A whole process that imports the module and does nothing else, less one that imports nothing."""

    def run(code: str) -> float:
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, env=environment())
        return 1000 * (time.perf_counter() - started)

    return min(run(f"import {module}") for _ in range(10)) - min(run("pass") for _ in range(10))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    rounds = parser.parse_args().rounds
    print(f"import bifrost.testing: {import_ms('bifrost.testing'):.0f} ms (best of 10)")
    print(f"{'ms':24} {'start':>8} {'create':>8} {'write':>8} {'together':>9} {'stop':>8}")
    for policy in ("os", "ack", "memory"):
        runs = [measure(flush_policy=policy) for _ in range(rounds + 1)]
        for name, some in (
            ("first", runs[:1]),
            ("median", runs[1:]),
            ("best", [min(runs, key=lambda r: r.first_write)]),
        ):
            columns = [statistics.median(column) for column in zip(*some)]
            columns.insert(3, statistics.median(run.first_write for run in some))
            print(f"{policy + ' ' + name:24} " + " ".join(f"{column:8.1f}" for column in columns))


if __name__ == "__main__":
    main()
