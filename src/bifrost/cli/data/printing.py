"""From messages to stdout: the loop of `consume` and `console-consumer`.

Decides when to stop: at the end of the plan, after so many messages, after a silence, at Ctrl-C, when nobody reads what
is written. Only what has been written counts, and only that is committed.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bifrost.cli.data.formats import Format, FormatError
from bifrost.cli.data.interrupt import Interrupt
from bifrost.cli.data.reader import Reader, received
from bifrost.cli.output import remark
from bifrost.client.errors import SerializationError

if TYPE_CHECKING:
    from confluent_kafka import Message

_CLOSED_PIPE = 128 + signal.SIGPIPE
_UNLIMITED = 1 << 62


@dataclass(slots=True)
class Outcome:
    """How it ended. `exit_code` is not 0 after a signal and when the reader of the output has gone."""

    count: int = 0
    timed_out: bool = False
    exit_code: int = 0


class Printer:
    """Writes messages to stdout. One that cannot be shown ends it with SerializationError, unless they are skipped."""

    def __init__(self, reader: Reader, render: Format, *, skip_errors: bool = False) -> None:
        self._reader = reader
        self._render = render
        self._skip_errors = skip_errors
        self.outcome = Outcome()

    def run(self, *, limit: int | None, silence_s: float | None) -> Outcome:
        """Until the plan of the reader ends, `limit` messages were written, or none came for `silence_s`."""
        outcome = self.outcome
        wanted = _UNLIMITED if limit is None else limit
        heard_s = time.monotonic()
        remarked = False
        with Interrupt() as interrupt:
            for messages in self._reader.batches(lambda: wanted - outcome.count):
                if messages:
                    heard_s = time.monotonic()
                    remarked = False
                    self._write(messages)
                if interrupt:
                    outcome.exit_code = interrupt.exit_code
                outcome.timed_out = silence_s is not None and time.monotonic() > heard_s + silence_s
                if outcome.count >= wanted or outcome.timed_out or outcome.exit_code:
                    break
                if self._reader.trouble.all_down and not remarked:
                    remarked = True
                    remark(f"no broker answers ({self._reader.trouble.reason}); trying again")
        return outcome

    def _write(self, messages: Sequence[Message]) -> None:
        lines: list[bytes] = []
        problem: FormatError | None = None
        done = 0
        for message in messages:
            try:
                lines.append(self._render(received(message)))
            except FormatError as error:
                if not self._skip_errors:
                    problem = error
                    break
                remark(f"skipped: {error}")
            done += 1
        try:
            sys.stdout.buffer.writelines(lines)
            sys.stdout.buffer.flush()
        except BrokenPipeError:  # as with `| head`: nobody knows how much of this was read, so none of it counts
            silence_stdout()
            self.outcome.exit_code = _CLOSED_PIPE
            return
        self.outcome.count += done
        self._reader.written(messages[:done])
        if problem is not None:
            raise SerializationError(str(problem))


def silence_stdout() -> None:
    """Keeps Python from complaining about the closed pipe once more when it flushes stdout at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
