"""A topic whose older records were compacted away: Spark plans by offsets, of which many are no longer there."""

from __future__ import annotations

import pytest

from tests.compat.compaction import CLEANER, compacted_topic
from tests.compat.conftest import StartBroker, start_broker  # noqa: F401 - a fixture
from tests.spark.conftest import RunOnce, Tables
from tests.spark.records import from_rows


@pytest.mark.oracle
def test_gaps_are_no_loss(spark: object, start_broker: StartBroker, run_once: RunOnce) -> None:  # noqa: F811
    """In a batch that is cut into many tasks, and in a stream of small batches, some of which have no record at all.

    With `failOnDataLoss`, which is on: what compaction took was to go. At Kafka, since there are transactions, too.
    """
    bootstrap = start_broker("kafka", **CLEANER).bootstrap
    topic, seen = compacted_topic(bootstrap)
    tables = Tables(spark, bootstrap)  # type: ignore[arg-type]
    given = {"subscribe": topic, "kafka_isolation_level": "read_committed", "includeHeaders": "true"}

    assert from_rows(tables.read(**given, maxRecordsPerPartition=7).load().collect()) == seen

    frame = tables.stream(**given, startingOffsets="earliest", maxOffsetsPerTrigger=17).load()
    assert from_rows(run_once(frame)) == seen
