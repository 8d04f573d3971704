"""The day on a map: where trucks were, how fast, and where they were too fast or stood."""

from __future__ import annotations

from pathlib import Path

from examples.fleet.findings import Findings
from examples.fleet.trucks import CITIES


def draw(findings: Findings, file: Path) -> None:
    """A PNG. A window is a dot at its end."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 8), layout="constrained")
    keys = sorted(findings.places)
    latitudes = [findings.places[key][0] for key in keys]
    longitudes = [findings.places[key][1] for key in keys]
    speeds = [findings.windows[key].mean_kmh for key in keys]
    dots = axes.scatter(longitudes, latitudes, c=speeds, s=9, cmap="viridis", zorder=2)
    figure.colorbar(dots, label="mean speed in five minutes, km/h", shrink=0.6)
    for kind, colour in (("speeding", "crimson"), ("standing", "darkorange")):
        found = [findings.places[truck, start] for truck, its_kind, start in findings.alerts if its_kind == kind]
        axes.scatter(
            [longitude for _, longitude in found],
            [latitude for latitude, _ in found],
            s=60,
            facecolors="none",
            edgecolors=colour,
            label=f"{kind}: {len(found)}",
            zorder=3,
        )
    for city, (latitude, longitude) in CITIES.items():
        axes.plot(longitude, latitude, "s", color="black", markersize=5, zorder=4)
        axes.annotate(city, (longitude, latitude), textcoords="offset points", xytext=(6, 6), zorder=4)
    axes.set(
        xlabel="longitude",
        ylabel="latitude",
        title=f"{len({truck for truck, _ in keys})} trucks, {len(keys):,} windows",
    )
    axes.set_aspect(2)
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    figure.savefig(file, dpi=110)
    plt.close(figure)
