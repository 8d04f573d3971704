"""`format("bifrost")` beside `format("kafka")`: the same rows, and checkpoints that go from one to the other and back.

Needs Spark's Kafka connector (see `connector`); what these tests compare is compared with librdkafka everywhere else.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.compat.cache import Unavailable
from tests.compat.conftest import NewTopicFunction, skip_without
from tests.compat.servers import Server
from tests.spark.conftest import BIFROST_ONLY, Tables
from tests.spark.records import CODECS, produce

FORMATS = ("kafka", "bifrost")


@pytest.fixture(autouse=True)
def _connector(connector: list[Path] | Unavailable) -> None:
    if isinstance(connector, Unavailable):
        skip_without(connector)


def test_every_row_is_the_same(tables: Tables, broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic(3, {"retention.ms": "-1"})
    for number, codec in enumerate(CODECS):
        records: list[dict[str, Any]] = [
            {
                "key": None if each % 3 == 0 else f"key-{each}",
                "value": None if each % 5 == 0 else f"{codec}-{each}",
                "partition": each % 3,
                "timestamp": 1_700_000_000_000 + number * 1000 + each,
                "headers": [("a", b"1"), ("a", None), ("é", b"")][: each % 4] or None,
            }
            for each in range(60)
        ]
        produce(broker.bootstrap, topic, records, codec)

    def numbers(*each: int) -> str:
        return json.dumps({topic: dict(enumerate(each * 3 if len(each) == 1 else each))})

    for given in (
        {"includeHeaders": "true"},
        {"startingOffsets": numbers(7, -2, 30), "endingOffsets": numbers(20, 5, -1)},
        {"startingTimestamp": "1700000001030", "endingTimestamp": "1700000003010", "minPartitions": "7"},
        {"startingOffsetsByTimestamp": numbers(1_700_000_002_000, 1, 1_700_000_004_050), "minPartitions": "2"},
        # The connector cuts ranges of a batch by size only where both ends are numbers.
        {"startingOffsets": numbers(0), "endingOffsets": numbers(90), "maxRecordsPerPartition": "40"},
    ):
        theirs, ours = (
            tables.spark.read.format(name).options(**tables.options(subscribe=topic, **given)).load()
            for name in FORMATS
        )
        assert ours.schema == theirs.schema
        if given.keys() & {"minPartitions", "maxRecordsPerPartition"}:
            assert ours.rdd.getNumPartitions() == theirs.rdd.getNumPartitions(), given
        rows = sorted(map(repr, theirs.collect()))
        assert rows, given
        assert sorted(map(repr, ours.collect())) == rows, given


Counts = dict[str, int]
CountValues = Callable[..., Counts]


@pytest.fixture
def count_values(tables: Tables, tmp_path: Path) -> CountValues:
    """Runs a query with state until it has all there is, and returns the counts that this run has changed."""

    def run(name: str, *, fail: bool = False, **given: object) -> Counts:
        counts: Counts = {}

        def take(batch: Any, _: int) -> None:
            if fail:
                raise ValueError("this batch is never done")
            counts.update({bytes(row.value).decode(): row["count"] for row in batch.collect()})

        frame = tables.spark.readStream.format(name).options(**tables.options(**given)).load()
        query = (
            frame.groupBy("value")
            .count()
            .writeStream.foreachBatch(take)
            .outputMode("update")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return counts

    return run


def test_a_query_with_state_goes_over_and_back_on_its_checkpoint(
    count_values: CountValues, broker: Server, new_topic: NewTopicFunction, tmp_path: Path
) -> None:
    topic = new_topic(2)
    given = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": 4}
    for number, name in enumerate(("kafka", "bifrost", "kafka", "bifrost"), start=1):
        produce(broker.bootstrap, topic, [{"value": f"v{each}", "partition": each % 2} for each in range(6)])
        assert count_values(name, **given) == {f"v{each}": number for each in range(6)}, name
    offsets = sorted((tmp_path / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    ends = [json.loads(path.read_text().splitlines()[-1])[topic] for path in offsets]
    assert ends[-1] == {"0": 3 * 4, "1": 3 * 4}
    assert all(set(end) == {"0", "1"} for end in ends)


@BIFROST_ONLY
def test_a_query_that_has_not_finished_its_first_batch_goes_over_with_the_start_that_the_connector_wrote_down(
    count_values: CountValues, broker: Server, new_topic: NewTopicFunction, tmp_path: Path
) -> None:
    """As docs/spark.md says. Without the line it would start at the end of the topic, and skip what was planned."""
    topic = new_topic()
    produce(broker.bootstrap, topic, [{"value": "before"}] * 3)
    start = {topic: {"0": 1}}
    with pytest.raises(Exception, match="this batch is never done"):
        count_values("kafka", fail=True, subscribe=topic, startingOffsets=json.dumps(start))
    assert not list((tmp_path / "checkpoint" / "commits").glob("[0-9]*"))
    written = (tmp_path / "checkpoint" / "sources" / "0" / "0").read_text().splitlines()[-1]
    assert json.loads(written) == start

    produce(broker.bootstrap, topic, [{"value": "after"}])
    assert count_values("bifrost", subscribe=topic, startingOffsets=written) == {"before": 2, "after": 1}
