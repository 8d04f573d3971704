"""A topic in a test: write, read and wait in one line, and be told what is wrong in a way that helps."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bifrost.testing.clients import TIMEOUT_S, Clients
from bifrost.testing.difference import difference, listing
from bifrost.testing.reader import Reader
from bifrost.testing.record import Record, as_records


class Topic:
    """A topic of a cluster; `str(topic)` is its name."""

    def __init__(self, name: str, clients: Clients) -> None:
        self.name = name
        self._clients = clients

    @property
    def bootstrap(self) -> str:
        """What clients call `bootstrap.servers`."""
        return self._clients.bootstrap

    def produce(self, records: Iterable[object], *, timeout: float = TIMEOUT_S) -> list[Record]:
        """Send records in order, wait until all are stored, and return them with partition, offset and time.

        A record is a value (text, bytes, None, or anything that can be JSON), a pair of key and value, or a `Record`.
        """
        __tracebackhide__ = True
        return self._clients.produce(self.name, as_records(records), timeout)

    def read(
        self, count: int | None = None, *, since: Mapping[int, int] | None = None, timeout: float = TIMEOUT_S
    ) -> list[Record]:
        """All records, by partition and offset; with `count`, wait until there are at least so many.

        `since` has the offset to start at for each partition (see `offsets`); partitions not in it are read whole.
        """
        __tracebackhide__ = True
        with Reader(self._clients, self.name, since, time.monotonic() + timeout) as reader:
            reader.read_at_least(count or 0)
            found = reader.records()
            if count is not None and len(found) < count:
                raise AssertionError(
                    f"{count} records of {self.name} awaited, {len(found)} there after {timeout:g} s\n{listing(found)}"
                )
            if not reader.at_end:
                raise AssertionError(
                    f"the end of {self.name} was not reached in {timeout:g} s: {len(found)} records read"
                )
            return found

    def expect(
        self,
        records: Iterable[object],
        *,
        timeout: float = TIMEOUT_S,
        ordered: bool = True,
        settle: float = 0.0,
        since: Mapping[int, int] | None = None,
    ) -> list[Record]:
        """Wait for exactly these records and return what is there; an AssertionError shows how they differ.

        What a record does not mention is not compared. Order counts within each partition, as Kafka keeps it, unless
        `ordered` is false. As soon as there are enough records, they must be right; with `settle`, more are awaited
        for that many seconds, to be sure that nothing else comes.
        """
        __tracebackhide__ = True
        expected = as_records(records)
        with Reader(self._clients, self.name, since, time.monotonic() + timeout) as reader:
            reader.read_at_least(len(expected))
            reader.watch(settle, len(expected))
            found = reader.records()
            problem = difference(self.name, expected, reader.there, ordered=ordered)
        if problem is not None:
            waited = f" (waited {timeout:g} s)" if len(found) < len(expected) else ""
            raise AssertionError(problem.replace("\n", f"{waited}\n", 1))
        return found

    def offsets(self) -> dict[int, int]:
        """The offset that the next record of each partition will get: a mark to read from later."""
        partitions = self._clients.await_topic(self.name, time.monotonic() + TIMEOUT_S)
        return self._clients.end_offsets(self.name, partitions)

    def load(self, path: str | Path, *, keep_partitions: bool = True) -> int:
        """Send the records of a .jsonl or .parquet file, as `bifrost topic dump` writes them; returns how many."""
        from bifrost.client.dumps import load

        return load(self.name, path, bootstrap=self.bootstrap, keep_partitions=keep_partitions).acknowledged

    def dump(self, path: str | Path) -> int:
        """Write all records to a .jsonl or .parquet file, to look at them later; returns how many."""
        from bifrost.client.dumps import dump

        return dump(self.name, path, bootstrap=self.bootstrap, overwrite=True).records

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"Topic({self.name!r}, bootstrap={self.bootstrap!r})"


def produce(
    topic: Topic | str, records: Iterable[object], *, bootstrap: str | None = None, timeout: float = TIMEOUT_S
) -> list[Record]:
    """`Topic.produce` for a topic that has only a name; `bootstrap` says where."""
    with _bound(topic, bootstrap) as bound:
        return bound.produce(records, timeout=timeout)


def read(
    topic: Topic | str,
    count: int | None = None,
    *,
    bootstrap: str | None = None,
    since: Mapping[int, int] | None = None,
    timeout: float = TIMEOUT_S,
) -> list[Record]:
    """`Topic.read` for a topic that has only a name; `bootstrap` says where."""
    __tracebackhide__ = True
    with _bound(topic, bootstrap) as bound:
        return bound.read(count, since=since, timeout=timeout)


def expect_records(
    topic: Topic | str,
    records: Iterable[object],
    timeout: float = TIMEOUT_S,
    *,
    bootstrap: str | None = None,
    ordered: bool = True,
    settle: float = 0.0,
    since: Mapping[int, int] | None = None,
) -> list[Record]:
    """`Topic.expect` for a topic that has only a name; `bootstrap` says where."""
    __tracebackhide__ = True
    with _bound(topic, bootstrap) as bound:
        return bound.expect(records, timeout=timeout, ordered=ordered, settle=settle, since=since)


@contextmanager
def _bound(topic: Topic | str, bootstrap: str | None) -> Iterator[Topic]:
    if isinstance(topic, Topic):
        yield topic
        return
    if bootstrap is None:
        raise TypeError(f"where is topic {topic}? Pass bootstrap=..., or use bifrost_topic, which knows")
    clients = Clients(bootstrap)
    try:
        yield Topic(topic, clients)
    finally:
        clients.close()
