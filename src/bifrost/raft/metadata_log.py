"""The interface between the controller and whatever keeps its records: a log whose entries are committed or not there.

A quorum of one (`solo.py`) implements it with one log on one disk; a quorum of several implements it with votes and
followers. The controller cannot tell them apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol


class MetadataLog(Protocol):
    """An ordered list of values. Every value has an offset; offsets rise, and may have gaps."""

    @property
    def name(self) -> str:
        """Where it is, for messages."""

    @property
    def end_offset(self) -> int:
        """The offset that the next appended value will have."""

    def replay(self) -> Iterator[tuple[int, bytes]]:
        """Every committed value with its offset, from the first; StorageError if one cannot be read."""

    async def append(self, values: Sequence[bytes]) -> int:
        """Add values, all or none, and return the offset of the first once they are committed.

        One call at a time. DiskFullError: nothing was added and the log is as good as before. Any other StorageError:
        nobody knows how much of it will be there after a restart, so the log must not be used any more.
        """
