"""Bugs to plant into the cleaning of logs (see `planted.py` next door)."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

from bifrost.log import segments
from bifrost.log.cleaning import worker
from bifrost.log.cleaning.filter import note_keys
from bifrost.log.cleaning.offset_map import OffsetMap
from bifrost.log.cleaning.swap import swap_in
from bifrost.protocol.batch import BatchHeader
from tests.sim.bug import Bug


def clean_too_much() -> AbstractContextManager[Any]:
    """Of a key that was written last in the last batch that is cleaned, nothing is left."""

    def eager(offsets: OffsetMap, batch: memoryview, header: BatchHeader, first: int) -> None:
        note_keys(offsets, batch, header, first)
        for key, offset in offsets.offsets.items():
            if offset == header.last_offset:
                offsets.offsets[key] = offset + 1

    return patch.object(worker, "note_keys", eager)


def keep_old_segments() -> AbstractContextManager[Any]:
    """Of the segments that a cleaned one replaces only the first goes; the others are found by the next start."""
    return patch.object(
        segments, "swap_in", lambda disk, directory, base_offsets: swap_in(disk, directory, base_offsets[:1])
    )


_ENDS = ("kill", "restart")

COMPACTED_PLANTED = {
    "clean-too-much": Bug(clean_too_much, "ack", _ENDS, ("lost key",), is_compacted=True),
    "keep-old-segments": Bug(
        keep_old_segments, "ack", _ENDS, ("returned record", "non-monotone poll", "node failed"), is_compacted=True
    ),
}
