"""A topic, or a part of it, as Arrow: `bifrost.read_arrow`."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from bifrost.client import clusters
from bifrost.client.errors import InvalidRequestError, UnsupportedError
from bifrost.client.wire import WireClient, shared_client
from bifrost.columnar import ranges, schema
from bifrost.columnar.channel import Channel
from bifrost.columnar.decoder import BATCH_ROWS, Decoder
from bifrost.columnar.errors import arrow
from bifrost.columnar.kernels import kernels
from bifrost.columnar.progress import Bar
from bifrost.columnar.ranges import Place

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

Isolation = Literal["read_uncommitted", "read_committed"]

_THREADS_MAX: Final = 8
_WAITING_PER_THREAD: Final = 2


def read_arrow(
    topic: str,
    *,
    bootstrap: str | Sequence[str] | None = None,
    cluster: str | None = None,
    start: Place = "earliest",
    end: Place = "latest",
    partitions: Iterable[int] | None = None,
    columns: Iterable[str] | None = None,
    headers: bool = False,
    isolation: Isolation = "read_uncommitted",
    batch_rows: int = BATCH_ROWS,
    follow: bool = False,
    threads: int | None = None,
    progress: bool = False,
    config: Mapping[str, object] | None = None,
) -> ArrowTopic:
    """A topic as Arrow: all of it as it is now, or a part. Nothing is read before it is asked for.

    >>> rows = read_arrow("readings", columns=["key", "value"])
    >>> rows.to_table().num_rows
    2
    >>> for batch in rows:
    ...     print(batch.column("key").to_pylist())
    [b'garden', b'cellar']

    bootstrap, cluster
        Where: see `bifrost.client.clusters` for what is used when neither is given.
    start, end
        "earliest", "latest", an offset, or an aware datetime (the first record at or after it); for all partitions, or
        by partition in a mapping. `end` is not included, and fixed when this function returns.
    partitions
        Which to read; all of them unless given.
    columns
        key, value, topic, partition, offset, timestamp, timestampType, headers: those of Spark's Kafka source. Name
        what you need: a column that is left out costs nothing.
    headers
        Add the column headers to the usual ones.
    isolation
        "read_committed" leaves out records of transactions that were aborted, or are not over.
    batch_rows
        The most rows of a record batch.
    follow
        Do not end: wait for records that come later. For iteration only.
    threads
        How many partitions are read at the same time.
    progress
        Show a bar on stderr.
    config
        Settings under the names of Kafka's clients: security.protocol, ssl.*, sasl.*, fetch.max.bytes, ...
    """
    names = schema.checked(columns, headers=headers)
    arrow()
    if batch_rows < 1 or (threads is not None and threads < 1):
        raise InvalidRequestError("batch_rows and threads are one at least", "Leave them out if in doubt.")
    if follow and end != "latest":
        raise InvalidRequestError("a topic that is followed has no end", "Leave out `end`, or `follow`.")
    connection = clusters.resolve(bootstrap, cluster=cluster)
    client = shared_client(connection.bootstrap, {**connection.config, **(config or {})})
    chosen = ranges.chosen_partitions(client, topic, partitions)
    found = ranges.resolve(client, topic, chosen, start, end, isolation)
    return ArrowTopic(
        client, topic, names, found, isolation=isolation, batch_rows=batch_rows, follow=follow, threads=threads,
        progress=progress,
    )  # fmt: skip


class ArrowTopic:
    """Offsets of a topic that can be read as Arrow, as often as you like: iterate it, or turn it into a table.

    DuckDB, Polars, pyarrow and whatever else knows Arrow's C streams take it as it is. Iteration gives record batches
    as they come, those of one partition in order, and holds no more than a few of them at a time.
    """

    def __init__(
        self,
        client: WireClient,
        topic: str,
        columns: Sequence[str],
        offsets: Mapping[int, tuple[int, int]],
        *,
        isolation: str,
        batch_rows: int,
        follow: bool,
        threads: int | None,
        progress: bool,
    ) -> None:
        self.topic = topic
        self.schema: pyarrow.Schema = schema.schema(columns)
        self.start = {partition: first for partition, (first, _) in offsets.items()}
        """The first offset by partition."""
        self.end = {partition: end for partition, (_, end) in offsets.items()}
        """The offset behind the last, by partition: the `start` of the next read."""
        self._client = client
        self._isolation = isolation
        self._batch_rows = batch_rows
        self._follow = follow
        self._threads = threads
        self._progress = progress

    def __repr__(self) -> str:
        parts = ", ".join(
            f"{partition}: {first} to {'...' if self._follow else self.end[partition]}"
            for partition, first in self.start.items()
        )
        return f"<ArrowTopic {self.topic}, offsets {parts}>"

    def __iter__(self) -> Iterator[pyarrow.RecordBatch]:
        for _, batch in self._batches():
            yield batch

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.reader().__arrow_c_stream__(requested_schema)

    def reader(self) -> pyarrow.RecordBatchReader:
        """A pyarrow.RecordBatchReader, for whatever takes one: datasets, Parquet and IPC writers, Flight."""
        return arrow().RecordBatchReader.from_batches(self.schema, iter(self))

    def to_table(self) -> pyarrow.Table:
        """Everything in one table: by partition, and by offset within each."""
        self._check_end("a table")
        found: dict[int, list[pyarrow.RecordBatch]] = {partition: [] for partition in self.start}
        for partition, batch in self._batches():
            found[partition].append(batch)
        return arrow().Table.from_batches([batch for batches in found.values() for batch in batches], self.schema)

    def to_pandas(self, **options: Any) -> pandas.DataFrame:
        """A DataFrame of pandas. Options are those of `pyarrow.Table.to_pandas`."""
        _need("pandas")
        return self.to_table().to_pandas(**options)

    def to_polars(self) -> polars.DataFrame:
        """A DataFrame of Polars."""
        frame: polars.DataFrame = _need("polars").from_arrow(self.to_table())
        return frame

    def _check_end(self, what: str) -> None:
        if self._follow:
            raise InvalidRequestError(f"{what} of a topic that is followed would never be done", "Iterate it instead.")

    def _batches(self) -> Iterator[tuple[int, pyarrow.RecordBatch]]:
        partitions = [
            partition for partition, first in self.start.items() if self._follow or first < self.end[partition]
        ]
        kernels()  # once, before threads want them
        threads = len(partitions) if self._follow else min(len(partitions), self._threads or _default_threads())
        channel: Channel[_Passed] = Channel(_WAITING_PER_THREAD * threads, threads)
        waiting = iter(partitions)
        lock = threading.Lock()

        def next_partition() -> int | None:
            with lock:
                return next(waiting, None)

        readers = [
            threading.Thread(target=self._run, args=(channel, next_partition), name=f"arrow-{number}", daemon=True)
            for number in range(threads)
        ]
        for reader in readers:
            reader.start()
        total = None if self._follow else sum(self.end[each] - self.start[each] for each in partitions)
        try:
            with Bar(self.topic, total, wanted=self._progress) as bar:
                while (item := channel.get()) is not None:
                    bar.advance(item.offsets, item.batch.num_rows if item.batch else 0)
                    if item.batch:
                        yield item.partition, item.batch
        finally:
            channel.close()
            for reader in readers:
                reader.join()

    def _run(self, channel: Channel[_Passed], next_partition: Callable[[], int | None]) -> None:
        with channel.sending():
            while not channel.closed and (partition := next_partition()) is not None:
                self._read(partition, channel)

    def _read(self, partition: int, channel: Channel[_Passed]) -> None:
        """One partition to its end."""
        decoder = Decoder(self.topic, partition, self.schema.names, batch_rows=self._batch_rows)
        end = None if self._follow else self.end[partition]
        start = position = self.start[partition]
        with self._client.fetch(self.topic, partition, start, end, isolation=self._isolation) as stream:
            for fetched in stream:
                for batch in decoder.decode(fetched.data, position, end, fetched.aborted):
                    if not channel.put(_Passed(partition, batch)):
                        return
                passed = fetched.next_offset - position
                position = fetched.next_offset
                if channel.closed or (passed and not channel.put(_Passed(partition, None, passed))):
                    return


class _Passed(NamedTuple):
    """Rows of a partition, or how many of its offsets are done."""

    partition: int
    batch: pyarrow.RecordBatch | None
    offsets: int = 0


def _default_threads() -> int:
    return min(_THREADS_MAX, os.cpu_count() or 1)


def _need(name: str) -> Any:
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError as error:
        raise UnsupportedError(f"{name} is not installed", f"pip install {name}, or use to_table().") from error
