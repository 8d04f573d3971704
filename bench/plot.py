"""All ratios in one picture: a point for each row on a logarithmic axis, and right of the line is better."""

from __future__ import annotations

import pathlib

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from bench.question import Better, Effort
from bench.report import number
from bench.results import Answered, Row, rows

MET, MISSED, NEUTRAL, AIM = "#1a7f37", "#cf222e", "#57606a", "#bf8700"
ROW_INCHES = 0.24


def draw(path: pathlib.Path, answers: list[Answered], names: list[str], effort: Effort, subtitle: str) -> None:
    lines: list[Row | str] = []
    for answered in answers:
        shown = [row for row in rows(answered, effort) if row.ratio]
        if shown:
            lines += [f"{shown[0].title}  ({shown[0].policy})", *shown]
    if not lines:
        return
    figure = Figure(figsize=(11, 1.6 + ROW_INCHES * len(lines)), layout="constrained")
    axes = figure.add_subplot()
    for index, line in enumerate(lines):
        if isinstance(line, str):
            axes.text(0.0, index, line, transform=axes.get_yaxis_transform(), fontsize=8.5, weight="bold", va="center")
        else:
            _draw_row(axes, index, line)
    axes.axvline(1.0, color="black", linewidth=1)
    axes.set_xscale("log", base=2)
    axes.set_ylim(len(lines) - 0.3, -0.7)
    axes.set_yticks(
        [index for index, line in enumerate(lines) if isinstance(line, Row)],
        [f"{line.metric.title}" for line in lines if isinstance(line, Row)],
        fontsize=8,
    )
    _ticks(axes, [_goodness(line, line.ratio) for line in lines if isinstance(line, Row) and line.ratio])
    axes.set_xlabel(f"times better than {names[0]} (logarithmic; right of 1x is better)")
    axes.grid(axis="x", color="#d0d7de", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.set_title(f"{names[-1]} beside {names[0]}\n{subtitle}", loc="left", fontsize=10)
    axes.legend(handles=_legend(), loc="lower left", bbox_to_anchor=(0.6, 1.0), ncols=4, frameon=False, fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def _goodness(row: Row, ratio: float) -> float:
    return ratio if row.metric.better is Better.MORE else 1 / ratio


def _draw_row(axes: Axes, index: int, row: Row) -> None:
    assert row.ratio
    colour = {True: MET, False: MISSED, None: NEUTRAL}[row.met]
    good = _goodness(row, row.ratio)
    axes.plot([1, good], [index, index], color=colour, linewidth=2.2, solid_capstyle="butt", alpha=0.55)
    axes.plot(good, index, "o", color=colour, markersize=6)
    if row.metric.aim:
        axes.plot(_goodness(row, row.metric.aim), index, "|", color=AIM, markersize=11, markeredgewidth=2.4)
    words = f"{number(row.subject)} : {number(row.reference)} {row.metric.unit}"
    axes.text(1.01, index, f"{row.ratio:.2f}x   {words}", transform=axes.get_yaxis_transform(), fontsize=8, va="center")


def _ticks(axes: Axes, values: list[float]) -> None:
    low, high = min([0.5, *values]) / 1.15, max([2.0, *values]) * 1.15
    steps = [2.0**power for power in range(-8, 11) if low <= 2.0**power <= high]
    axes.set_xlim(low, high)
    axes.set_xticks(steps, [f"{step:g}x" if step >= 1 else f"1/{1 / step:g}x" for step in steps])
    axes.minorticks_off()


def _legend() -> list[Line2D]:
    points = [
        Line2D([], [], color=colour, marker="o", linestyle="", label=label)
        for colour, label in ((MET, "aim met"), (MISSED, "aim missed"), (NEUTRAL, "no aim"))
    ]
    return [
        *points,
        Line2D([], [], color=AIM, marker="|", markersize=10, markeredgewidth=2.4, linestyle="", label="aim"),
    ]
