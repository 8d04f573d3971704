"""A table into a topic: `bifrost.write_arrow`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

from bifrost.client import clusters
from bifrost.client.errors import BifrostError, ConfigError, DeliveryError, InvalidRequestError
from bifrost.client.promises import CODECS, Compression
from bifrost.client.report import PartitionReport, Report
from bifrost.client.wire import BatchProducer, Pending, shared_client
from bifrost.columnar.encoder import BATCH_BYTES, Columns, Encoded, encode
from bifrost.columnar.errors import arrow
from bifrost.columnar.partitioning import Keyless, Partitioner
from bifrost.columnar.pieces import pieces
from bifrost.columnar.progress import Bar
from bifrost.protocol.compression import Codec

if TYPE_CHECKING:
    import pyarrow

Acks = Literal["all", "1", -1, 1]

_THREADS_MAX: Final = 8
_BATCH_BYTES_MIN: Final = 1 << 10


def write_arrow(
    topic: str,
    data: Any,
    *,
    bootstrap: str | Sequence[str] | None = None,
    cluster: str | None = None,
    key: str | None = None,
    value: str | None = None,
    headers: str | None = None,
    partition: str | None = None,
    timestamp: str | None = None,
    keyless: Keyless = "sticky",
    compression: Compression = "none",
    acks: Acks = "all",
    batch_bytes: int = BATCH_BYTES,
    progress: bool = False,
    config: Mapping[str, object] | None = None,
) -> Report:
    """Every row as a record of the topic. Returns when all of them are acknowledged, and says where they are.

    >>> table = pyarrow.table({"key": ["garden", "cellar"], "value": ["21.5", "12.0"]})
    >>> print(write_arrow("readings", table).summary())
    2 sent, 2 acknowledged

    Rows of a partition are stored once and in their order. If writing fails, `DeliveryError` says in its report how far
    it came: what was acknowledged stays.

    data
        A pyarrow Table, record batches (one, many, a reader or a generator), or anything with Arrow's C stream:
        DataFrames of Polars and pandas, results of DuckDB, what `read_arrow` returns. What comes in pieces is not held
        as a whole.
    bootstrap, cluster
        Where: see `bifrost.client.clusters` for what is used when neither is given.
    key, value, headers
        The columns to take them from; without a name, the columns that are called so, if there are any. Bytes or text
        of any kind; null is null. Headers are list<struct<key: string, value: binary>>, or a map.
    partition
        The column that names each row's partition. Without one, and where it is null, the key decides as in Kafka's
        Java client.
    timestamp
        The column with each row's time: timestamps, or milliseconds since 1970. Without one, and where it is null: now.
    keyless
        Where rows without a key go: "sticky" fills a batch for one partition, then for the next; "round_robin" takes
        turns.
    compression
        "none", "gzip", "snappy", "lz4" or "zstd".
    acks
        "all" replicas in sync, or 1: the leader alone, in which case a failing leader may lose rows.
    batch_bytes
        How much goes into one record batch before compression. Must fit the topic's max.message.bytes.
    progress
        Show a bar on stderr.
    config
        Settings under the names of Kafka's clients: security.protocol, ssl.*, sasl.*, delivery.timeout.ms, ...
    """
    arrow()
    codec, leader_only = _codec(compression), _leader_only(acks)
    if batch_bytes < _BATCH_BYTES_MIN:
        raise ConfigError(f"batch_bytes={batch_bytes}", f"Use {_BATCH_BYTES_MIN} at least.")
    connection = clusters.resolve(bootstrap, cluster=cluster)
    client = shared_client(connection.bootstrap, {**connection.config, **(config or {})})
    partitioner = Partitioner(len(client.partitions(topic)), keyless=keyless)
    named = Columns(key=key, value=value, headers=headers, partition=partition, timestamp=timestamp)
    how = partial(encode, partitioner=partitioner, codec=codec, batch_bytes=batch_bytes)
    with client.producer(1 if leader_only else -1, idempotent=not leader_only) as producer:
        return _write(topic, data, named, producer, how, progress=progress)


def _write(
    topic: str,
    data: Any,
    named: Columns,
    producer: BatchProducer,
    how: Callable[..., Iterator[Encoded]],
    *,
    progress: bool,
) -> Report:
    tally = _Tally(topic)
    total = data.num_rows if isinstance(data, arrow().Table | arrow().RecordBatch) else None
    with (
        ThreadPoolExecutor(min(_THREADS_MAX, os.cpu_count() or 1), "write-arrow") as pool,
        Bar(topic, total, wanted=progress) as bar,
    ):
        for table in pieces(data):
            now_ms = time.time_ns() // 1_000_000
            for made in how(table, now_ms=now_ms, columns=_columns(table, named), pool=pool):
                tally.send(producer, made)
                bar.advance(made.records, made.records)
        tally.settle(producer)
    return tally.report()


class _Tally:
    """What was handed over, and what became of it."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._sent: dict[int, list[tuple[Pending, int]]] = {}

    def send(self, producer: BatchProducer, made: Encoded) -> None:
        try:
            pending = producer.append(self._topic, made.partition, made.batch, made.records)
        except BifrostError as error:
            raise self._failed(error) from error
        self._sent.setdefault(made.partition, []).append((pending, made.records))

    def settle(self, producer: BatchProducer) -> None:
        try:
            producer.flush()
        except BifrostError as error:
            raise self._failed(error) from error

    def report(self) -> Report:
        return Report(tuple(self._line(partition, self._sent[partition]) for partition in sorted(self._sent)))

    def _line(self, partition: int, batches: list[tuple[Pending, int]]) -> PartitionReport:
        acknowledged = failed = 0
        first: int | None = None
        last: int | None = None
        for pending, records in batches:
            if not pending.done:
                continue
            try:
                offset = pending.result().base_offset
            except BifrostError:
                failed += records
                continue
            acknowledged += records
            if offset >= 0:
                first = offset if first is None else first
                last = offset + records - 1
        sent = sum(records for _, records in batches)
        return PartitionReport(self._topic, partition, sent, acknowledged, failed, None, first, last)

    def _failed(self, error: BifrostError) -> DeliveryError:
        report = self.report()
        return DeliveryError(
            f"not every row was written to {self._topic}: {error.problem}; {report.summary()}",
            error.hint,
            code=error.code,
            report=report,
            causes=[error],
        )


def _columns(table: pyarrow.Table, named: Columns) -> Columns:
    """The columns that were named, and those that need no name because they have the right one."""
    names = table.schema.names
    own = [role for role in ("key", "value", "headers") if role in names and named.named()[role] is None]
    found = replace(named, **{role: role for role in own})
    if found.key is None and found.value is None:
        raise InvalidRequestError(
            f"the table has neither a column key nor value: {', '.join(names)}", "Name one: value=..., key=..."
        )
    return found


def _codec(compression: str) -> Codec:
    if compression not in CODECS:
        raise ConfigError(f"compression={compression!r} is not known", f"Use one of {', '.join(CODECS)}.")
    return Codec[compression.upper()]


def _leader_only(acks: object) -> bool:
    if acks not in ("all", "1", -1, 1):
        raise ConfigError(f"acks={acks!r}: writing a table waits for acknowledgements", 'Use "all" or 1.')
    return acks in ("1", 1)
