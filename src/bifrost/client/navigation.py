"""Where a consumer reads: choosing partitions and places in them, by offset, time or name, and telling where it is.

Places are resolved to offsets here, before librdkafka hears of them: it would silently go to the end, or back to the
start, if an offset did not exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from time import monotonic
from typing import TYPE_CHECKING, Final, Literal

from bifrost.client.errors import InvalidRequestError, TimedOutError, UnknownPartitionError
from bifrost.client.inbox import Inbox
from bifrost.client.lookups import END, START, Lookups
from bifrost.client.ownership import Ownership
from bifrost.client.positions import OffsetTable, PartitionOffsets
from bifrost.client.progress import Progress
from bifrost.client.reader import SLICE_S, Reader
from bifrost.types import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import Consumer as RawConsumer
    from confluent_kafka import TopicPartition as RawPartition

Partitions = str | tuple[str, int] | Iterable[tuple[str, int]] | None
"""A topic's name (all its partitions), one partition, several, or None: all that are assigned."""
Name = Literal["beginning", "end"]
Place = int | Name | None
"""An offset, one of the two ends, or None: the usual start."""

COMMITTED: Final = -1000
"""librdkafka's name for the offset that the group has committed (RD_KAFKA_OFFSET_STORED)."""
ASSIGNMENT_TIMEOUT_S: Final = 60.0

_ENDS: Final = {"beginning": START, "end": END}


class Navigator:
    """Moves one consumer about."""

    def __init__(
        self, raw: RawConsumer, lookups: Lookups, owner: Ownership, reader: Reader, inbox: Inbox, progress: Progress
    ) -> None:
        self._raw = raw
        self._lookups = lookups
        self._owner = owner
        self._reader = reader
        self._inbox = inbox
        self._progress = progress

    def assign(self, places: Mapping[TopicPartition, Place], usual: Name | None) -> None:
        """Own exactly these; `usual` is where those without a place start, None for what the group has committed."""
        for partition in places:
            self._lookups.check_partition(partition)
        chosen = {partition: usual if place is None else place for partition, place in places.items()}
        starts = {partition: COMMITTED for partition, place in chosen.items() if place is None}
        starts |= self._resolve({partition: place for partition, place in chosen.items() if place is not None})
        self._owner.assign(starts)

    def seek(
        self, partitions: Partitions, *, offset: int | None, timestamp: datetime | int | None, to: Name | None
    ) -> None:
        """Go on elsewhere in these partitions."""
        if sum(place is not None for place in (offset, timestamp, to)) != 1:
            raise InvalidRequestError(
                "seek() needs one place", 'Give offset=, or timestamp=, or to="beginning" or to="end".'
            )
        if to is not None and to not in _ENDS:
            raise InvalidRequestError(f"to={to!r} is no place", 'There are "beginning" and "end".')
        chosen = self.select(partitions)
        if timestamp is not None:
            at_ms = timestamp if isinstance(timestamp, int) else round(timestamp.timestamp() * 1000)
            found = self._lookups.offsets_at({partition: max(0, at_ms) for partition in chosen})
        else:
            place = offset if offset is not None else to
            assert place is not None
            found = self._resolve(dict.fromkeys(chosen, place))
        for partition, start in found.items():
            if self._owner.starts is not None:
                self._owner.starts[partition] = start  # inside on_assigned: not assigned yet, but about to be
            else:
                self._reader.move(partition, start)

    def pause(self, partitions: Partitions) -> None:
        chosen = self.select(partitions)
        self._inbox.pause(chosen)
        if self._owner.starts is None:
            self._raw.pause(_raw(chosen))

    def resume(self, partitions: Partitions) -> None:
        chosen = self.select(partitions)
        self._inbox.resume(chosen)
        if self._owner.starts is None:
            self._raw.resume(_raw(chosen))

    def position(self, partition: TopicPartition) -> int | None:
        """The offset of the next message to be given out; None as long as nobody knows."""
        mark = self._progress.given([partition]).get(partition)
        return None if mark is None else mark.offset

    def offsets(self, *, grouped: bool) -> OffsetTable:
        """How far the consumer is in every partition it has."""
        partitions = sorted(self._owner.assigned)
        ends = self._lookups.offsets_at(dict.fromkeys(partitions, END))
        committed = self._lookups.committed(partitions) if grouped else {}
        here = {partition: mark.offset for partition, mark in self._progress.given(partitions).items()}
        return OffsetTable(
            PartitionOffsets(*partition, here.get(partition), committed.get(partition), ends.get(partition))
            for partition in partitions
        )

    def select(self, partitions: Partitions) -> list[TopicPartition]:
        """The assigned partitions that are meant; waits for the group's first assignment."""
        self._await_assignment()
        assigned = sorted(self._owner.assigned)
        if partitions is None:
            return assigned
        if isinstance(partitions, str):
            chosen = [partition for partition in assigned if partition.topic == partitions]
            if not chosen:
                raise _not_assigned(f"topic {partitions}", assigned)
            return chosen
        chosen = named(partitions)
        for partition in chosen:
            if partition not in self._owner.assigned:
                raise _not_assigned(str(partition), assigned)
        return chosen

    def _await_assignment(self) -> None:
        deadline = monotonic() + ASSIGNMENT_TIMEOUT_S
        while not self._owner.assigned:
            if not self._owner.is_set:
                raise InvalidRequestError("nothing is assigned", "Call subscribe() or assign() first.")
            if monotonic() > deadline:
                raise TimedOutError(
                    "the group has assigned no partition to this consumer",
                    "It may have more members than there are partitions: `bifrost group members GROUP` shows them.",
                )
            self._reader.fill(SLICE_S)

    def _resolve(self, places: Mapping[TopicPartition, int | Name]) -> dict[TopicPartition, int]:
        """Offsets for places; refuses offsets that do not exist."""
        found = {partition: place for partition, place in places.items() if isinstance(place, int)}
        ends = {partition: _ENDS[place] for partition, place in places.items() if isinstance(place, str)}
        first = self._lookups.offsets_at(dict.fromkeys(found, START))
        last = self._lookups.offsets_at(dict.fromkeys(found, END))
        for partition, offset in found.items():
            if not first[partition] <= offset <= last[partition]:
                raise InvalidRequestError(
                    f"{partition} has no offset {offset}",
                    f"Its first message is at {first[partition]}, the next one will be at {last[partition]}.",
                    code="OFFSET_OUT_OF_RANGE",
                )
        return found | self._lookups.offsets_at(ends)


def named(partitions: tuple[str, int] | Iterable[tuple[str, int]]) -> list[TopicPartition]:
    """One partition, or several, as a list."""
    if isinstance(partitions, tuple) and len(partitions) == 2 and isinstance(partitions[0], str):
        return [TopicPartition(*partitions)]
    return [TopicPartition(*partition) for partition in partitions]


def _not_assigned(what: str, assigned: list[TopicPartition]) -> UnknownPartitionError:
    return UnknownPartitionError(f"{what} is not assigned to this consumer", f"It has {', '.join(map(str, assigned))}.")


def _raw(partitions: Iterable[TopicPartition]) -> list[RawPartition]:
    from confluent_kafka import TopicPartition as RawPartition

    return [RawPartition(topic, partition) for topic, partition in partitions]
