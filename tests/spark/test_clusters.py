"""`format("bifrost")` where executors run elsewhere, and know nothing of this package until a session brings it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bifrost import Admin
from bifrost.pipeline.scaffold import write_project
from bifrost.testing import Cluster
from tests.compat.conftest import NewTopicFunction
from tests.compat.servers import Server
from tests.spark.cluster import (
    LEAN_JVM,
    WHAT_SPARK_NEEDS,
    WHAT_THE_SOURCE_NEEDS,
    Driver,
    Standalone,
    make_python,
    run_command,
)
from tests.spark.conftest import BIFROST_ONLY, CONFIG
from tests.spark.records import consume, produce
from tests.waiting import eventually

ROWS = 300
PER_PARTITION = 120
BULK = "x" * 100_000
"""A value so large that a task begins to write long before it has seen its last row."""
TWO_TASKS = {"minPartitions": "2"}
"""So few records would be read in one."""


pytestmark = pytest.mark.alone


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with Standalone(tmp_path_factory.mktemp("standalone")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with what the package needs, without the package, and without numba."""
    return make_python(tmp_path_factory.mktemp("libraries"), WHAT_THE_SOURCE_NEEDS)


CLUSTER = {
    "spark.executor.extraJavaOptions": LEAN_JVM,
    "spark.executor.memory": "512m",
    # Ours is the patience of the test: machines that run other work too have executors that seem dead.
    "spark.network.timeout": "600s",
}


def settings(master: str, **more: str) -> dict[str, Any]:
    config = {
        **CONFIG,
        "spark.task.maxFailures": "4",
        "spark.ui.showConsoleProgress": "false",
        **CLUSTER,
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
        source = {**brokers, **TWO_TASKS, "subscribe": self._source, "startingOffsets": "earliest"}
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
    one_executor = {"spark.cores.max": "1"}
    steps = [{"do": "session", "config": one_executor}, {"do": "session", "ship": "venv"}, *journey.steps]
    with Driver(tmp_path / "driver", lean, settings(standalone.master), steps) as driver:
        driver.wait()
    (refusal,) = [line for line in driver.log.splitlines() if line.startswith("refused:")]
    assert "lacks bifrost, cramjam, crc32c, msgspec, numpy, pyarrow" in refusal
    assert "ship='venv'" in refusal
    journey.check()


@pytest.mark.thorough
@BIFROST_ONLY
def test_executors_with_the_libraries_are_given_the_package(
    standalone: Standalone, libraries: Path, broker: Server, new_topic: NewTopicFunction, tmp_path: Path
) -> None:
    """In a session that speculates: a task hangs until its twin on the other host has come."""
    standalone.use_python(libraries)
    trouble = Trouble(tmp_path, broker.bootstrap, new_topic, "slow")
    speculation = {
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.quantile": "0.5",
        **IN_SMALL_PIECES,
    }
    steps = [{"do": "session", "ship": "zip", "config": speculation}, trouble.step]
    with Driver(tmp_path / "driver", None, settings(standalone.master), steps) as driver:
        driver.wait()
    assert "the executors' Python has no numba" in driver.log
    trouble.check()


def test_a_pipeline_brings_the_package_along(standalone: Standalone, libraries: Path, tmp_path: Path) -> None:
    """The project that `bifrost pipeline init` writes, as it is."""
    standalone.use_python(libraries)
    write_project(tmp_path / "readings")
    conf = [f"--conf={name}={value}" for name, value in CLUSTER.items()]
    with Cluster() as cluster:
        with Admin(cluster.bootstrap) as admin:
            for topic in ("readings", "hot-readings"):
                admin.create_topic(topic, partitions=2)
        readings = [{"value": json.dumps({"sensor": "attic", "celsius": each})} for each in (12.0, 31.5, 40.0)]
        produce(cluster.bootstrap, "readings", readings)
        where = ("--master", standalone.master, "--ship", "zip", "--bootstrap", cluster.bootstrap)
        printed = run_command(tmp_path, "pipeline", "run", *where, "--json", *conf, "readings")
        hot = consume(cluster.bootstrap, "hot-readings")
    assert json.loads(printed.splitlines()[-1])["state"] == "completed"
    assert sorted(json.loads(each.value or b"")["celsius"] for each in hot) == [31.5, 40.0]


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
            **TWO_TASKS,
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
