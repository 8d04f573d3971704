"""Questions about records that are deleted from the beginning of a partition, and where its log begins then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.compat import batches, wire
from tests.compat.clients.base import Record
from tests.compat.questions.catalogue import Answers, fixed, question
from tests.compat.questions.stage import TIME_MS, Ask, Stage
from tests.compat.wire import Answer, Wire

_TIMEOUT_MS = 10_000


def _filled(suffix: str, configs: dict[str, str] | None = None) -> Callable[[Stage], None]:
    """A topic of the question's own: twelve records in three batches."""

    def prepare(stage: Stage) -> None:
        name = stage.create(suffix, 1, configs)
        with Wire(stage.bootstrap) as connection:
            for start in (0, 4, 8):
                records = [
                    Record(b"value %d" % number, key=b"key", timestamp_ms=TIME_MS + number * 1000)
                    for number in range(start, start + 4)
                ]
                data = {"index": 0, "records": batches.encode(records)}
                topics = [{"name": name, "partition_data": [data]}]
                answer = connection.ask("produce", 11, acks=-1, timeout=5000, topic_data=topics)
                assert answer["responses"][0]["partition_responses"][0]["error_code"] == "none", answer

    return prepare


def _delete(stage: Stage, ask: Ask, suffix: str, *offsets: int) -> Answer:
    partitions = [{"partition_index": 0, "offset": offset} for offset in offsets]
    return ask(topics=[{"name": stage.name(suffix), "partitions": partitions}], timeout=_TIMEOUT_MS)


def _where(stage: Stage, connection: Wire, suffix: str, timestamp: int) -> Answer:
    wanted = {"partition_index": 0, "timestamp": timestamp, "current_leader_epoch": -1}
    topics = [{"name": stage.name(suffix), "partitions": [wanted]}]
    return connection.ask("list_offsets", 7, replica_id=-1, isolation_level=0, topics=topics)


def _epoch_end(stage: Stage, connection: Wire, suffix: str) -> Answer:
    wanted = {"partition": 0, "leader_epoch": 0, "current_leader_epoch": -1}
    topics = [{"topic": stage.name(suffix), "partitions": [wanted]}]
    return connection.ask("offset_for_leader_epoch", 3, replica_id=-1, topics=topics)


def _fetch(stage: Stage, connection: Wire, suffix: str, offset: int) -> Answer:
    wanted = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
    topics = [{"topic": stage.name(suffix), "partitions": [wanted]}]
    return connection.ask("fetch", 11, max_wait=0, min_bytes=0, max_bytes=1 << 20, topics=topics)


@question("delete_records", prepare=_filled("trimmed"))
def up_to_an_offset(stage: Stage, ask: Ask) -> Answers:
    """Inside a batch, and a little further with each version."""
    offset = 5 + ask.version
    return [
        _delete(stage, ask, "trimmed", offset),
        *(_where(stage, ask.wire, "trimmed", each) for each in (-2, -1, -3, TIME_MS, TIME_MS + 3000, TIME_MS + 9000)),
        _epoch_end(stage, ask.wire, "trimmed"),
        _fetch(stage, ask.wire, "trimmed", offset - 1),
        _fetch(stage, ask.wire, "trimmed", offset),
    ]


@question("delete_records", prepare=_filled("emptied"))
def all_there_is(stage: Stage, ask: Ask) -> Answers:
    return [
        _delete(stage, ask, "emptied", -1),
        *(_where(stage, ask.wire, "emptied", each) for each in (-2, -1, TIME_MS)),
        _epoch_end(stage, ask.wire, "emptied"),
        _fetch(stage, ask.wire, "emptied", 0),
        _fetch(stage, ask.wire, "emptied", 12),
    ]


@question("delete_records", prepare=_filled("emptied_of_max"))
def the_greatest_timestamp_with_the_rest(stage: Stage, ask: Ask) -> Answers:
    return [_delete(stage, ask, "emptied_of_max", -1), _where(stage, ask.wire, "emptied_of_max", -3)]


@question("delete_records", prepare=_filled("trimmed_twice"))
def what_is_gone_already(stage: Stage, ask: Ask) -> Answers:
    return [_delete(stage, ask, "trimmed_twice", offset) for offset in (6, 6, 3, 0)]


@question("delete_records", prepare=_filled("too_far"))
def beyond_the_end(stage: Stage, ask: Ask) -> Answers:
    return [_delete(stage, ask, "too_far", offset) for offset in (13, 1 << 62, -2)]


@question("delete_records", prepare=_filled("named_twice"))
def the_same_partition_twice(stage: Stage, ask: Ask) -> Answers:
    return _delete(stage, ask, "named_twice", 2, 4)


@question("delete_records", prepare=_filled("kept", {"cleanup.policy": "compact"}))
def of_a_compacted_topic(stage: Stage, ask: Ask) -> Answers:
    return _delete(stage, ask, "kept", 0)


@question("delete_records", prepare=_filled("both", {"cleanup.policy": "compact,delete"}))
def of_a_topic_that_is_compacted_and_deleted(stage: Stage, ask: Ask) -> Answers:
    return _delete(stage, ask, "both", 3)


@question("delete_records", prepare=_filled("neither", {"cleanup.policy": ""}))
def of_a_topic_with_an_empty_policy(stage: Stage, ask: Ask) -> Answers:
    return _delete(stage, ask, "neither", 3)


@question("delete_records", prepare=_filled("produced_to"))
def producers_are_told(stage: Stage, ask: Ask) -> Answers:
    deleted = _delete(stage, ask, "produced_to", -1)
    data = {"index": 0, "records": batches.encode([Record(b"more", timestamp_ms=TIME_MS)])}
    topics = [{"name": stage.name("produced_to"), "partition_data": [data]}]
    return [deleted, ask.wire.ask("produce", 11, acks=-1, timeout=5000, topic_data=topics)]


def _group_topic(stage: Stage) -> None:
    """Somebody asks for a coordinator, and the broker makes its topic."""
    with Wire(stage.bootstrap) as connection:
        while connection.ask("find_coordinator", 3, key="g", key_type=0)["error_code"] != "none":
            pass
        wire.topic_id(connection, "__consumer_offsets")


@question("delete_records", prepare=_group_topic)
def of_an_internal_topic(stage: Stage, ask: Ask) -> Answers:
    topics = [{"name": "__consumer_offsets", "partitions": [{"partition_index": 0, "offset": 0}]}]
    return ask(topics=topics, timeout=_TIMEOUT_MS)


def _refused(name: str, topic: str, partition: int = 0, **extra: Any) -> None:
    topics = [{"name": topic, "partitions": [{"partition_index": partition, "offset": 0}]}]
    fixed("delete_records", name, topics=topics, timeout=_TIMEOUT_MS, **extra)


_refused("unknown_topic", "@missing")
_refused("unknown_partition", "@filled", partition=9)
_refused("negative_partition", "@filled", partition=-1)
_refused("invalid_topic", "with space")
fixed("delete_records", "nothing", topics=[], timeout=_TIMEOUT_MS)
fixed("delete_records", "no_partitions", topics=[{"name": "@filled", "partitions": []}], timeout=_TIMEOUT_MS)
