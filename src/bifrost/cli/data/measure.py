"""The loops of `perf`: send, read, and send-and-read-back, each with a meter."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from bifrost.cli.data.interrupt import Interrupt
from bifrost.cli.data.lines import LineError, Record, unescape
from bifrost.cli.data.meter import Meter
from bifrost.cli.data.pace import Pace
from bifrost.cli.data.reader import Reader
from bifrost.cli.data.sender import Sender
from bifrost.client.errors import ConfigError, DeliveryError, TimedOutError

_DIFFERENT = 1000
_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_ROUND_TRIP_S = 30.0
_NAP_S = 0.1


def payloads(size: int, file: Path | None, delimiter: str, *, monotonic: bool) -> Iterator[bytes]:
    """Values without end: random letters, lines of the file at random, or numbers. The same in every run."""
    generator = random.Random(0)
    if monotonic:
        return (b"%d" % number for number in itertools.count())
    if file is None:
        return itertools.cycle([bytes(generator.choices(_LETTERS, k=size)) for _ in range(_DIFFERENT)])
    try:
        found = file.read_bytes().split(unescape(delimiter))
    except (OSError, LineError, ValueError) as error:
        raise ConfigError(f"--payload-file: {error}") from None
    if found[-1] == b"":
        found.pop()
    if not found:
        raise ConfigError(f"--payload-file: {file} is empty")
    return (generator.choice(found) for _ in itertools.count())


def send_records(
    sender: Sender, values: Iterator[bytes], count: int, meter: Meter, *, rate: float, warmup: int, interrupt: Interrupt
) -> None:
    """`count` records, or fewer if one fails or at Ctrl-C; all of them are waited for.

    Counts from here: what it took to reach the cluster says nothing about how fast it takes records.
    """
    meter.restart()
    pace = Pace(rate, time.monotonic())
    warm = warmup == 0
    tally = sender.tally

    def is_over() -> bool:
        return bool(interrupt) or tally.failed > 0

    while tally.sent < count and not is_over():
        batch = min(pace.batch, count - tally.sent)
        for value in itertools.islice(values, batch):
            if not sender.send(Record(value), is_over):
                break
        sender.tick()
        if not warm and tally.acknowledged >= warmup:
            warm = True
            meter.restart()
        meter.show()
        rested_s = time.monotonic() + pace.wait_s(batch, time.monotonic())
        while (left_s := rested_s - time.monotonic()) > 0 and not is_over():
            sender.tick(min(left_s, _NAP_S))
            meter.show()
    sender.finish(lambda: bool(interrupt), meter.show)


class Read(NamedTuple):
    """When the first and the last record came, None if none did, and the exit code that Ctrl-C asks for."""

    first_s: float | None
    last_s: float | None
    exit_code: int


def read_records(reader: Reader, meter: Meter, *, limit: int | None, silence_s: float) -> Read:
    """Until the plan of the reader ends, there are enough, none came for a while, or Ctrl-C."""
    meter.restart()
    first_s = last_s = None
    quiet_since_s = time.monotonic()
    wanted = 1 << 62 if limit is None else limit
    with Interrupt() as interrupt:
        for messages in reader.batches(lambda: wanted - meter.records):
            if messages:
                quiet_since_s = last_s = time.monotonic()
                first_s = first_s or last_s
                meter.add(len(messages), sum(map(len, messages)))
                reader.written(messages)
            meter.show()
            if interrupt or meter.records >= wanted or time.monotonic() > quiet_since_s + silence_s:
                break
    return Read(first_s, last_s, interrupt.exit_code if interrupt else 0)


def round_trips(
    sender: Sender,
    reader: Reader,
    meter: Meter,
    *,
    count: int,
    size: int,
    interrupt: Interrupt,
    on_warm: Callable[[], None],
) -> None:
    """One record at a time, after one that is not counted because it opens the connections.

    Records of others in the topic are passed over.
    """
    mark = b"%016x" % random.getrandbits(64)
    batches = reader.batches(lambda: 1000)
    for number in range(count + 1):
        value = (mark + b"-%d-" % number).ljust(size, b".")
        started_s = time.perf_counter()
        sender.send(Record(value), lambda: bool(interrupt))
        sender.finish(lambda: bool(interrupt), meter.show)
        while not interrupt:
            if sender.tally.failed:
                cause = sender.error
                raise DeliveryError(f"record {number} was not acknowledged: {cause.problem if cause else ''}")
            if any(message.value() == value for message in next(batches)):
                meter.add_latency(int((time.perf_counter() - started_s) * 1_000_000), len(value))
                break
            if time.perf_counter() > started_s + _ROUND_TRIP_S:
                raise TimedOutError(f"record {number} was acknowledged, but not read back in {_ROUND_TRIP_S:g} s")
        if interrupt:
            return
        if number == 0:
            meter.restart()
            on_warm()
        meter.show()
