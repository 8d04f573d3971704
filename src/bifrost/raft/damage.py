"""Telling a torn write, which is cut off, from damage to what was committed, which nobody may cut off silently.

What was synced may have been committed. Recovery of a partition would end the log at the first batch that is spoiled
and lose what follows; for metadata that would mean topics that vanish. What was written and never synced nobody relies
on, and a loss of power may leave any part of it: there the log ends.

How far it was synced is known (`synced_mark.py`), but not to the last batch. So what is spoiled at the very end counts
as torn in any case, and what has a sound batch behind it, or is in an earlier segment, only beyond the mark.

No checksum covers offsets and epochs. But offsets leave no gaps here, and an epoch begins with a record that says so.

This file looks and tells. What is done about damage is `rebuilding.py`'s business.
"""

from __future__ import annotations

from typing import Final

from bifrost.errors import StorageError
from bifrost.log.disk import Disk, File
from bifrost.log.scan import DamagedBatchError, scan_batches
from bifrost.protocol.batch import BatchHeader, CorruptBatchError, check_crc, read_header

_OFFSET_END: Final = (1 << 63) - 1
_ANYWHERE: Final = -1
_APPEND_BYTES_MAX: Final = 8 << 20
_NO_PRODUCER: Final = b"\xff" * 14  # producer id, epoch and base sequence of a batch without a producer
_NO_PRODUCER_AT: Final = 43


class DamagedMetadataError(StorageError):
    """Something that was committed, or promised, cannot be read any more."""


def refuse_damage(
    disk: Disk, directory: str, *, synced_to: int | None, epoch_max: int | None, is_of_quorum: bool
) -> None:
    """Raise DamagedMetadataError if anything that was synced cannot be read.

    `epoch_max` is the latest epoch that this member ever heard of, if that is known. A node that was alone before there
    were quorums has begun epochs without a record of it.
    """
    names = sorted(name for name in disk.listdir(directory) if name.endswith(".log"))
    walk = _Walk(epoch_max, is_of_quorum)
    for name in names:
        file = disk.open(f"{directory}/{name}")
        size, base_offset = file.size(), int(name.removesuffix(".log"))
        try:
            walk.enter(file, base_offset)
            for position, header in scan_batches(file, 0, size, next_offset=0, offset_end=_OFFSET_END, crc=True):
                walk.step(file, position, header)
        except _MisplacedBatchError as damage:
            raise _told(file, damage) from None
        except DamagedBatchError as damage:
            if synced_to is not None and walk.next_offset >= synced_to:
                return  # the log ends here
            if name != names[-1] or _has_sound_batch(file, damage.position, size):
                raise _told(file, damage) from None


class _MisplacedBatchError(DamagedBatchError):
    """A sound batch where it cannot have been written."""


class _Walk:
    """Goes from batch to batch, through all segments."""

    def __init__(self, epoch_max: int | None, is_of_quorum: bool) -> None:
        self._epoch_max = epoch_max
        self._is_of_quorum = is_of_quorum
        self.next_offset = _ANYWHERE
        self._epoch: int | None = None

    def enter(self, file: File, base_offset: int) -> None:
        if self.next_offset not in (_ANYWHERE, base_offset):
            raise _MisplacedBatchError(file, 0, f"offsets {self.next_offset} to {base_offset} are missing before it")
        self.next_offset = base_offset

    def step(self, file: File, position: int, header: BatchHeader) -> None:
        if header.base_offset != self.next_offset:
            told = f"offset {header.base_offset}, expected {self.next_offset}"
            raise _MisplacedBatchError(file, position, told)
        epoch = header.leader_epoch
        begins = self._epoch is None or epoch == self._epoch or header.is_control or not self._is_of_quorum
        if epoch < (self._epoch or 0) or not begins or (self._epoch_max is not None and epoch > self._epoch_max):
            raise _MisplacedBatchError(file, position, f"epoch {epoch} after {self._epoch}")
        self.next_offset, self._epoch = header.next_offset, epoch


def _told(file: File, damage: DamagedBatchError) -> DamagedMetadataError:
    return DamagedMetadataError(file.path, f"committed metadata is damaged at byte {damage.position} ({damage.reason})")


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
