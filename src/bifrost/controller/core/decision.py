"""What deciding returns: the records to append, and the answer to give once they are committed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from bifrost.controller.core.records import MetadataRecord

T = TypeVar("T")

Charge = Callable[[int], None]
"""Called with the number of partitions that somebody wants to create or delete (KIP-599); ApiError if not now."""


def free_of_charge(_partitions: int) -> None:
    """Whoever asks may change as many as it likes."""


class Decision(NamedTuple, Generic[T]):
    """Nothing has changed yet: `records` say what will, `result` is what the caller will hear.

    An answer without records, such as a refusal, waits all the same for what was decided before it.
    """

    records: Sequence[MetadataRecord]
    result: T
