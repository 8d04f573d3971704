"""Questions about the producers that a partition knows."""

from __future__ import annotations

from typing import Any

from tests.compat import batches
from tests.compat.clients.base import Record
from tests.compat.questions.catalogue import Answers, fixed, question
from tests.compat.questions.stage import TIME_MS, Ask, Stage


def _describe(name: str, topic: str, *partitions: int) -> None:
    fixed("describe_producers", name, topics=[{"name": topic, "partition_indexes": list(partitions)}])


_describe("of_writers_without_an_id", "@filled", 0)
_describe("of_empty", "@empty", 0)
_describe("of_several_partitions", "@filled", 2, 0, 1)
_describe("of_the_same_partition_twice", "@filled", 0, 0)
_describe("of_no_partition", "@filled")
_describe("of_unknown_partition", "@filled", 0, 9)
_describe("of_unknown_topic", "@missing", 0)
_describe("of_invalid_topic", "with space", 0)
fixed("describe_producers", "of_no_topic", topics=[])


def _after(name: str, *steps: tuple[int, int, int, int]) -> None:
    """Who is known after these batches, as (producer id, epoch, first sequence, records)."""
    suffix = f"producers.{name}"

    def prepare(stage: Stage) -> None:
        stage.create(suffix)

    def function(stage: Stage, ask: Ask) -> Answers:
        for number, (producer_id, epoch, sequence, count) in enumerate(steps):
            records = [Record(b"value", timestamp_ms=TIME_MS + number * 10 + each) for each in range(count)]
            mark: dict[str, Any] = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence}
            data = {"index": 0, "records": batches.encode(records, **mark)}
            topics = [{"name": stage.name(suffix), "partition_data": [data]}]
            answer = ask.wire.ask("produce", 11, acks=-1, timeout=5000, topic_data=topics)
            assert answer["responses"][0]["partition_responses"][0]["error_code"] == "none", answer
        return ask(topics=[{"name": stage.name(suffix), "partition_indexes": [0]}])

    function.__name__ = f"after_{name}"
    question("describe_producers", prepare=prepare)(function)


_after("one_batch", (5000, 0, 0, 1))
_after("several_batches", (5000, 0, 0, 2), (5000, 0, 2, 3))
_after("a_new_epoch", (5000, 0, 0, 4), (5000, 1, 0, 2))
_after("a_repetition", (5000, 0, 0, 2), (5000, 0, 0, 2))
_after("two_producers", (5000, 3, 0, 1), (5001, 4, 7, 2))
_after("the_largest_sequence", (5000, 0, 2**31 - 2, 2))
