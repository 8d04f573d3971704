"""A cleaned segment takes the place of those it was made from. Kafka: LocalLog.replaceSegments.

This file decides the order of names, and `leftovers.tidy` knows it: file systems keep changes of names in order, so a
loss of power leaves some first part of this. As long as a name ends in `.cleaned` the old segments count; once they all
end in `.swap`, the new one does, whatever of the old ones is still there. The log comes before its indexes at the end:
tidying up would take an index under its last name for one of the old segment's.

Renames only: the worker has synced all contents.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bifrost.log.disk import Disk
from bifrost.log.names import CLEANED, DELETED, LOG, OFFSET_INDEX, SNAPSHOT, SWAP, TIME_INDEX, TXN_INDEX, segment_path

_INDEXES: Final = (OFFSET_INDEX, TIME_INDEX, TXN_INDEX)


def swap_in(disk: Disk, directory: str, base_offsets: Sequence[int]) -> list[str]:
    """The first of the segments is the cleaned one from here on, and the others are gone; what the files of the old
    ones are called now. A snapshot of producers stays where a segment begins."""
    first = base_offsets[0]
    cleaned = [
        segment_path(directory, first, suffix)
        for suffix in (LOG, *_INDEXES)
        if disk.exists(segment_path(directory, first, suffix) + CLEANED)
    ]
    for path in reversed(cleaned):
        disk.rename(path + CLEANED, path + SWAP)
    deleted = []
    for base_offset in base_offsets:
        companions = _INDEXES if base_offset == first else (*_INDEXES, SNAPSHOT)
        for suffix in (*companions, LOG):
            path = segment_path(directory, base_offset, suffix)
            if disk.exists(path):
                disk.rename(path, path + DELETED)
                deleted.append(path + DELETED)
    for path in cleaned:
        disk.rename(path + SWAP, path)
    return deleted
