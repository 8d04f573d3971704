"""What the pipeline must find, counted without Spark: plain Python over the very reports that were sent."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from examples.fleet.trucks import Report

WINDOW_MS = 5 * 60_000
LATEST_MS = 10 * 60_000
TOO_FAST_KMH = 100


class Window(NamedTuple):
    """What is known of a truck's five minutes."""

    reports: int
    mean_kmh: float
    top_kmh: int
    stopped: int


@dataclass
class Expected:
    """The whole answer."""

    positions: int = 0
    """Reports that make sense."""
    too_late: int = 0
    """Sent after their window was closed."""
    open: int = 0
    """Windows that reports in time could still change."""
    windows: dict[tuple[str, int], Window] = field(default_factory=dict)
    """By truck and start."""
    alerts: set[tuple[str, str, int]] = field(default_factory=set)
    """Truck, kind, start of the window."""


def expect(runs: Iterable[list[Report]]) -> Expected:
    """`runs`: what was sent before each run of the pipeline. Between two runs the watermark moves."""
    found = Expected()
    speeds: dict[tuple[str, int], list[int]] = defaultdict(list)
    newest_ms = watermark_ms = 0
    for reports in runs:
        for said in filter(None, map(_sense, reports)):
            found.positions += 1
            newest_ms = max(newest_ms, said["at_ms"])
            start_ms = said["at_ms"] // WINDOW_MS * WINDOW_MS
            if start_ms + WINDOW_MS <= watermark_ms:
                found.too_late += 1
            else:
                speeds[said["truck"], start_ms].append(said["speed_kmh"])
        watermark_ms = newest_ms - LATEST_MS
    for (truck, start_ms), seen in speeds.items():
        if start_ms + WINDOW_MS > watermark_ms:
            found.open += 1
            continue
        window = Window(len(seen), sum(seen) / len(seen), max(seen), seen.count(0))
        found.windows[truck, start_ms] = window
        kind = "speeding" if window.top_kmh > TOO_FAST_KMH else "standing" if window.stopped == window.reports else ""
        if kind:
            found.alerts.add((truck, kind, start_ms))
    return found


def _sense(report: Report) -> dict[str, Any] | None:
    """The report, if it is JSON and from Earth."""
    try:
        said: dict[str, Any] = json.loads(report.value)
    except ValueError:
        return None
    return said if -90 <= said["lat"] <= 90 and -180 <= said["lon"] <= 180 and 0 <= said["speed_kmh"] <= 200 else None
