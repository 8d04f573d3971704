"""Latencies: counted in buckets, read as percentiles, drawn as bars.

A bucket is at most 1/64 of its value wide, so a percentile is right to 1.6 % however many values were counted, and
counting one costs the same whatever came before (the idea of HdrHistogram).
"""

from __future__ import annotations

from collections.abc import Iterator

_EXACT_BITS = 7
_SERIES = (1, 2, 5)
_BLOCKS = " ▏▎▍▌▋▊▉█"


class Histogram:
    """Counts of whole microseconds."""

    def __init__(self) -> None:
        self._buckets: dict[tuple[int, int], int] = {}
        self.count = 0
        self.total_us = 0
        self.min_us = 0
        self.max_us = 0

    def add(self, value_us: int) -> None:
        shift = max(0, value_us.bit_length() - _EXACT_BITS)
        bucket = (shift, value_us >> shift)
        self._buckets[bucket] = self._buckets.get(bucket, 0) + 1
        self.max_us = max(self.max_us, value_us)
        if value_us < self.min_us or not self.count:
            self.min_us = value_us
        self.count += 1
        self.total_us += value_us

    @property
    def mean_us(self) -> float:
        return self.total_us / self.count if self.count else 0.0

    def percentile_us(self, percent: float) -> int:
        """The value that `percent` of all values do not exceed; 0 when nothing was counted."""
        wanted = self.count * percent / 100
        seen = 0
        for (shift, scaled), count in sorted(self._buckets.items()):
            seen += count
            if seen >= wanted:
                return min(self.max_us, ((scaled + 1) << shift) - 1)
        return self.max_us

    def below(self, limit_us: int) -> int:
        """How many values are below the limit, to the precision of a bucket."""
        return sum(count for (shift, scaled), count in self._buckets.items() if scaled << shift < limit_us)

    def summary_ms(self) -> dict[str, float]:
        """The figures that people compare, in milliseconds."""
        figures = {"mean": self.mean_us, "min": self.min_us}
        figures |= {f"p{percent:g}": self.percentile_us(percent) for percent in (50, 90, 95, 99, 99.9)}
        figures["max"] = self.max_us
        return {name: round(value / 1000, 3) for name, value in figures.items()}


def draw(histogram: Histogram, width: int) -> list[str]:
    """A line for each step of 1, 2, 5, 10 … that holds values; the longest fills `width`."""
    steps = list(_steps(histogram))
    if not steps:
        return []
    labels = [f"{_ms(low)} - {_ms(high)} ms" for low, high, _ in steps]
    label_width = max(map(len, labels))
    shares = [f"{100 * count / histogram.count:5.1f} %" for _, _, count in steps]
    room = max(8, width - label_width - len(shares[0]) - 4)
    most = max(count for *_, count in steps)
    return [
        f"{label:>{label_width}}  {share}  {_bar(count / most, room)}".rstrip()
        for label, share, (*_, count) in zip(labels, shares, steps)
    ]


def sparkline(values: list[float], width: int) -> str:
    """Values over time in one line, the newest `width` of them."""
    shown = values[-width:]
    most = max(shown, default=0) or 1
    return "".join("▁▂▃▄▅▆▇█"[min(7, int(8 * value / most))] for value in shown)


def _steps(histogram: Histogram) -> Iterator[tuple[int, int, int]]:
    """Lower end, upper end (exclusive) and count, without the empty steps at both ends."""
    found = []
    low, seen = 0, 0
    for high in _limits():
        below = histogram.below(high)
        found.append((low, high, below - seen))
        low, seen = high, below
        if seen == histogram.count:
            break
    first = next((index for index, (*_, count) in enumerate(found) if count), len(found))
    yield from found[first:]


def _limits() -> Iterator[int]:
    scale = 10
    while True:
        yield from (scale * step for step in _SERIES)
        scale *= 10


def _ms(value_us: int) -> str:
    return f"{value_us / 1000:g}"


def _bar(share: float, room: int) -> str:
    eighths = round(share * room * 8)
    if share > 0 and not eighths:
        eighths = 1
    return "█" * (eighths // 8) + _BLOCKS[eighths % 8].strip()
