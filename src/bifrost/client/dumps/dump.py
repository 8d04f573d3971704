"""From a topic to a file.

A dump ends where the topic ended when it began, even if more is written meanwhile. Partitions come one after another,
so that the same records give the same file. Nothing is committed, and no group is joined.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bifrost.client.clusters import Connection, resolve
from bifrost.client.dumps.files import check_name, written
from bifrost.client.dumps.rows import APPEND_TIME, Row
from bifrost.client.errors import InvalidRequestError, TimedOutError, UnknownPartitionError, from_kafka
from bifrost.client.options import client_options

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

    from bifrost.client.admin import Admin

TIMEOUT_S = 15.0
_BATCH = 500
_POLL_S = 0.2

_READER = {
    "group.id": "bifrost-dump",  # never joined; librdkafka insists on a name
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "queued.max.messages.kbytes": 8192,
    "fetch.wait.max.ms": 50,  # a partition that ends in records nobody sees is known to end when a fetch is empty
}

Progress = Callable[[int, int], None]
"""Called with the offsets that are done, and all there are."""


@dataclass(frozen=True, slots=True)
class Range:
    """Which records: by partition, by offset (the end is exclusive), by time (likewise), by number."""

    partitions: Collection[int] | None = None
    start_offset: int | None = None
    end_offset: int | None = None
    start_ms: int | None = None
    end_ms: int | None = None
    max_records: int | None = None

    def __post_init__(self) -> None:
        if self.start_offset is not None and self.start_ms is not None:
            raise InvalidRequestError("a start by offset and one by time", "Give one of them.")
        if self.end_offset is not None and self.end_ms is not None:
            raise InvalidRequestError("an end by offset and one by time", "Give one of them.")


@dataclass(slots=True)
class Dumped:
    """What is in the file."""

    topic: str
    path: Path
    records: int = 0
    by_partition: dict[int, int] = field(default_factory=dict)


def dump(
    topic: str,
    path: str | Path,
    *,
    bootstrap: str | None = None,
    cluster: str | None = None,
    range: Range | None = None,  # noqa: A002  # what callers read is worth more than the builtin here
    overwrite: bool = False,
    timeout_s: float = TIMEOUT_S,
    on_progress: Progress | None = None,
) -> Dumped:
    """Write the records of a topic to a .jsonl or .parquet file. `timeout_s` is how long the cluster may be silent."""
    from bifrost.client.admin import Admin

    path = Path(path)
    check_name(path)
    wanted = range or Range()
    connection = resolve(bootstrap, cluster=cluster)
    with Admin(bootstrap, cluster=cluster, timeout_s=timeout_s) as admin:
        spans = _spans(admin, topic, wanted)
    done = Dumped(topic, path)
    total = sum(end - start for start, end in spans.values())
    with written(path, topic, overwrite=overwrite) as writer:
        for rows, offsets in _read(connection, topic, spans, wanted.max_records, timeout_s):
            writer.write(rows)
            for row in rows:
                assert row.partition is not None
                done.by_partition[row.partition] = done.by_partition.get(row.partition, 0) + 1
            done.records += len(rows)
            if on_progress is not None:
                on_progress(offsets, total)
    return done


def _spans(admin: Admin, topic: str, wanted: Range) -> dict[int, tuple[int, int]]:
    """First and end offset of each partition to read."""
    held = admin.offsets(topic)
    missing = sorted(set(wanted.partitions or ()) - held.keys())
    if missing:
        raise UnknownPartitionError(f"topic {topic} has no partition {missing[0]}", f"It has {len(held)}, from 0.")
    starts = admin.offsets_at(topic, wanted.start_ms) if wanted.start_ms is not None else {}
    ends = admin.offsets_at(topic, wanted.end_ms) if wanted.end_ms is not None else {}
    spans = {}
    for partition, offsets in sorted(held.items()):
        if wanted.partitions is not None and partition not in wanted.partitions:
            continue
        start = max(offsets.start, starts.get(partition, wanted.start_offset or 0))
        end = min(offsets.end, ends.get(partition, offsets.end if wanted.end_offset is None else wanted.end_offset))
        spans[partition] = (start, max(start, end))
    return spans


def _read(
    connection: Connection, topic: str, spans: dict[int, tuple[int, int]], limit: int | None, timeout_s: float
) -> Iterator[tuple[list[Row], int]]:
    """Rows in their order, and how many offsets of all spans are behind."""
    from confluent_kafka import Consumer

    consumer = Consumer(client_options(connection, _READER))
    left = limit
    behind = 0
    try:
        for partition, (start, end) in spans.items():
            position = start
            if start < end:
                for rows, position in _partition(consumer, connection, (topic, partition), (start, end), timeout_s):
                    chosen = rows if left is None else rows[:left]
                    left = None if left is None else left - len(chosen)
                    yield chosen, behind + position - start
                    if left == 0:
                        return
            behind += end - start
    finally:
        consumer.close()


def _partition(
    consumer: Consumer, connection: Connection, place: tuple[str, int], span: tuple[int, int], timeout_s: float
) -> Iterator[tuple[list[Row], int]]:
    from confluent_kafka import KafkaError, TopicPartition

    topic, partition = place
    position, end = span
    consumer.assign([TopicPartition(topic, partition, position)])
    heard = time.monotonic()
    while position < end:
        first = consumer.poll(_POLL_S)
        if first is None:
            if time.monotonic() - heard > timeout_s:
                problem = (
                    f"nothing came from {connection.bootstrap} for {timeout_s:g} s, at offset {position} of {topic}"
                )
                raise TimedOutError(
                    f"{problem}-{partition}", "Is it running? Nothing was kept; start again when it is."
                )
            continue
        heard = time.monotonic()
        rows = []
        for message in (first, *consumer.consume(_BATCH, 0)):
            error = message.error()
            if message.partition() != partition:
                continue  # said by the partition before, after it was let go
            if error is None:
                offset = message.offset()
                assert offset is not None
                if offset < end:
                    rows.append(_row(message))
                position = offset + 1
            elif error.code() == KafkaError._PARTITION_EOF:
                position = end
            elif not error.retriable():
                raise from_kafka(error, topic=topic, partition=partition, bootstrap=connection.bootstrap)
        yield rows, min(position, end)


def _row(message: Message) -> Row:
    from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, TIMESTAMP_NOT_AVAILABLE

    kind, timestamp_ms = message.timestamp()
    headers: Any = message.headers() or ()
    return Row(
        value=message.value(),
        key=message.key(),
        headers=headers,
        partition=message.partition(),
        offset=message.offset(),
        timestamp_ms=None if kind == TIMESTAMP_NOT_AVAILABLE else timestamp_ms,
        timestamp_type=APPEND_TIME if kind == TIMESTAMP_LOG_APPEND_TIME else 0,
    )
