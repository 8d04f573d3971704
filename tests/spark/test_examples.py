"""The examples, small: what Spark finds is what plain Python counts."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from examples.fleet import delivery, demo
from examples.fleet.expected import expect
from examples.fleet.findings import look as look_at_fleet
from examples.fleet.trucks import day, fleet
from examples.orders.demo import create_topics, look, run_twice
from examples.orders.shop import afternoon

from bifrost.pipeline import run
from bifrost.testing import Cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running


@pytest.fixture
def no_tables(spark: SparkSession) -> Iterator[None]:
    """The session is shared, and so is its catalog."""
    yield
    for table in spark.catalog.listTables():
        spark.sql(f"DROP TABLE {table.name}")


@pytest.mark.usefixtures("no_tables")
def test_the_fleet(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    rng = random.Random(7)
    reports = day(fleet(6, rng), 2, rng)
    half = len(reports) // 2
    delivery.create_topics(cluster.bootstrap, replicas=1)
    acknowledged = 0
    for part in (reports[:half], reports[half:]):
        stream = delivery.Stream(cluster.bootstrap)
        stream.send(part)
        acknowledged += len(stream.acknowledged)
        outcome = run(demo.PROJECT, bootstrap=cluster.bootstrap, master="local[2]", storage=tmp_path)
        assert [(flow.name, flow.state, flow.problem) for flow in outcome.flows] == [
            (name, "completed", "") for name in ("positions", "truck_windows", "alerts")
        ]
        assert outcome.flow("positions").lag == 0
    assert delivery.read_back(cluster.bootstrap, reports, acknowledged).good
    expected = expect([reports[:half], reports[half:]])
    assert expected.too_late > 0, "nothing in this story is late: it proves nothing"
    assert expected.open > 0
    assert {kind for _, kind, _ in expected.alerts} == {"speeding", "standing"}
    findings = look_at_fleet(spark, cluster.bootstrap)
    assert findings.differences(expected) == []

    from examples.fleet.map import draw

    draw(findings, tmp_path / "map.png")
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")


@pytest.fixture
def one_task(spark: SparkSession) -> Iterator[None]:
    """A join keeps four stores for each partition of its shuffle, and opens and commits them in every batch."""
    before = str(spark.conf.get("spark.sql.shuffle.partitions"))
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    yield
    spark.conf.set("spark.sql.shuffle.partitions", before)


@pytest.mark.usefixtures("one_task")
def test_the_shop(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    orders, payments = afternoon(1_500, random.Random(7))
    create_topics(cluster.bootstrap)
    run_twice(spark, cluster.bootstrap, tmp_path, orders, payments)
    findings = look(cluster.bootstrap)
    assert findings.differences(orders, payments) == []
    assert findings.partitions == {"Grocery": {0}, "Dairy": {1}, "Non-Food": {2}}
    assert 0 < len(findings.paid) < len(orders)
