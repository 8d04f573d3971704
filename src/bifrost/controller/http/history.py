"""The newest events, for streams that read them at their own pace. A witness of the metadata: it must never raise.

There is one list for all readers, with a bound. A reader has no queue, only a place; one that is slower than the list
forgets finds out (`knows_all_since`), and has to be told so. After a start the list fills up again from the log, which
is applied from the newest snapshot on.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Sequence

from bifrost.controller.core.events import Event, EventId, events_of
from bifrost.controller.core.image import MetadataImage
from bifrost.controller.core.records import MetadataRecord
from bifrost.raft.metadata_log import EpochBegun


class EventHistory:
    """Between `events_max` and twice as many events."""

    def __init__(self, events_max: int) -> None:
        self._events_max = events_max
        self._ids: list[EventId] = []
        self._events: list[Event] = []
        self._forgotten = EventId(0, 0)  # everything behind it is known
        self._next_offset = 0
        self._changed = asyncio.Event()
        self.is_closed = False

    @property
    def end(self) -> EventId:
        """Before anything that is still to happen."""
        return EventId(self._next_offset, 0)

    def knows_all_since(self, last: EventId) -> bool:
        """Whether nothing was forgotten that happened after `last`."""
        return last >= self._forgotten

    def after(self, last: EventId, limit: int) -> list[tuple[EventId, Event]]:
        """The first events behind `last`, in order."""
        start = bisect_right(self._ids, last)
        return list(zip(self._ids[start : start + limit], self._events[start : start + limit]))

    async def more(self, timeout_s: float) -> None:
        """Returns when there may be more, or when time is over."""
        try:
            await asyncio.wait_for(self._changed.wait(), timeout_s)
        except TimeoutError:
            pass

    def close(self) -> None:
        """The node stops: every stream ends."""
        self.is_closed = True
        self._changed.set()

    # What the metadata tells.

    def on_change(
        self, image: MetadataImage, change: Sequence[MetadataRecord] | EpochBegun, *, offset: int, at_ms: int
    ) -> None:
        self._next_offset = offset + 1
        for event_id, event in events_of(image, change, offset=offset, at_ms=at_ms):
            self._ids.append(event_id)
            self._events.append(event)
        if len(self._events) > 2 * self._events_max:
            surplus = len(self._events) - self._events_max
            self._forgotten = self._ids[surplus - 1]
            del self._ids[:surplus], self._events[:surplus]
        self._wake()

    def on_restored(self, next_offset: int) -> None:
        self._ids.clear()
        self._events.clear()
        self._next_offset = next_offset
        self._forgotten = EventId(next_offset, 0)
        self._wake()

    def _wake(self) -> None:
        if not self.is_closed:
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()
