"""Projects of `bifrost pipeline init`, run: in the shared session, and by the command with a driver of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import bifrost
from bifrost.client.errors import UnknownTopicError
from bifrost.pipeline import PipelineError, run
from bifrost.pipeline.flows import Flow
from bifrost.pipeline.running import Watcher
from bifrost.pipeline.scaffold import write_project
from bifrost.testing import Cluster
from tests.waiting import PATIENCE_S, eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOT = [31.5, 36.0, 40.5]
COLD = [12.0, 29.5]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running


@pytest.fixture
def topics(cluster: Cluster) -> str:
    """A broker with the topics of a new project and some readings."""
    with bifrost.Admin(cluster.bootstrap) as admin:
        for topic in ("readings", "hot-readings"):
            admin.create_topic(topic, partitions=2)
    send(cluster.bootstrap, [*HOT, *COLD])
    return cluster.bootstrap


@pytest.fixture
def project(spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
    write_project(tmp_path / "readings")
    yield tmp_path / "readings"
    for table in spark.catalog.listTables():
        spark.sql(f"DROP TABLE {table.name}")


def send(bootstrap: str, readings: list[float]) -> None:
    with bifrost.Producer(bootstrap, key="str", value="json") as producer:
        for celsius in readings:
            producer.send("readings", {"sensor": "attic", "celsius": celsius}, key="attic")


def hot(bootstrap: str) -> list[float]:
    options = {"bootstrap": bootstrap, "value": "json", "from_beginning": True, "until_end": True}
    with bifrost.Consumer("hot-readings", **options) as consumer:  # type: ignore[arg-type]
        return sorted(message.value["celsius"] for message in consumer)


class Heard(Watcher):
    """Every state that a flow was seen in."""

    def __init__(self) -> None:
        self.stages: list[str] = []
        self.states: dict[str, list[str]] = {}

    def stage(self, text: str) -> None:
        self.stages.append(text)

    def changed(self, flows: list[Flow]) -> None:
        for flow in flows:
            seen = self.states.setdefault(flow.name, [])
            if not seen or seen[-1] != flow.state:
                seen.append(flow.state)


def test_a_new_project_is_valid_and_runs(spark: SparkSession, project: Path, topics: str) -> None:
    checked = run(project, bootstrap=topics, master="local[2]", dry_run=True)
    assert {flow.name for flow in checked.flows} == {"readings", "sensors", "hot_readings"}
    assert not spark.catalog.tableExists("readings"), "a dry run must leave nothing behind"
    heard = Heard()
    outcome = run(project, bootstrap=topics, master="local[2]", watcher=heard)
    assert hot(topics) == HOT
    readings, hot_readings = outcome.flow("readings"), outcome.flow("hot_readings")
    assert (readings.reads, readings.rows_read, readings.lag) == (("readings",), 5, 0)
    assert (hot_readings.writes, hot_readings.rows_written) == ("hot-readings", len(HOT))
    assert all(states[-1] == "completed" for states in heard.states.values())
    assert [(row.sensor, row.readings, row.hottest) for row in spark.table("sensors").collect()] == [("attic", 5, 40.5)]
    # A second run takes only what is new.
    send(topics, [50.0])
    assert run(project, bootstrap=topics, master="local[2]").flow("hot_readings").rows_written == 1
    assert hot(topics) == [*HOT, 50.0]
    assert "SPARK_CONNECT_MODE_ENABLED" not in os.environ


def test_a_topic_that_is_not_there_is_named_before_anything_runs(project: Path, cluster: Cluster) -> None:
    with bifrost.Admin(cluster.bootstrap) as admin:
        admin.create_topic("reading", partitions=1)
        admin.create_topic("hot-readings", partitions=1)
    with pytest.raises(UnknownTopicError, match="readings reads topic readings, which does not exist") as raised:
        run(project, bootstrap=cluster.bootstrap, master="local[2]")
    assert "Did you mean reading?" in raised.value.hint


def test_mistakes_in_definitions_are_one_line_with_their_place(project: Path, topics: str) -> None:
    definitions = project / "transformations" / "readings.py"
    good = definitions.read_text()
    definitions.write_text(good.replace('F.col("celsius") > TOO_HOT', 'F.col("kelvin") > TOO_HOT'))
    with pytest.raises(PipelineError, match=r"flow hot_readings failed: .*`kelvin`") as raised:
        run(project, bootstrap=topics, master="local[2]", dry_run=True)
    assert "\n" not in raised.value.problem
    definitions.write_text(good.replace("@dp.materialized_view", "@dp.materialised_view"))
    with pytest.raises(PipelineError, match=r"^transformations/readings.py:\d+: AttributeError: .*materialised_view"):
        run(project, bootstrap=topics, master="local[2]", dry_run=True)


BROKEN = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

spark = SparkSession.active()


@dp.materialized_view
def fine():
    return spark.range(3)


@dp.materialized_view
def broken():
    return spark.range(3).selectExpr("raise_error('too hot') AS reading")
"""


def test_a_flow_that_fails_while_it_runs_fails_the_run(project: Path, cluster: Cluster) -> None:
    (project / "transformations" / "readings.py").write_text(BROKEN)
    spec = project / "spark-pipeline.yml"
    spec.write_text(f'{spec.read_text().rstrip()}\n  spark.sql.pipelines.maxFlowRetryAttempts: "0"\n')
    heard = Heard()
    with pytest.raises(PipelineError, match=r"^flow broken failed: .*too hot") as raised:
        run(project, bootstrap=cluster.bootstrap, master="local[2]", watcher=heard)
    assert "\n" not in raised.value.problem
    assert raised.value.hint == "", "the driver is not the run's own, and there is no log to look at"
    assert {name: states[-1] for name, states in heard.states.items()} == {"fine": "completed", "broken": "failed"}


def command(project: Path, bootstrap: str, *more: str) -> list[str]:
    quick = ["spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC", "spark.sql.shuffle.partitions=1"]
    settings = [word for setting in quick for word in ("--conf", setting)]
    options = ["--bootstrap", bootstrap, "--master", "local[2]", *settings, "--json", *more]
    return [sys.executable, "-m", "bifrost", "pipeline", "run", *options, str(project)]


@pytest.fixture
def environment() -> dict[str, str]:
    """For programs: pytest alone knows that the sources are in src."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(each for each in sys.path if each)}


def javas(word: str) -> list[int]:
    """Processes of Java with that word in their arguments."""
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            arguments = (directory / "cmdline").read_bytes().split(b"\0")
            if arguments[0].endswith(b"java") and any(word.encode() in each for each in arguments):
                found.append(int(directory.name))
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_interrupted_while_spark_starts_nothing_is_left_behind(
    tmp_path: Path, topics: str, environment: dict[str, str]
) -> None:
    write_project(tmp_path / "readings")
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command(tmp_path / "readings", topics), stdout=pipe, stderr=pipe, text=True, env=environment
    ) as program:
        eventually(lambda: javas(str(tmp_path)), "Java starts")
        program.send_signal(signal.SIGINT)
        said, complaints = program.communicate(timeout=PATIENCE_S)
    assert program.returncode == 130
    assert [json.loads(line)["state"] for line in said.splitlines()] == ["stopped"]
    assert complaints == ""
    assert javas(str(tmp_path)) == []


def test_interrupted_and_run_again_by_the_command(tmp_path: Path, topics: str, environment: dict[str, str]) -> None:
    """Drivers of their own: the catalog must outlive the first, or the second stops at the tables it left."""
    write_project(tmp_path / "readings")
    first = subprocess.Popen(command(tmp_path / "readings", topics), stdout=subprocess.PIPE, text=True, env=environment)
    assert first.stdout is not None
    for line in first.stdout:
        if json.loads(line).get("state") == "running":
            first.send_signal(signal.SIGINT)
            break
    rest = first.stdout.read().splitlines()
    assert first.wait(60) == 130
    assert json.loads(rest[-1])["state"] == "stopped"
    second = subprocess.run(
        command(tmp_path / "readings", topics), capture_output=True, text=True, env=environment, check=False
    )
    assert second.returncode == 0, second.stderr
    assert json.loads(second.stdout.splitlines()[-1])["state"] == "completed"
    assert set(hot(topics)) == set(HOT)
