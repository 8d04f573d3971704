"""The day in one picture: where trucks were too fast or stood, and beside it what each truck did at which hour."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from examples.fleet.expected import WINDOW_MS
from examples.fleet.findings import Findings
from examples.fleet.trucks import CITIES

ALERTS = {"speeding": ("crimson", "^"), "standing": ("darkorange", "s")}
_FASTEST_KMH = 110


def draw(findings: Findings, file: Path) -> None:
    """A PNG. All of it comes from the table of windows and the topic of alerts."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt

    figure, (map_axes, hours_axes) = plt.subplots(
        1, 2, figsize=(14, 7.5), width_ratios=(2, 3), layout="constrained", facecolor="white"
    )
    dots = _draw_map(map_axes, findings)
    _draw_hours(hours_axes, findings)
    figure.colorbar(dots, ax=hours_axes, label="mean speed in five minutes, km/h", shrink=0.7, pad=0.01)
    trucks = len({truck for truck, _ in findings.windows})
    figure.suptitle(
        f"{trucks} trucks, {len(findings.windows):,} windows of five minutes, {len(findings.alerts):,} alerts",
        fontsize=14,
    )
    figure.savefig(file, dpi=110)
    plt.close(figure)


def _draw_map(axes: Any, findings: Findings) -> Any:
    """A window is a dot where it ended; an alert is a mark on it."""
    from matplotlib.patheffects import withStroke

    keys = sorted(findings.places)
    dots = axes.scatter(
        [findings.places[key][1] for key in keys],
        [findings.places[key][0] for key in keys],
        c=[findings.windows[key].mean_kmh for key in keys],
        s=7,
        cmap="viridis",
        vmin=0,
        vmax=_FASTEST_KMH,
        zorder=2,
    )
    for kind, (colour, marker) in ALERTS.items():
        found = [findings.places[truck, start] for truck, its_kind, start in findings.alerts if its_kind == kind]
        longitudes, latitudes = [place[1] for place in found], [place[0] for place in found]
        label = f"{kind}: {len(found)}"
        axes.scatter(
            longitudes, latitudes, s=26, c=colour, marker=marker, lw=0.4, edgecolors="white", label=label, zorder=3
        )
    for city, (latitude, longitude) in CITIES.items():
        in_the_east = longitude > 10  # there is no room for a name on that side
        axes.plot(longitude, latitude, "o", color="black", markersize=8, zorder=4)
        axes.annotate(
            city,
            (longitude, latitude),
            textcoords="offset points",
            xytext=(-10, 8) if in_the_east else (10, 4),
            ha="right" if in_the_east else "left",
            weight="bold",
            path_effects=[withStroke(linewidth=3, foreground="white")],
            zorder=5,
        )
    axes.set(xlabel="longitude", ylabel="latitude", title="where")
    axes.set_aspect(2)  # a degree of longitude is half as long up here
    axes.margins(0.12)
    axes.grid(alpha=0.25)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.09), ncols=2, frameon=False)
    return dots


def _draw_hours(axes: Any, findings: Findings) -> None:
    """A row for each truck, a column for each window. None of a window's reports in time: it stays white."""
    trucks = sorted({truck for truck, _ in findings.windows})
    starts = [start for _, start in findings.windows]
    first, columns = min(starts), (max(starts) - min(starts)) // WINDOW_MS + 1
    speeds = [[float("nan")] * columns for _ in trucks]
    row_of = {truck: row for row, truck in enumerate(trucks)}
    for (truck, start), window in findings.windows.items():
        speeds[row_of[truck]][(start - first) // WINDOW_MS] = window.mean_kmh
    axes.imshow(speeds, aspect="auto", cmap="viridis", vmin=0, vmax=_FASTEST_KMH, interpolation="nearest")
    for kind, (colour, marker) in ALERTS.items():
        found = [(start, truck) for truck, its_kind, start in findings.alerts if its_kind == kind]
        across = [(start - first) // WINDOW_MS for start, _ in found]
        down = [row_of[truck] for _, truck in found]
        axes.scatter(across, down, s=22, c=colour, marker=marker, lw=0.4, edgecolors="white")
    hours = range(0, columns, 12)
    clock = [datetime.fromtimestamp((first + each * WINDOW_MS) / 1000, UTC).strftime("%H:%M") for each in hours]
    axes.set_xticks(list(hours), clock)
    axes.set_yticks(range(len(trucks)), trucks, fontsize=8)
    axes.set(xlabel="time of the trucks, UTC", title="when (white: all reports came too late)")
