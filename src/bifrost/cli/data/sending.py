"""From a stream of lines to an account of what was sent: the loop of `produce` and `console-producer`.

Decides when to stop: at the end of the input, at the first line that cannot be sent, at the first record that was not
acknowledged in time, at Ctrl-C. Whichever it is, what was sent before is waited for and counted.
"""

from __future__ import annotations

import os
import stat
import time
from typing import BinaryIO, NoReturn

from bifrost.cli.data.cluster import partitions_hint
from bifrost.cli.data.input import InputError, batches
from bifrost.cli.data.interrupt import Interrupt
from bifrost.cli.data.lines import LineError, Parse, Record
from bifrost.cli.data.pace import Pace
from bifrost.cli.data.progress import Bar
from bifrost.cli.data.report import end, print_report
from bifrost.cli.data.sender import Sender
from bifrost.cli.patience import hogo_lo
from bifrost.client.errors import BifrostError, SerializationError

_FINISH_AFTER_INTERRUPT_S = 5.0
_NAP_S = 0.1


def run(
    sender: Sender,
    stream: BinaryIO,
    parse: Parse,
    *,
    delimiter: bytes | None,
    rate: float = 0,
    as_json: bool = False,
    quiet: bool = False,
    prompt: str = "",
    one_by_one: bool = False,
    again: str = "bifrost produce …",
) -> None:
    """Send, report unless `quiet`, and end the command as what happened demands. No delimiter: all is one record.

    `one_by_one` waits for each record before the next; `prompt` is printed when there is nothing to read; `again` is
    the command that goes on after a line was corrected.
    """
    problem: BifrostError | None = None
    started_s = time.monotonic()
    with Interrupt() as interrupt:
        with Bar(wanted=not (quiet or as_json or stream.isatty()), total_bytes=_size(stream)) as bar:
            loop = _Loop(sender, parse, interrupt, bar, again)
            try:
                loop.whole(stream) if delimiter is None else loop.lines(
                    stream, delimiter, Pace(rate, time.monotonic()), prompt, one_by_one
                )
            except BifrostError as error:
                problem = error
            with hogo_lo(sender.leaders_awaited, sender.bootstrap):
                sender.finish(_Patience(interrupt), lambda: bar.show(sender))
        if not quiet:
            stopped = str(problem) if problem else "interrupted" if interrupt else None
            seconds = time.monotonic() - started_s
            print_report(sender.tally, sender.topic, seconds=seconds, stopped=stopped, as_json=as_json)
    end(sender, interrupt, problem)


class _Loop:
    def __init__(self, sender: Sender, parse: Parse, interrupt: Interrupt, bar: Bar, again: str) -> None:
        self._sender = sender
        self._parse = parse
        self._interrupt = interrupt
        self._bar = bar
        self._again = again

    def whole(self, stream: BinaryIO) -> None:
        try:
            self._sender.send(self._parse(stream.read()), self._is_over)
        except (LineError, BifrostError) as error:
            raise SerializationError(f"the input cannot be sent: {_what(error)}", _hint(error)) from error

    def lines(self, stream: BinaryIO, delimiter: bytes, pace: Pace, prompt: str, one_by_one: bool) -> None:
        number = 0
        parse, send, is_over = self._parse, self._sender.send, self._is_over
        partition_count = self._sender.partition_count
        print(prompt, end="", flush=True)
        try:
            for batch in batches(
                stream,
                delimiter=delimiter,
                limit=1 if one_by_one else pace.batch,
                idle=self._is_over,
                on_bytes=self._bar.add_bytes,
            ):
                for line in batch:
                    number += 1
                    record = parse(line)
                    if record.partition >= partition_count:
                        self._refuse(record)
                    if not send(record, is_over):
                        return
                if one_by_one:
                    self._sender.finish(self._is_over, lambda: None)
                print(prompt * len(batch), end="", flush=True)
                if self._is_over() or self._rests(pace.wait_s(len(batch), time.monotonic())):
                    return
        except InputError as error:
            raise SerializationError(
                f"line {number + 1}: {error}", "Is this text? `bifrost produce --format raw` sends all as one."
            ) from error
        except (LineError, BifrostError) as error:
            hint = _hint(error) or _go_on(number, self._again)
            raise SerializationError(f"line {number}: {_what(error)}", hint) from error

    def _refuse(self, record: Record) -> NoReturn:
        hint = partitions_hint(self._sender.partition_count)
        raise LineError(f"topic {self._sender.topic} has no partition {record.partition}. {hint}")

    def _is_over(self) -> bool:
        self._sender.tick()
        self._bar.show(self._sender)
        return bool(self._interrupt) or self._sender.tally.failed > 0

    def _rests(self, seconds: float) -> bool:
        """Sleep, but not through a Ctrl-C; true if it is over."""
        until_s = time.monotonic() + seconds
        while (left_s := until_s - time.monotonic()) > 0:
            self._sender.tick(min(left_s, _NAP_S))
            if self._is_over():
                return True
        return False


class _Patience:
    """After Ctrl-C, what is on its way gets a few seconds more."""

    def __init__(self, interrupt: Interrupt) -> None:
        self._interrupt = interrupt
        self._since_s: float | None = None

    def __call__(self) -> bool:
        if self._interrupt and self._since_s is None:
            self._since_s = time.monotonic()
        return self._since_s is not None and time.monotonic() > self._since_s + _FINISH_AFTER_INTERRUPT_S


def _what(error: Exception) -> str:
    return error.problem if isinstance(error, BifrostError) else str(error)


def _hint(error: Exception) -> str:
    return error.hint if isinstance(error, BifrostError) else ""


def _go_on(number: int, again: str) -> str:
    before = (
        "Nothing was sent"
        if number == 1
        else f"The {number - 1:,} before it were sent"
        if number > 2
        else "Line 1 was sent"
    )
    return f"{before}; correct the line and go on from there: `tail -n +{number} FILE | {again}`."


def _size(stream: BinaryIO) -> int | None:
    """How many bytes there are, if that can be told."""
    try:
        found = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None
