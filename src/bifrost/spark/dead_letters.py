"""Records whose values were malformed, on their way to a topic where somebody will look at them.

They keep key, value and headers; more headers say where they came from and what was wrong. A task that is run again
writes them again: the place they came from tells which are the same.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from bifrost.spark.read_options import ReadOptions
from bifrost.spark.write_options import BATCH_BYTES, WriteOptions
from bifrost.types import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from bifrost.spark.outbox import Outbox


class DeadLetters:
    """Of one task; connects when the first one comes. Leaving it waits until all are acknowledged."""

    def __init__(self, options: ReadOptions, place: TopicPartition) -> None:
        self._options = options
        self._place = place
        self._topic = options.json.dead_letter_topic if options.json is not None else None
        self._opened = ExitStack()
        self._outbox: Outbox | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if kind is None and self._outbox is not None:
            with self._opened:
                self._outbox.finish()
        else:
            self._opened.__exit__(kind, error, None)

    def add(self, batch: pa.RecordBatch, malformed: dict[int, str]) -> None:
        """`batch` has the columns key, value, headers and offset; `malformed` says which rows, and why."""
        import pyarrow as pa

        from bifrost.columnar.encoder import Columns

        if self._topic is None:
            return
        bad = batch.take(pa.array(list(malformed), pa.int64()))
        offsets = bad.column("offset").to_pylist()
        headers = [
            [*((header["key"], header["value"]) for header in known or ()), *self._reasons(offset, reason)]
            for known, offset, reason in zip(bad.column("headers").to_pylist(), offsets, malformed.values())
        ]
        rows = pa.RecordBatch.from_arrays(
            [bad.column("key"), bad.column("value"), pa.array(headers, pa.map_(pa.string(), pa.binary()))],
            names=["key", "value", "headers"],
        )
        self._open().add(self._topic, rows, Columns(headers="headers"), offsets)

    def _reasons(self, offset: int, reason: str) -> list[tuple[str, bytes]]:
        said = {
            "topic": self._place.topic,
            "partition": str(self._place.partition),
            "offset": str(offset),
            "error": reason,
        }
        return [(f"bifrost.{name}", text.encode()) for name, text in said.items()]

    def _open(self) -> Outbox:
        if self._outbox is None:
            from bifrost.client.wire import shared_client
            from bifrost.spark.outbox import Outbox
            from bifrost.spark.producers import producing

            options = WriteOptions(self._options.bootstrap, self._options.settings, self._topic)
            producer = self._opened.enter_context(producing(options))
            client = shared_client(options.bootstrap, options.settings)
            self._outbox = Outbox(client, producer, codec="none", batch_bytes=BATCH_BYTES)
        return self._outbox
