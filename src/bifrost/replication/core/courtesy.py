"""When a follower that catches up rests, so that writers do not suffer from it. Pure.

What it has missed travels on the connection that also brings what writers wait for, and its disk has to take both. So
while somebody writes, it is sent a little at a time, and rests after each piece for a multiple of the time that the
piece took, which is the longer the busier both nodes are. Whoever does not come nearer that way, because its partition
is written to faster than it may read, rests no more: it would never get there.
"""

from __future__ import annotations

from typing import Final

_AT_WORK_MS: Final = 100
"""So long after a write others are expected."""
_HURRY_MS: Final = 1_000
_REST_MAX_MS: Final = 100
_PERCENT: Final = 100

PIECE_BYTES: Final = 256 << 10
"""Some two milliseconds of two nodes' time; a batch that is larger goes whole."""


class Courtesy:
    """Of one follower towards those who write to its leader."""

    __slots__ = ("_at_work_until_ms", "_hurries_until_ms", "_rests_until_ms", "_sent_at_ms")

    def __init__(self) -> None:
        self._at_work_until_ms = 0.0
        self._hurries_until_ms = 0.0
        self._rests_until_ms = 0.0
        self._sent_at_ms: float | None = None

    def on_write(self, now_ms: float) -> None:
        """Somebody has written to a partition that the two nodes share."""
        self._at_work_until_ms = now_ms + _AT_WORK_MS

    def on_sent(self, now_ms: float) -> None:
        """A piece of what it has missed has left for the follower."""
        self._sent_at_ms = now_ms

    def on_stored(self, now_ms: float, time_percent: int) -> None:
        """The follower is back. The piece took it so long; all pieces together may take that part of the time."""
        if self._sent_at_ms is None:
            return
        taken_ms, self._sent_at_ms = now_ms - self._sent_at_ms, None
        if self.gives_way(now_ms):
            rest_ms = taken_ms * (_PERCENT - time_percent) / time_percent
            self._rests_until_ms = now_ms + min(rest_ms, _REST_MAX_MS)

    def on_outrun(self, now_ms: float) -> None:
        """The follower is as far from the end as it was before the last piece, or farther."""
        self._hurries_until_ms = now_ms + _HURRY_MS
        self._rests_until_ms = 0.0

    def gives_way(self, now_ms: float) -> bool:
        """Whether somebody writes, and there is time to let them."""
        return self._hurries_until_ms <= now_ms < self._at_work_until_ms

    def rest_ms(self, now_ms: float) -> float:
        """How long until the next piece may leave."""
        return max(0.0, self._rests_until_ms - now_ms)
