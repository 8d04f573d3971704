"""The pieces of the loops that send and read: input, ends, arguments, meters, Ctrl-C."""

from __future__ import annotations

import io
import itertools
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bifrost.cli.data import input as lines_in
from bifrost.cli.data.ends import Ends
from bifrost.cli.data.input import InputError, batches
from bifrost.cli.data.interrupt import Interrupt
from bifrost.cli.data.lines import Record
from bifrost.cli.data.measure import read_records, send_records
from bifrost.cli.data.meter import Meter, print_figures
from bifrost.cli.data.sender import Tally
from bifrost.cli.data.spread import filled, spread
from bifrost.cli.perf import _reading
from bifrost.types import TopicPartition

HERE, THERE = TopicPartition("t", 0), TopicPartition("t", 1)


def cut(data: bytes, delimiter: bytes = b"\n", limit: int = 1000) -> list[list[bytes]]:
    return list(
        batches(io.BytesIO(data), delimiter=delimiter, limit=limit, idle=lambda: False, on_bytes=lambda _: None)
    )


@given(st.lists(st.binary().map(lambda data: data.replace(b"\n", b""))), st.integers(1, 5))
def test_lines_come_in_batches(lines: list[bytes], limit: int) -> None:
    found = cut(b"".join(line + b"\n" for line in lines), limit=limit)
    assert [line for batch in found for line in batch] == lines
    assert all(1 <= len(batch) <= limit for batch in found)


def test_the_last_line_needs_no_end() -> None:
    assert cut(b"a\nb") == [[b"a"], [b"b"]]
    assert cut(b"") == []
    assert cut(b"a--b--", b"--") == [[b"a", b"b"]]


def test_a_delimiter_may_be_torn_between_two_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_in, "_BLOCK_BYTES", 2)
    assert [line for batch in cut(b"a--b--c", b"--") for line in batch] == [b"a", b"b", b"c"]


def test_what_never_ends_is_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_in, "LINE_BYTES_MAX", 10)
    with pytest.raises(InputError, match="no end of line"):
        cut(b"x" * 100)


def test_a_pipe_gives_what_is_there_and_is_left_when_it_is_over() -> None:
    read_end, write_end = os.pipe()
    with os.fdopen(read_end, "rb", buffering=0) as stream, os.fdopen(write_end, "wb", buffering=0) as writer:
        writer.write(b"a\nb\nhalf")
        idle_calls: list[None] = []

        def idle() -> bool:
            idle_calls.append(None)
            return len(idle_calls) == 2

        found = list(batches(stream, delimiter=b"\n", limit=9, idle=idle, on_bytes=lambda _: None))  # type: ignore[arg-type]
    assert found == [[b"a", b"b"], [b"half"]]


def test_a_partition_ends_at_its_offset_or_where_there_is_no_more() -> None:
    ends = Ends({HERE: 3, THERE: None})
    assert [ends.admits(HERE, offset) for offset in (0, 2, 3)] == [True, True, False]
    assert ends.admits(THERE, 100)
    assert not ends.done
    ends.at_end(THERE)
    assert ends.done
    assert not ends.admits(THERE, 101)


def test_the_last_message_that_is_wanted_closes_its_partition() -> None:
    ends = Ends({HERE: 3})
    assert ends.admits(HERE, 1)
    assert not ends.done
    assert ends.admits(HERE, 2)
    assert ends.done, "nobody has to wait for a message behind it"


def test_an_end_that_was_compacted_away() -> None:
    ends = Ends({HERE: 10})
    assert ends.admits(HERE, 4)
    assert not ends.admits(HERE, 12), "the message behind the gap is beyond the end"
    assert ends.done


def test_partitions_come_and_go() -> None:
    ends = Ends({})
    ends.add([HERE, THERE])
    assert ends.admits(HERE, 5)
    ends.drop([HERE])
    assert not ends.admits(HERE, 6)
    ends.at_end(THERE)
    assert ends.done


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("t --producer-props a=1 b=2 --json", "t --producer-props a=1 --producer-props b=2 --json"),
        ("--producer-props a=1 t", "--producer-props a=1 t"),
        ("--producer-props a=1 --producer-props b=2", "--producer-props a=1 --producer-props b=2"),
        ("--other a=1 b=2", "--other a=1 b=2"),
    ],
)
def test_options_with_several_values(typed: str, expected: str) -> None:
    assert spread(typed.split(), {"--producer-props"}) == expected.split()


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("--codec", "--codec gzip"),
        ("--codec --sync", "--codec gzip --sync"),
        ("--codec lz4 --sync", "--codec lz4 --sync"),
        ("--sync", "--sync"),
    ],
)
def test_an_option_whose_value_may_be_left_out(typed: str, expected: str) -> None:
    assert filled(typed.split(), "--codec", "gzip") == expected.split()


def test_a_meter_counts_from_its_restart() -> None:
    now_s = 100.0
    meter = Meter(quiet=True, interval_s=1, clock=lambda: now_s)
    meter.add_latency(5000, 100)
    meter.restart()
    meter.add(20, 4 << 20)
    now_s = 102.0
    meter.show()
    assert [window.rate for window in meter.windows] == [10]
    assert meter.figures() == {
        "records": 20, "bytes": 4 << 20, "seconds": 2, "records_per_second": 10, "megabytes_per_second": 2,
    }  # fmt: skip
    assert meter.latency.count == 0
    assert meter.figures(seconds=0.0)["records_per_second"] is None, "no time, no rate"


class ManualClock:
    """Seconds that pass when the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1000.0
        monkeypatch.setattr("time.monotonic", lambda: self.now_s)


class PromptSender:
    """Acknowledges a record a tenth of a second after it was sent."""

    def __init__(self, clock: ManualClock, meter: Meter) -> None:
        self.tally = Tally()
        self._clock, self._meter = clock, meter

    def send(self, record: Record, _: object) -> bool:
        self.tally.sent += 1
        self._clock.now_s += 0.1
        self._meter.add_latency(100_000, len(record.value or b""))
        return True

    def tick(self, wait_s: float = 0) -> None: ...

    def finish(self, *_: object) -> None: ...


def test_sending_is_timed_from_the_first_record(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock(monkeypatch)
    meter = Meter(quiet=True, interval_s=100, clock=lambda: clock.now_s)
    sender: Any = PromptSender(clock, meter)
    clock.now_s += 50  # connecting and waiting for a producer id
    send_records(sender, itertools.repeat(b"v"), 20, meter, rate=-1, warmup=0, interrupt=Interrupt())
    assert meter.figures()["seconds"] == 2
    assert meter.figures()["records_per_second"] == 10


class OneBatch:
    """Has everything in its first answer, half a second after it was asked."""

    def __init__(self, clock: ManualClock, batches: list[list[bytes]]) -> None:
        self.assigned_s = clock.now_s
        self._clock, self._batches = clock, batches

    def batches(self, _: object) -> Iterator[list[bytes]]:
        for batch in self._batches:
            self._clock.now_s += 0.5
            yield batch

    def written(self, messages: object) -> None: ...


def test_reading_is_timed_from_the_first_request(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock(monkeypatch)
    meter = Meter(quiet=True, interval_s=100, clock=lambda: clock.now_s)
    started_s = clock.now_s
    clock.now_s += 1.5  # connecting
    reader: Any = OneBatch(clock, [[b"abc"] * 100])
    read = read_records(reader, meter, limit=None, silence_s=10)
    figures = _reading(meter, started_s, reader.assigned_s, read)
    assert (figures["seconds"], figures["records_per_second"]) == (0.5, 200)
    assert (figures["total_seconds"], figures["total_records_per_second"]) == (2, 50)
    assert figures["seconds_to_first"] == 2


def test_a_reading_of_nothing_has_no_rate(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    clock = ManualClock(monkeypatch)
    meter = Meter(quiet=True, interval_s=100, clock=lambda: clock.now_s)
    reader: Any = OneBatch(clock, [[]])
    figures = _reading(meter, clock.now_s, reader.assigned_s, read_records(reader, meter, limit=None, silence_s=10))
    assert (figures["records"], figures["records_per_second"], figures["total_seconds"]) == (0, None, None)
    print_figures(figures, "read", {}, as_json=False)
    assert capsys.readouterr().out == "read 0 records, 0.0 MB in 0.0 s: nothing to measure\n"


def test_the_first_ctrl_c_is_noted_and_the_second_ends_it() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Interrupt() as interrupt:
        assert not interrupt
        os.kill(os.getpid(), signal.SIGINT)
        assert (bool(interrupt), interrupt.exit_code) == (True, 130)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_outside_the_main_thread_signals_are_left_alone() -> None:
    entered: list[bool] = []

    def enter() -> None:
        with Interrupt() as interrupt:
            entered.append(bool(interrupt))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert entered == [False]
