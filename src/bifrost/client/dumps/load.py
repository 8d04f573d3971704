"""From a file to a topic, with an exact account of what was stored.

Records keep their partitions, and their order within each. Sending is idempotent, so what was acknowledged is there
once. The first thing that goes wrong ends it: what had been handed over by then is still delivered and counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bifrost.client.clusters import Connection, resolve
from bifrost.client.dumps.files import check_name, read_rows
from bifrost.client.dumps.rows import Row
from bifrost.client.errors import (
    BifrostError,
    DeliveryError,
    TimedOutError,
    UnknownPartitionError,
    UnknownTopicError,
    from_kafka,
)
from bifrost.client.options import client_options

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

TIMEOUT_S = 15.0
_POLL_EVERY = 200
_SENDER = {
    "enable.idempotence": True,
    "partitioner": "murmur2_random",
    "linger.ms": 20,
    "queue.buffering.max.kbytes": 32 << 10,
    "queue.buffering.max.messages": 100_000,
}


@dataclass(slots=True)
class Loaded:
    """What was read from the file, and what became of it."""

    topic: str
    read: int = 0
    acknowledged: int = 0
    by_partition: dict[int, int] = field(default_factory=dict)
    retimed: int = 0
    """Records that have no time that librdkafka can send (none, or 0): they got the time of loading."""
    interrupted: bool = False


class LoadError(DeliveryError):
    """Not all of a file was stored; `loaded` says what was."""

    def __init__(self, problem: str, hint: str, loaded: Loaded, cause: BifrostError) -> None:
        super().__init__(problem, hint, causes=[cause])
        self.loaded = loaded


def load(
    topic: str,
    path: str | Path,
    *,
    bootstrap: str | None = None,
    cluster: str | None = None,
    keep_partitions: bool = True,
    create: bool = False,
    timeout_s: float = TIMEOUT_S,
    stopped: Callable[[], bool] = lambda: False,
    on_progress: Callable[[Loaded], None] | None = None,
) -> Loaded:
    """Send the records of a .jsonl or .parquet file to a topic.

    With `keep_partitions`, a record goes to the partition it came from; without it, its key decides. `create` makes a
    topic that is not there, with as many partitions as the file needs. `timeout_s` is how long a record may wait for
    its acknowledgement. Raises LoadError if not all were stored.
    """
    path = Path(path)
    check_name(path)
    partitions = _partitions(topic, path, bootstrap, cluster, timeout_s, create=create)
    connection = resolve(bootstrap, cluster=cluster)
    sending = _Sending(topic, connection, partitions if keep_partitions else None, timeout_s)
    problem: BifrostError | None = None
    try:
        for row in read_rows(path):
            if stopped() or sending.failure is not None:
                break
            sending.send(row)
            if on_progress is not None and sending.done.read % _POLL_EVERY == 0:
                on_progress(sending.done)
    except BifrostError as error:
        problem = error
    sending.finish()
    sending.done.interrupted = stopped()
    problem = problem or sending.failure
    if problem is not None:
        raise _with_account(problem, sending.done)
    return sending.done


def _partitions(
    topic: str, path: Path, bootstrap: str | None, cluster: str | None, timeout_s: float, *, create: bool
) -> int:
    """How many the topic has; made first if it may be."""
    from bifrost.client.admin import Admin

    with Admin(bootstrap, cluster=cluster, timeout_s=timeout_s) as admin:
        try:
            return len(admin.topic(topic).partitions)
        except UnknownTopicError as error:
            if not create:
                hint = f"{error.hint} Or let loading create it (--create)."
                raise UnknownTopicError(error.problem, hint, code=error.code) from error
        highest = max((row.partition or 0 for row in read_rows(path)), default=0)
        admin.create_topic(topic, highest + 1)
        return highest + 1


def _with_account(problem: BifrostError, done: Loaded) -> LoadError:
    account = f"{done.acknowledged} records of the file are stored"
    if done.read > done.acknowledged:
        account += f", {done.read - done.acknowledged} more may be"
    return LoadError(problem.problem, f"{problem.hint} {account}.".strip(), done, problem)


class _Sending:
    """One load under way."""

    def __init__(self, topic: str, connection: Connection, partitions: int | None, timeout_s: float) -> None:
        from confluent_kafka import Producer

        self.done = Loaded(topic)
        self.failure: BifrostError | None = None
        self._topic = topic
        self._bootstrap = connection.bootstrap
        self._partitions = partitions
        self._timeout_s = timeout_s
        self._heard = time.monotonic()
        self._producer: Producer = Producer(client_options(connection, _SENDER))

    def send(self, row: Row) -> None:
        """Hands a record over, waiting for room."""
        from confluent_kafka import KafkaException

        arguments = self._arguments(row)
        while self.failure is None:
            try:
                self._producer.produce(
                    self._topic, row.value, row.key, headers=list(row.headers), on_delivery=self._delivered, **arguments
                )
            except BufferError:
                self._producer.poll(0.1)
                self._check_silence()
                continue
            except KafkaException as error:
                raise from_kafka(error, topic=self._topic, bootstrap=self._bootstrap) from error
            self.done.read += 1
            self.done.retimed += "timestamp" not in arguments
            break
        if self.done.read % _POLL_EVERY == 0:
            self._producer.poll(0)

    def _arguments(self, row: Row) -> dict[str, Any]:
        arguments: dict[str, Any] = {}
        if self._partitions is not None and row.partition is not None:
            if not 0 <= row.partition < self._partitions:
                raise UnknownPartitionError(
                    f"record {self.done.read + 1} of the file is of partition {row.partition}, and {self._topic} has"
                    f" {self._partitions}",
                    "Add partitions to the topic, or let keys choose them (--repartition).",
                )
            arguments["partition"] = row.partition
        if row.timestamp_ms:
            arguments["timestamp"] = row.timestamp_ms
        return arguments

    def finish(self) -> None:
        """Waits for everything that was handed over, as long as acknowledgements come."""
        self._heard = max(self._heard, time.monotonic() - self._timeout_s / 2)  # the last ones get a fair chance
        while len(self._producer) and self.failure is None:
            self._producer.flush(0.2)
            self._check_silence()
        if self.failure is not None:
            self._producer.purge()
            self._producer.flush(1)

    def _check_silence(self) -> None:
        if time.monotonic() - self._heard > self._timeout_s:
            problem = f"{self._bootstrap} has acknowledged nothing for {self._timeout_s:g} s"
            self.failure = self.failure or TimedOutError(problem, "Is it running?")

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failure = self.failure or from_kafka(error, topic=self._topic, bootstrap=self._bootstrap)
            return
        partition = message.partition()
        assert partition is not None
        self._heard = time.monotonic()
        self.done.acknowledged += 1
        self.done.by_partition[partition] = self.done.by_partition.get(partition, 0) + 1
