"""What `perf` measures: records and bytes over time, and how that is shown while it runs and at the end."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import typer

from bifrost.cli.data.histogram import Histogram, draw, sparkline
from bifrost.cli.output import print_json, remark

if TYPE_CHECKING:
    from rich.live import Live

_MEGABYTE = 1024 * 1024  # as Kafka's own tools count
_LIVE_S = 0.25
_SPARKS = 24


class Window(NamedTuple):
    """What happened between two reports."""

    seconds: float
    records: int
    bytes: int

    @property
    def rate(self) -> float:
        return self.records / self.seconds if self.seconds > 0 else 0.0

    @property
    def measured(self) -> bool:
        """Whether there is anything to divide; no rate is told otherwise."""
        return self.records > 0 and self.seconds > 0

    @property
    def megabytes_rate(self) -> float:
        return self.bytes / _MEGABYTE / self.seconds if self.seconds > 0 else 0.0


class Meter:
    """Counts; and shows the count on stderr: a line that changes on a terminal, a line now and then elsewhere."""

    def __init__(self, *, quiet: bool, interval_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.latency = Histogram()
        self.records = 0
        self.bytes = 0
        self.windows: list[Window] = []
        self._clock = clock
        self._quiet = quiet
        self._live: Live | None = None
        self._interval_s = _LIVE_S if sys.stderr.isatty() else interval_s
        self.restart()

    def restart(self) -> None:
        """Forget what was a warm-up."""
        self.latency = Histogram()
        self.records = self.bytes = 0
        self.windows.clear()
        self._started_s = self._window_s = self._clock()
        self._window_records = self._window_bytes = 0

    def __enter__(self) -> Self:
        if not self._quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(stderr=True), auto_refresh=False, transient=True)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def add(self, records: int, count_bytes: int) -> None:
        self.records += records
        self.bytes += count_bytes

    def add_latency(self, latency_us: int, count_bytes: int) -> None:
        self.latency.add(latency_us)
        self.records += 1
        self.bytes += count_bytes

    def show(self) -> None:
        """Cheap enough to be called for every batch."""
        now_s = self._clock()
        if now_s < self._window_s + self._interval_s:
            return
        window = Window(now_s - self._window_s, self.records - self._window_records, self.bytes - self._window_bytes)
        self.windows.append(window)
        self._window_s, self._window_records, self._window_bytes = now_s, self.records, self.bytes
        if self._quiet:
            return
        text = f"{self.records:,} records, {window.rate:,.0f}/s, {window.megabytes_rate:.1f} MB/s"
        if self.latency.count:
            text += f", p99 {self.latency.percentile_us(99) / 1000:.1f} ms"
        if self._live is None:
            remark(text)
        else:
            self._live.update(f"{sparkline([each.rate for each in self.windows], _SPARKS)}  {text}", refresh=True)

    def figures(self, seconds: float | None = None) -> dict[str, Any]:
        """The fields that `--json` promises of every measurement."""
        whole = Window(self._clock() - self._started_s if seconds is None else seconds, self.records, self.bytes)
        return {
            "records": whole.records,
            "bytes": whole.bytes,
            "seconds": round(whole.seconds, 3),
            "records_per_second": round(whole.rate, 1) if whole.measured else None,
            "megabytes_per_second": round(whole.megabytes_rate, 3) if whole.measured else None,
        }


def print_figures(figures: dict[str, Any], what: str, histograms: dict[str, Histogram], *, as_json: bool) -> None:
    """The end of a measurement: figures, percentiles and a drawing of each histogram."""
    described = figures | {name: histogram.summary_ms() for name, histogram in histograms.items() if histogram.count}
    if as_json:
        print_json(described)
        return
    size = f"{figures['records']:,} records, {figures['bytes'] / _MEGABYTE:,.1f} MB"
    rate = "nothing to measure"
    if figures["records_per_second"] is not None:
        rate = f"{figures['records_per_second']:,.0f} per second, {figures['megabytes_per_second']:.2f} MB/s"
    typer.echo(f"{what} {size} in {figures['seconds']:.1f} s: {rate}")
    width = min(100, shutil.get_terminal_size().columns)
    for name, histogram in histograms.items():
        if not histogram.count:
            continue
        summary = histogram.summary_ms()
        shown = "  ".join(f"{key} {summary[key]:.3g}" for key in ("mean", "p50", "p90", "p99", "p99.9", "max"))
        typer.echo(f"\n{name.removesuffix('_ms').replace('_', ' ')}, in ms:\n{shown}")
        for line in draw(histogram, width):
            typer.echo(line)
