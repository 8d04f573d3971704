"""One Spark session for the whole process, the brokers of the compat tests, and topics read by librdkafka to compare.

A session takes seconds to start and every job a fraction of one, so tests ask few questions of Spark, each about much.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bifrost.pipeline.connect import SERVER
from tests.compat.cache import Unavailable
from tests.compat.conftest import broker, new_topic  # noqa: F401 - fixtures
from tests.compat.servers import Server
from tests.spark.connector import connector_jars

if TYPE_CHECKING:
    from pyspark.sql import DataFrameReader, SparkSession
    from pyspark.sql.streaming import DataStreamReader

CONFIG = {
    **SERVER,
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.task.maxFailures": "1",
    "spark.driver.memory": "1g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.log.level": "OFF",
    "spark.sql.session.timeZone": "UTC",
    # A test ends before code is worth compiling well.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}

_IMPATIENT = pytest.mark.flaky(reruns=2, only_rerun=["Python worker failed to connect back"])
"""Spark waits ten seconds for each Python process that it starts, and no setting makes it wait longer. Such a process
reads PySpark from a zip, two seconds of work on an idle core: on a busy machine it may come too late."""

BIFROST_ONLY = pytest.mark.parametrize("broker", ["bifrost"], indirect=True, scope="session")
"""For what does not depend on the broker: one is enough."""
KAFKA_ONLY = pytest.mark.parametrize(
    "broker", [pytest.param("kafka", marks=pytest.mark.oracle)], indirect=True, scope="session"
)
"""For what Bifrost cannot do yet, or what Kafka makes harder."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("spark"))
            # What Spark and py4j leave behind, and what they say of pandas, is theirs.
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::FutureWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::DeprecationWarning"))
            item.add_marker(pytest.mark.timeout(600))
            item.add_marker(_IMPATIENT)


@pytest.fixture(scope="session")
def connector() -> list[Path] | Unavailable:
    """The jars of Spark's own Kafka connector, or why there are none."""
    try:
        return connector_jars()
    except Unavailable as error:
        return error


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """An ordinary session that nobody told about Bifrost: Spark has to find the source by itself."""
    from pyspark.sql import SparkSession

    folder = tmp_path_factory.mktemp("spark")
    builder = SparkSession.builder.master("local[2]").appName("tests")
    for name, value in CONFIG.items():
        builder = builder.config(name, value)
    # Spark takes jars only when it starts. Asking Maven in vain takes seconds, so only if there is a test for it.
    if any("connector" in getattr(item, "fixturenames", ()) for item in request.session.items):
        jars = request.getfixturevalue("connector")
        if not isinstance(jars, Unavailable):
            builder = builder.config("spark.jars", ",".join(map(str, jars)))
    builder = builder.config("spark.local.dir", str(folder)).config(
        "spark.sql.warehouse.dir", str(folder / "warehouse")
    )
    before = dict(os.environ)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # Workers inherit the path: pytest alone knows that the sources are in src.
    os.environ["PYTHONPATH"] = os.pathsep.join(each for each in sys.path if each)
    session = builder.getOrCreate()
    yield session
    session.stop()
    os.environ.clear()
    os.environ.update(before)


class Tables:
    """Spark's readers and writers for one broker."""

    def __init__(self, spark: SparkSession, bootstrap: str) -> None:
        self.spark = spark
        self.bootstrap = bootstrap

    def options(self, **given: object) -> dict[str, str]:
        named = {name.replace("_", "."): str(value) for name, value in given.items()}
        return {"kafka.bootstrap.servers": self.bootstrap, **named}

    def read(self, **given: object) -> DataFrameReader:
        return self.spark.read.format("bifrost").options(**self.options(**given))

    def stream(self, **given: object) -> DataStreamReader:
        return self.spark.readStream.format("bifrost").options(**self.options(**given))

    def write(self, frame: Any, **given: object) -> None:
        frame.write.format("bifrost").options(**self.options(**given)).mode("append").save()


@pytest.fixture
def tables(spark: SparkSession, broker: Server) -> Tables:  # noqa: F811 - the fixture
    return Tables(spark, broker.bootstrap)


RunOnce = Callable[..., list[Any]]


@pytest.fixture
def run_once(spark: SparkSession, tmp_path: Path) -> RunOnce:
    """Runs a stream until it has all there is, and returns the rows that its sink got in this run."""

    def run(frame: Any, checkpoint: str = "checkpoint") -> list[Any]:
        rows: list[Any] = []
        query = (
            frame.writeStream.foreachBatch(lambda batch, _: rows.extend(batch.collect()))
            .option("checkpointLocation", str(tmp_path / checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return rows

    return run
