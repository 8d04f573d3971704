"""Which partition each row goes to: the one it names, else the one of its key, else whose turn it is.

Keys go where Kafka's Java client sends them. Rows without a key either stay together for about a batch and then move
on, which makes few large batches ("sticky", the default, as in Java), or go around one by one ("round_robin").
"""

from __future__ import annotations

import random
from typing import Final, Literal, get_args

import numpy as np

from bifrost.client.errors import InvalidRequestError
from bifrost.columnar.kernels.interface import Ints, Kernels, Rows, ShortInts

Keyless = Literal["sticky", "round_robin"]
_NOT_NAMED: Final = -1


class Partitioner:
    """Remembers whose turn it is from one table to the next."""

    def __init__(self, partition_count: int, *, keyless: Keyless = "sticky", first: int | None = None) -> None:
        if partition_count < 1:
            raise InvalidRequestError(f"a topic of {partition_count} partitions", "A topic has one partition at least.")
        if keyless not in get_args(Keyless):
            raise InvalidRequestError(f"keyless={keyless!r} is not known", "Use sticky or round_robin.")
        self.partition_count = partition_count
        self._keyless = keyless
        self._turn = random.randrange(partition_count) if first is None else first % partition_count
        self._filled_bytes = 0

    def assign(self, kernels: Kernels, rows: Rows, named: ShortInts | None, sizes: Ints, batch_bytes: int) -> ShortInts:
        """A partition for every row; `sizes` are about how many bytes each of them takes."""
        partitions = np.full(len(sizes), _NOT_NAMED, np.int32)
        if rows.keys is not None and self.partition_count > 1:
            kernels.hash_keys(rows.keys, self.partition_count, partitions)
        elif rows.keys is not None:
            partitions[:] = 0
        if named is not None:
            partitions = np.where(named == _NOT_NAMED, partitions, named).astype(np.int32)
        keyless = np.flatnonzero(partitions == _NOT_NAMED)
        if len(keyless):
            partitions[keyless] = self._take_turns(sizes[keyless], batch_bytes)
        return partitions

    def _take_turns(self, sizes: Ints, batch_bytes: int) -> Ints:
        if self._keyless == "round_robin":
            turns = self._turn + np.arange(len(sizes))
            self._turn = (self._turn + len(sizes)) % self.partition_count
            return turns % self.partition_count
        reached = self._filled_bytes + np.cumsum(sizes)
        turns = self._turn + (reached - sizes) // batch_bytes
        self._turn = int(turns[-1]) % self.partition_count
        self._filled_bytes = int(reached[-1]) - int((reached[-1] - sizes[-1]) // batch_bytes) * batch_bytes
        return turns % self.partition_count
