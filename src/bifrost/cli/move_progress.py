"""How far moves are, for people: the length of a bar and the words beside it, or lines where there is no terminal.

Decides what is shown; draws nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bifrost.cli.output import counted

if TYPE_CHECKING:
    from bifrost.client.moves.run import Progress

_LAST_SHARE: Final = 0.05
"""Of each partition that is left: it may have been copied, and is not over before its old replicas are gone."""


class Bar:
    """Grows with what is copied, and never shrinks: to people that would look like a loss."""

    def __init__(self) -> None:
        self.total = 0.0
        self.completed = 0.0
        self._most_bytes = 0

    def update(self, progress: Progress) -> str:
        """The words beside it."""
        self.total = progress.partitions
        self._most_bytes = max(self._most_bytes, progress.bytes_left)
        missing = 1.0
        if self._most_bytes:
            missing = max(_LAST_SHARE, progress.bytes_left / self._most_bytes)
        self.completed = max(self.completed, self.total - progress.partitions_left * missing)
        return words(progress)


class Lines:
    """One for every change that matters: bytes change all the time."""

    def __init__(self) -> None:
        self._last: tuple[int, tuple[int, ...]] | None = None

    def update(self, progress: Progress) -> str | None:
        """The next line, if there is news."""
        news = (progress.partitions_left, progress.awaited)
        if news == self._last:
            return None
        self._last = news
        return words(progress)


def words(progress: Progress) -> str:
    left = f"{progress.partitions_left} of {counted(progress.partitions, 'partition')} left"
    if progress.bytes_left:
        left += f", {_size(progress.bytes_left)} to copy"
    if progress.awaited:
        left += f", waiting for broker {','.join(map(str, progress.awaited))}"
    return left


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
