"""`format("bifrost")` where executors run elsewhere, and know nothing of this package until a session brings it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.compat.conftest import NewTopicFunction
from tests.compat.servers import Server
from tests.spark.cluster import LEAN_JVM, WHAT_SPARK_NEEDS, WHAT_THE_SOURCE_NEEDS, Driver, Standalone, make_python
from tests.spark.conftest import BIFROST_ONLY, CONFIG
from tests.spark.records import consume, produce
from tests.waiting import eventually

ROWS = 300
PER_PARTITION = 120
BULK = "x" * 100_000
"""A value so large that a task begins to write long before it has seen its last row."""


pytestmark = pytest.mark.skip(reason="minutes of clusters, and not yet the same in every environment")


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    cluster = Standalone(tmp_path_factory.mktemp("standalone"))
    yield cluster
    cluster.stop()


def settings(master: str, **more: str) -> dict[str, Any]:
    config = {
        **CONFIG,
        "spark.task.maxFailures": "4",
        "spark.ui.showConsoleProgress": "false",
        "spark.executor.extraJavaOptions": LEAN_JVM,
        "spark.executor.memory": "512m",
        **more,
    }
    return {"master": master, "config": config}


class Journey:
    """A batch read, a batch write and a stream, and what must come of them."""

    def __init__(self, folder: Path, bootstrap: str, new_topic: NewTopicFunction) -> None:
        self._bootstrap = bootstrap
        self._source, self._written, self._streamed = new_topic(2), new_topic(2), new_topic(2)
        self._rows = folder / "rows.json"
        records = [{"key": str(each), "value": f"v{each}", "partition": each % 2} for each in range(ROWS)]
        produce(bootstrap, self._source, records)
        brokers = {"kafka.bootstrap.servers": bootstrap}
        source = {**brokers, "subscribe": self._source, "startingOffsets": "earliest"}
        sink = {**brokers, "topic": self._streamed, "checkpointLocation": str(folder / "checkpoint")}
        self.steps: list[dict[str, Any]] = [
            {"do": "read", "options": source, "output": str(self._rows)},
            {"do": "write", "rows": ROWS, "options": {**brokers, "topic": self._written}},
            {"do": "stream", "source": {**source, "maxOffsetsPerTrigger": "200"}, "sink": sink},
        ]

    def check(self) -> None:
        seen = consume(self._bootstrap, self._source)
        expected = [[_text(each.key), _text(each.value), each.partition, each.offset] for each in seen]
        assert json.loads(self._rows.read_text()) == expected
        written = consume(self._bootstrap, self._written)
        assert sorted(int(each.value or b"-1") for each in written) == list(range(ROWS))
        streamed = consume(self._bootstrap, self._streamed)
        assert [(each.key, each.value, each.partition) for each in streamed] == [
            (each.key, each.value, each.partition) for each in seen
        ]


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


@BIFROST_ONLY
def test_executors_with_nothing_are_named_and_then_given_everything(
    standalone: Standalone, broker: Server, new_topic: NewTopicFunction, tmp_path: Path
) -> None:
    standalone.use_python(make_python(tmp_path / "bare"))
    lean = make_python(tmp_path / "lean", (*WHAT_SPARK_NEEDS, *WHAT_THE_SOURCE_NEEDS), own=True)
    journey = Journey(tmp_path, broker.bootstrap, new_topic)
    steps = [{"do": "session"}, {"do": "session", "ship": "venv"}, *journey.steps]
    with Driver(tmp_path / "driver", lean, settings(standalone.master), steps) as driver:
        driver.wait()
    (refusal,) = [line for line in driver.log.splitlines() if line.startswith("refused:")]
    assert "lacks bifrost, cramjam, crc32c, msgspec, numpy, pyarrow" in refusal
    assert "ship='venv'" in refusal
    journey.check()


@BIFROST_ONLY
def test_executors_with_the_libraries_are_given_the_package(
    standalone: Standalone, broker: Server, new_topic: NewTopicFunction, tmp_path: Path
) -> None:
    """Without numba. Then a session that speculates: a task hangs until its twin on the other host has come."""
    standalone.use_python(make_python(tmp_path / "libraries", WHAT_THE_SOURCE_NEEDS))
    journey = Journey(tmp_path, broker.bootstrap, new_topic)
    trouble = Trouble(tmp_path, broker.bootstrap, new_topic, "slow")
    speculation = {
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.quantile": "0.5",
        **IN_SMALL_PIECES,
    }
    ship: dict[str, Any] = {"do": "session", "ship": "zip"}
    steps = [ship, *journey.steps, {**ship, "check": False, "config": speculation}, trouble.step]
    with Driver(tmp_path / "driver", None, settings(standalone.master), steps) as driver:
        driver.wait()
    assert "the executors' Python has no numba" in driver.log
    journey.check()
    trouble.check()


IN_SMALL_PIECES = {"spark.sql.execution.arrow.maxRecordsPerBatch": "10"}


class Trouble:
    """A stream from topic to topic, one task of which gets into trouble when some of its rows are written."""

    def __init__(self, folder: Path, bootstrap: str, new_topic: NewTopicFunction, kind: str, batches: int = 1) -> None:
        self._bootstrap = bootstrap
        self.source, self.target = new_topic(2), new_topic(2)
        self.folder = folder / kind
        self.folder.mkdir()
        self._batches = batches
        total = 2 * PER_PARTITION * batches
        records = [{"key": str(each), "value": f"{each}{BULK}", "partition": each % 2} for each in range(total)]
        produce(bootstrap, self.source, records)
        self.source_options = {
            "kafka.bootstrap.servers": bootstrap,
            "subscribe": self.source,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(2 * PER_PARTITION),
        }
        self.sink_options = {
            "kafka.bootstrap.servers": bootstrap,
            "topic": self.target,
            "checkpointLocation": str(self.folder / "checkpoint"),
        }
        self.step = {
            "do": "stream",
            "source": self.source_options,
            "sink": self.sink_options,
            "trouble": {
                "kind": kind,
                "at_key": str(total - 22),
                "folder": str(self.folder),
                "bootstrap": bootstrap,
                "topic": self.target,
                "written": PER_PARTITION * (batches - 1),
            },
        }

    def check(self, *, together: bool = False) -> None:
        """Nothing is lost. What came twice is of the one task, or of its batch, that was in trouble."""
        seen = Counter(int(each.key or b"-1") for each in consume(self._bootstrap, self.target))
        assert sorted(seen) == list(range(2 * PER_PARTITION * self._batches))
        twice = {number for number, times in seen.items() if times > 1}
        assert twice, "the trouble came too early to prove anything"
        assert min(twice) >= 2 * PER_PARTITION * (self._batches - 1), "an earlier batch was written again"
        assert together or {number % 2 for number in twice} == {0}, "a task that was not in trouble ran again"


@BIFROST_ONLY
def test_tasks_executors_and_drivers_that_die(
    broker: Server, new_topic: NewTopicFunction, tmp_path: Path, tables: Any
) -> None:
    """In a local cluster. The driver dies last, and another one goes on from its checkpoint."""
    worker, executor, driver_dies = (
        Trouble(tmp_path, broker.bootstrap, new_topic, kind, batches)
        for kind, batches in (("worker", 1), ("executor", 1), ("driver", 2))
    )
    steps = [{"do": "session"}, worker.step, executor.step, driver_dies.step]
    with Driver(tmp_path / "driver", None, settings("local-cluster[2,1,1024]", **IN_SMALL_PIECES), steps) as driver:
        half_written = driver_dies.folder / "waits"
        eventually(lambda: half_written.exists() or not driver.runs(), "the last batch is half written", 240)
        assert driver.runs(), driver.log
    worker.check()
    executor.check()

    frame = tables.spark.readStream.format("bifrost").options(**driver_dies.source_options).load()
    query = (
        frame.select("key", "value", "partition")
        .writeStream.format("bifrost")
        .options(**driver_dies.sink_options)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    driver_dies.check(together=True)
