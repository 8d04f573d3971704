"""Seconds from starting pytest to the first green test that needs a broker: Bifrost's fixture beside Apache Kafka.

    python -m bench.first_green_test [--rounds 7]

The test is the same: write one record, read it back with a consumer group. Each round is a fresh process, and the two
take turns. Kafka gets what makes it start fastest: a data directory that was formatted before, and a JVM with the
serial collector and the quick compiler only. Both let groups form at once. Prints JSON: the median, and all rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

from bench import machine

_ROOT = pathlib.Path(__file__).resolve().parent.parent

_TEST = """
from confluent_kafka import Consumer, Producer


def test_greeting(bootstrap):
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce("greetings", key="hello", value="world")
    producer.flush()
    settings = {"bootstrap.servers": bootstrap, "group.id": "readers", "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "allow.auto.create.topics": True})
    consumer.subscribe(["greetings"])
    message = None
    while message is None or message.error():
        message = consumer.poll(1)
    assert message.value() == b"world"
    consumer.close()
"""

_FIXTURES = {
    "bifrost": """
import pytest


@pytest.fixture(scope="session")
def bootstrap(bifrost_bootstrap):
    return bifrost_bootstrap
""",
    "kafka": """
import pytest

from tests.compat.oracle import KafkaNode


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory):
    node = KafkaNode(tmp_path_factory.mktemp("kafka"), group_initial_rebalance_delay_ms="0")
    node.start()
    yield f"127.0.0.1:{node.port}"
    node.stop()
""",
    "no broker": """
import pytest


@pytest.fixture(autouse=True)
def bootstrap():
    pytest.skip("only what pytest itself takes")
""",
}


def _environment() -> dict[str, str]:
    paths = [str(_ROOT / "src"), str(_ROOT), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "PYTHONUNBUFFERED": "1"}


def _plugin() -> list[str]:
    """Nothing if the distribution is installed, as it is for users."""
    from importlib.metadata import entry_points

    installed = any(point.value == "bifrost.testing.plugin" for point in entry_points(group="pytest11"))
    return [] if installed else ["-p", "bifrost.testing.plugin"]


def _round(folder: pathlib.Path) -> tuple[float, float]:
    """Seconds until the test is reported, and until pytest has ended."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-v",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:randomly",
        *_plugin(),
        str(folder),
    ]
    started = time.monotonic()
    with subprocess.Popen(
        command, cwd=folder, env=_environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        green = None
        said = []
        for line in process.stdout:
            said.append(line)
            if green is None and ("PASSED" in line or "SKIPPED" in line):
                green = time.monotonic() - started
    ended = time.monotonic() - started
    if process.returncode != 0 or green is None:
        raise RuntimeError("".join(said))
    return green, ended


def measure(rounds: int) -> dict[str, Any]:
    """All kinds in turns, after one round of each that warms the caches of files and bytecode."""
    seconds: dict[str, list[tuple[float, float]]] = {kind: [] for kind in _FIXTURES}
    with tempfile.TemporaryDirectory() as root:
        for kind, fixture in _FIXTURES.items():
            folder = pathlib.Path(root) / kind.replace(" ", "-")
            folder.mkdir()
            (folder / "pytest.ini").write_text("[pytest]\n")
            (folder / "conftest.py").write_text(fixture)
            (folder / "test_greeting.py").write_text(_TEST)
            _round(folder)
        for _ in range(rounds):
            for kind in _FIXTURES:
                seconds[kind].append(_round(pathlib.Path(root) / kind.replace(" ", "-")))
    return {
        kind: {
            "first_green_s": round(statistics.median(green for green, _ in rows), 2),
            "whole_run_s": round(statistics.median(ended for _, ended in rows), 2),
            "rounds": [[round(green, 2), round(ended, 2)] for green, ended in rows],
        }
        for kind, rows in seconds.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    chosen = parser.parse_args()
    print(json.dumps({"machine": machine.facts(), **measure(chosen.rounds)}, indent=2))


if __name__ == "__main__":
    main()
