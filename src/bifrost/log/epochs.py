"""Which leader epoch wrote which part of a log. Kafka: LeaderEpochFileCache.

This file decides where an epoch starts and ends: replicas compare these answers to find where their logs part, and
cut there. Pure: the owner stores `encode()` in `leader-epoch-checkpoint`.

The file may lag behind: what it lacks is read again from batch headers on recovery, so it only has to be stored before
the recovery point passes the first batch of an epoch. It must never say more than the log does: recovery and truncation
drop entries at and beyond the end.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final

from bifrost.log.checkpoints import decode_epochs, encode_epochs

UNDEFINED_EPOCH: Final = -1
UNDEFINED_OFFSET: Final = -1


class LeaderEpochs:
    """Epochs and the offsets they start at; both rise."""

    __slots__ = ("_epochs", "_starts", "changed", "latest")

    def __init__(self) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self.latest = UNDEFINED_EPOCH
        self.changed = False
        """Whether there is something that was not stored yet."""

    @classmethod
    def decode(cls, data: bytes) -> LeaderEpochs:
        """Raises `CorruptCheckpointError`."""
        epochs = cls()
        for epoch, start_offset in decode_epochs(data):
            epochs.assign(epoch, start_offset)
        epochs.changed = False
        return epochs

    def encode(self) -> bytes:
        return encode_epochs(self.entries())

    def entries(self) -> list[tuple[int, int]]:
        return list(zip(self._epochs, self._starts))

    def assign(self, epoch: int, start_offset: int) -> None:
        """The epoch starts here, unless it is known already. What contradicts it is forgotten.

        A leader that wrote nothing leaves an entry at the same offset as its successor: the successor replaces it.
        """
        assert epoch >= 0, epoch
        assert start_offset >= 0, start_offset
        if epoch == self.latest and start_offset >= self._starts[-1]:
            return
        while self._epochs and (self._epochs[-1] >= epoch or self._starts[-1] >= start_offset):
            del self._epochs[-1], self._starts[-1]
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        self._note_change()

    def end_offset(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The largest epoch at or below `epoch`, and where it ended: the answer to OffsetForLeaderEpoch.

        An epoch older than all known ones is answered with itself and the start of the first: its data is gone, and
        the asker may go on from there. (-1, -1) for an epoch that this replica has not heard of.
        """
        if epoch == UNDEFINED_EPOCH:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == self.latest:
            return epoch, log_end_offset
        higher = bisect_right(self._epochs, epoch)
        if higher == len(self._epochs):
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        return (self._epochs[higher - 1] if higher else epoch), self._starts[higher]

    def epoch_at(self, offset: int) -> int:
        """The epoch that wrote this offset, -1 if it is not known."""
        slot = bisect_right(self._starts, offset) - 1
        return self._epochs[slot] if slot >= 0 else UNDEFINED_EPOCH

    def truncate_from_end(self, end_offset: int) -> None:
        """Forgets every epoch that starts at `end_offset` or later."""
        slot = bisect_left(self._starts, end_offset)
        if slot < len(self._starts):
            del self._epochs[slot:], self._starts[slot:]
            self._note_change()

    def truncate_from_start(self, start_offset: int) -> None:
        """Forgets what ended before `start_offset`; the epoch that wrote it now starts there."""
        slot = bisect_right(self._starts, start_offset) - 1
        if slot >= 0 and (slot > 0 or self._starts[0] != start_offset):
            del self._epochs[:slot], self._starts[:slot]
            self._starts[0] = start_offset
            self._note_change()

    def clear(self) -> None:
        self.truncate_from_end(0)

    def _note_change(self) -> None:
        self.latest = self._epochs[-1] if self._epochs else UNDEFINED_EPOCH
        self.changed = True
