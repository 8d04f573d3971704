"""What deciding returns: the records to append, and the answer to give once they are committed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

from bifrost.controller.core.records import MetadataRecord

T = TypeVar("T")


class Decision(NamedTuple, Generic[T]):
    """Nothing has changed yet: `records` say what will, `result` is what the caller will hear.

    An answer without records, such as a refusal, waits all the same for what was decided before it.
    """

    records: Sequence[MetadataRecord]
    result: T
