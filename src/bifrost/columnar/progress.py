"""A bar on stderr: how far the reading is, where there is somebody to see it."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_EVERY_S: Final = 0.1


class Bar:
    """Cheap enough to be told of every record batch."""

    def __init__(self, topic: str, total: int | None, *, wanted: bool) -> None:
        self._topic = topic
        self._total = total
        self._wanted = wanted
        self._passed = 0
        self._rows = 0
        self._drawn_s = 0.0
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        if self._wanted:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            console = Console(file=sys.stderr)
            columns = (TextColumn("{task.description}"), BarColumn(bar_width=30), TimeElapsedColumn())
            self._progress = Progress(*columns, console=console, transient=True, auto_refresh=False)
            self._progress.start()
            self._task = self._progress.add_task(self._topic, total=self._total)
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress is not None:
            self._draw()
            self._progress.stop()

    def advance(self, offsets: int, rows: int) -> None:
        """So many more offsets are done, or rows were found in them."""
        self._passed += offsets
        self._rows += rows
        if self._progress is not None and time.monotonic() >= self._drawn_s + _EVERY_S:
            self._draw()

    def _draw(self) -> None:
        if self._progress is None or self._task is None:
            return
        self._drawn_s = time.monotonic()
        self._progress.update(
            self._task, completed=self._passed, description=f"{self._topic}  {self._rows:,} rows", refresh=True
        )
