"""The interface between the active controller and whatever keeps its records: a log whose entries are committed or not
there.

Whatever is committed reaches every image by the same way (`controller/replica.py`), that of the controller who wrote it
too. So an append only has to say when that has happened.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class MetadataLog(Protocol):
    """An ordered list of values, to which one leader at a time may append."""

    @property
    def name(self) -> str:
        """Where it is, for messages."""

    @property
    def end_offset(self) -> int:
        """The offset that the next appended value will have."""

    async def append(self, values: Sequence[bytes], epoch: int) -> int:
        """Add values in the leader epoch `epoch`, all or none, and return the offset of the first once they are
        committed and applied.

        One call at a time. ApiError(NOT_CONTROLLER): the epoch is over; they may be committed by somebody else yet.
        DiskFullError: nothing was added and the log is as good as before. Any other StorageError: nobody knows how much
        of it will be there after a restart, so the log must not be used any more.
        """


class EpochBegun(NamedTuple):
    """The quorum's own record of who leads from here on."""

    leader_id: int
    epoch: int


class Entry(NamedTuple):
    """What the log holds at one offset: a change of metadata, or the begin of an epoch."""

    offset: int
    timestamp_ms: int
    """When its leader appended it; the same on every node."""
    value: bytes | EpochBegun
