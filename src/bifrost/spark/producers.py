"""The producer that the tasks of a worker share, as long as nothing fails."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bifrost.spark.write_options import WriteOptions

if TYPE_CHECKING:
    from bifrost.client.wire import BatchProducer

_kept: dict[tuple[object, ...], BatchProducer] = {}
os.register_at_fork(after_in_child=_kept.clear)


@contextmanager
def producing(options: WriteOptions) -> Iterator[BatchProducer]:
    """A producer that has nothing under way from others. One that a task failed with is not used again.

    A task has to see all its batches acknowledged before it leaves: nobody else waits for them.
    """
    from bifrost.client.wire import shared_client

    key = (
        options.bootstrap,
        frozenset(options.settings.items()),
        options.acks,
        options.idempotent,
        options.max_in_flight,
    )
    producer = _kept.pop(key, None)
    if producer is None:
        client = shared_client(options.bootstrap, options.settings)
        producer = client.producer(options.acks, options.idempotent, options.max_in_flight)
    try:
        yield producer
    except BaseException:
        producer.close(flush=False)
        raise
    _kept[key] = producer
