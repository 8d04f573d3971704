"""Finishing or undoing what a process left half done in a partition's directory. Kafka: LogLoader.

This file decides the fate of files with a suffix of their own. `.deleted`, `.cleaned` and `.tmp` files never became
part of the log, or no longer are. `.swap` files are the finished result of compaction: the segments they replace may be
gone already, so they take their place. Index files without a log belong to nothing.
"""

from __future__ import annotations

import logging
from typing import Final

from bifrost.log.disk import TEMPORARY_SUFFIX, Disk
from bifrost.log.index import RELATIVE_OFFSET_MAX
from bifrost.log.names import CLEANED, DELETED, LOG, OFFSET_INDEX, SWAP, TIME_INDEX, TXN_INDEX, offset_of
from bifrost.log.scan import DamagedBatchError, scan_batches

_log = logging.getLogger(__name__)

_INDEX_SUFFIXES: Final = (OFFSET_INDEX, TIME_INDEX, TXN_INDEX)
_SEGMENT_SUFFIXES: Final = (LOG, *_INDEX_SUFFIXES)
_PASSING: Final = (DELETED, CLEANED, SWAP, TEMPORARY_SUFFIX)
_KRAFT_SNAPSHOT_DELETED: Final = ".checkpoint" + DELETED  # belongs to the metadata log's own snapshots


def tidy(disk: Disk, directory: str) -> dict[str, int]:
    """Leaves only whole segments and their companions; names and sizes of what is there."""
    sizes = disk.file_sizes(directory)
    orphans = _orphans(sizes)
    if not orphans and not any(name.endswith(_PASSING) for name in sizes):
        return sizes
    doomed = [
        name
        for name in sizes
        if name.endswith((DELETED, CLEANED, TEMPORARY_SUFFIX)) and not name.endswith(_KRAFT_SNAPSHOT_DELETED)
    ]
    swaps = [name for name in sizes if name.endswith(SWAP)]
    # A `.cleaned` file at or below a `.swap` means that a split of one segment into several was interrupted: the
    # original is still whole, so what was split off goes (KAFKA-6264).
    first_cleaned = min((name for name in doomed if name.endswith(CLEANED)), default=None)
    if first_cleaned is not None:
        doomed += [name for name in swaps if name[:20] >= first_cleaned[:20]]
        swaps = [name for name in swaps if name not in doomed]
    if swaps:
        doomed += _replaced_by(disk, directory, swaps, sizes)
    for name in doomed:
        disk.remove(f"{directory}/{name}")
    for name in sorted(swaps):
        _log.info("interrupted swap completed path=%s/%s", directory, name)
        disk.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(SWAP)}")
    for name in _orphans(disk.file_sizes(directory)):
        disk.remove(f"{directory}/{name}")
    _log.info("leftovers removed directory=%s", directory)
    disk.sync_directory(directory)
    return disk.file_sizes(directory)


def _replaced_by(disk: Disk, directory: str, swaps: list[str], sizes: dict[str, int]) -> list[str]:
    """Files of the segments whose batches now live in `.swap` files."""
    start, end = -1, -1
    for name in sorted(swaps):
        base_offset = offset_of(name, LOG + SWAP)
        if base_offset is not None:
            start = base_offset if start < 0 else start
            end = max(end, _next_offset(disk, f"{directory}/{name}", base_offset, sizes[name]))
    return [
        name
        for name in sizes
        for suffix in _SEGMENT_SUFFIXES
        if (offset := offset_of(name, suffix)) is not None and start <= offset < end
    ]


def _next_offset(disk: Disk, path: str, base_offset: int, size: int) -> int:
    next_offset = base_offset
    offset_end = base_offset + RELATIVE_OFFSET_MAX + 1
    try:
        for _, header in scan_batches(disk.open(path), 0, size, next_offset=base_offset, offset_end=offset_end):
            next_offset = header.next_offset
    except DamagedBatchError as damage:
        _log.warning("swapped segment is damaged %s", damage)
    return next_offset


def _orphans(sizes: dict[str, int]) -> list[str]:
    """Index files without a log."""
    indexes = (name for name in sizes if name.endswith(_INDEX_SUFFIXES))
    return [name for name in indexes if name[: name.index(".")] + LOG not in sizes]
