"""A log directory in use: the logs in it, and what is written about all of them together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bifrost.log.checkpoints import CLEANED_OFFSETS_FILE, RECOVERY_POINTS_FILE
from bifrost.log.flusher import Flusher
from bifrost.log.log_directory import LogDirectory
from bifrost.log.partition_log import PartitionLog
from bifrost.log.start_offsets import StartOffsets
from bifrost.types import TopicPartition

if TYPE_CHECKING:
    from bifrost.log.future import FutureLog


NOT_LISTED: Final = (1 << 63) - 1
"""The listed point of a log that the checkpoint may not have. Recovery takes such a log for one that was copied in, and
keeps its gaps, so no roll may leave a tail behind that is not safe."""


class Home:
    """One directory of a node."""

    __slots__ = ("directory", "flusher", "futures", "logs", "starts", "stored_points")

    def __init__(self, directory: LogDirectory, flusher: Flusher, starts: StartOffsets) -> None:
        self.directory = directory
        self.flusher = flusher
        self.starts = starts
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.futures: dict[TopicPartition, FutureLog] = {}
        """Copies that are made here, of logs in other directories."""
        self.stored_points: dict[TopicPartition, int] = {}
        """The highest recovery points that the checkpoint may hold, those of deleted logs among them."""

    def take_in(self, partition: TopicPartition, log: PartitionLog) -> None:
        """The log lives here from now on."""
        log.on_dirty = self.flusher.mark_dirty
        log.on_start_moved = self.starts.note
        self.logs[partition] = log

    def let_go(self, partition: TopicPartition) -> PartitionLog:
        """The log does not belong here any more."""
        log = self.logs.pop(partition)
        self.flusher.forget(log)
        self.starts.forget(partition, log)
        log.release()
        return log

    def recovery_points(self) -> dict[TopicPartition, int]:
        return {partition: log.recovery_point for partition, log in self.logs.items()}

    def cleaned_offsets(self) -> dict[TopicPartition, int]:
        """How far logs are clean, those that compaction has been to."""
        return {each: log.first_dirty_offset for each, log in self.logs.items() if log.first_dirty_offset > 0}

    def note_points(self, points: dict[TopicPartition, int]) -> None:
        """These are about to be stored; until they are, the file may hold those before."""
        known = self.stored_points
        self.stored_points = {each: max(known.get(each, 0), points.get(each, 0)) for each in {**known, **points}}

    def points_are_stored(self, points: dict[TopicPartition, int]) -> None:
        """The checkpoint has these, and nothing else."""
        self.stored_points = points
        for partition, log in self.logs.items():
            if partition in points:
                log.listed_point = max(points[partition], log.recovery_point)

    def store_cleaned(self, offsets: dict[TopicPartition, int]) -> None:
        """Where there never was anything to tell there is no file. Blocks."""
        if offsets or self.directory.has(CLEANED_OFFSETS_FILE):
            self.directory.write_offsets(CLEANED_OFFSETS_FILE, offsets)

    def store_last_words(self, broker_epoch: int) -> None:
        """What a stop in order leaves, in the order in which a start believes it. Blocks."""
        self.directory.write_offsets(RECOVERY_POINTS_FILE, self.recovery_points())
        self.store_cleaned(self.cleaned_offsets())
        self.starts.store_last({partition: log.first_offset for partition, log in self.logs.items()})
        self.directory.mark_clean(broker_epoch)
