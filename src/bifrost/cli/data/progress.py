"""A bar on stderr while records are sent: only for people, only on a terminal, a few times a second."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from bifrost.cli.data.sender import Sender

_EVERY_S = 0.1


class Bar:
    """Knows how much of the input has been read, if the whole is known, and how much was acknowledged."""

    def __init__(self, *, wanted: bool, total_bytes: int | None) -> None:
        self._wanted = wanted and sys.stderr.isatty()
        self._total = total_bytes
        self._read = 0
        self._drawn_s = 0.0
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        if self._wanted:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            self._progress = Progress(
                BarColumn(bar_width=20),
                TextColumn("{task.description}"),
                TimeElapsedColumn(),
                console=Console(stderr=True),
                transient=True,
                auto_refresh=False,
            )
            self._progress.start()
            self._task = self._progress.add_task("", total=self._total)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def add_bytes(self, count: int) -> None:
        self._read += count

    def show(self, sender: Sender) -> None:
        """Cheap enough to be called for every batch."""
        if self._progress is None or self._task is None or time.monotonic() < self._drawn_s + _EVERY_S:
            return
        self._drawn_s = time.monotonic()
        tally = sender.tally
        text = f"sent {tally.sent:,}, acknowledged {tally.acknowledged:,}"
        if sender.trouble.all_down:
            text += f"; no broker answers ({sender.trouble.reason}), trying again"
        self._progress.update(self._task, completed=self._read, description=text)
        self._progress.refresh()
