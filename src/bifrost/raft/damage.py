"""Telling a torn write, which is cut off, from damage to what was committed, which nobody may cut off silently.

Appends are synced one by one, each as one batch. So a crash can spoil the last batch of the last segment and nothing
else: a spoiled batch with a sound one behind it, or in an earlier segment, was committed once. Recovery of a partition
would end the log there and lose what follows; for metadata that would mean topics that vanish, so the start is refused.
"""

from __future__ import annotations

from typing import Final

from bifrost.errors import StorageError
from bifrost.log.disk import Disk, File
from bifrost.log.scan import DamagedBatchError, scan_batches
from bifrost.protocol.batch import CorruptBatchError, check_crc, read_header

_OFFSET_END: Final = (1 << 63) - 1
_APPEND_BYTES_MAX: Final = 8 << 20
_NO_PRODUCER: Final = b"\xff" * 14  # producer id, epoch and base sequence of a batch without a producer
_NO_PRODUCER_AT: Final = 43


def refuse_damage(disk: Disk, directory: str) -> None:
    """Raise StorageError if a batch other than the last one cannot be read."""
    names = sorted(name for name in disk.listdir(directory) if name.endswith(".log"))
    for name in names:
        file = disk.open(f"{directory}/{name}")
        size = file.size()
        damage = _first_damage(file, size, int(name.removesuffix(".log")))
        if damage is not None and (name != names[-1] or _has_sound_batch(file, damage.position, size)):
            raise StorageError(
                file.path,
                f"committed metadata is damaged at byte {damage.position} ({damage.reason});"
                " restore the directory from a backup",
            )


def _first_damage(file: File, size: int, base_offset: int) -> DamagedBatchError | None:
    expected = base_offset
    try:
        for position, header in scan_batches(file, 0, size, next_offset=expected, offset_end=_OFFSET_END, crc=True):
            if header.base_offset != expected:  # no checksum covers it, but nothing is ever removed from this log
                return DamagedBatchError(file, position, f"offset {header.base_offset}, expected {expected}")
            expected = header.next_offset
    except DamagedBatchError as damage:
        return damage
    return None


def _has_sound_batch(file: File, start: int, end: int) -> bool:
    """Whether a whole batch lies anywhere behind the damaged one, whose own length cannot be believed."""
    if end - start > _APPEND_BYTES_MAX:
        return True  # no single append is that long
    rest = bytes(file.read_at(end - start, start))
    found = rest.find(_NO_PRODUCER, _NO_PRODUCER_AT + 1)
    while found >= 0:
        try:
            if check_crc(rest, found - _NO_PRODUCER_AT, read_header(rest, found - _NO_PRODUCER_AT)):
                return True
        except CorruptBatchError:
            pass
        found = rest.find(_NO_PRODUCER, found + 1)
    return False
