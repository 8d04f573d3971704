"""All ratios in one picture: a point for each row on a logarithmic axis, and right of the line is better."""

from __future__ import annotations

import pathlib

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.transforms import blended_transform_factory

from bench.question import Better, Effort, Pairing
from bench.report import number
from bench.results import Answered, Row, rows

MET, MISSED, NEUTRAL, AIM, BAND = "#1a7f37", "#cf222e", "#57606a", "#bf8700", "#f3f5f7"
WIDTH_INCHES, ROW_INCHES, TOP_INCHES, BOTTOM_INCHES = 12.0, 0.19, 0.95, 0.55
TITLE_X, RATIO_X, FIGURES_X = 0.012, 0.815, 0.862  # columns, as parts of the width
WORST, BEST = 1 / 40, 80.0  # what lies outside is drawn at the edge; the figures beside it tell the rest


def draw(path: pathlib.Path, answers: list[Answered], names: list[str], effort: Effort, subtitle: str) -> bool:
    """One band for each question, under a heading for each pairing; False if there is nothing to draw."""
    shown = [group for group in (_shown(answer, effort) for answer in answers) if group]
    shown.sort(key=lambda group: [pairing.words for pairing in Pairing].index(group[0].policy))
    if not shown:
        return False
    figure = Figure()
    axes = figure.add_subplot()
    values: list[float] = []
    policy, line, ticks = "", 0, []
    for band, group in enumerate(shown):
        if group[0].policy != policy:
            policy = group[0].policy
            settings = next(pairing.settings for pairing in Pairing if pairing.words == policy)
            _text(figure, axes, TITLE_X, line, f"{policy}  ({settings})", weight="bold")
            line += 1
        if band % 2:
            figure_wide = blended_transform_factory(figure.transFigure, axes.transData)
            place = (0.0, line - 0.5), 1.0, len(group)
            axes.add_patch(Rectangle(*place, transform=figure_wide, color=BAND, clip_on=False, zorder=0))
        _text(figure, axes, TITLE_X, line, group[0].title)
        for row in group:
            values += _draw_row(figure, axes, line, row)
            ticks.append((line, row.metric.title))
            line += 1
    axes.set_ylim(line - 0.4, -0.6)
    axes.set_yticks([position for position, _ in ticks], [label for _, label in ticks], fontsize=8)
    _finish(axes, values, names)
    height = TOP_INCHES + BOTTOM_INCHES + ROW_INCHES * line
    figure.set_size_inches(WIDTH_INCHES, height)
    figure.subplots_adjust(left=0.4, right=0.8, top=1 - TOP_INCHES / height, bottom=BOTTOM_INCHES / height)
    figure.text(TITLE_X, 1 - 0.25 / height, f"{names[-1]} beside {names[0]}", fontsize=13, weight="bold", va="center")
    figure.text(TITLE_X, 1 - 0.5 / height, subtitle, fontsize=9, color=NEUTRAL, va="center")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    return True


def _shown(answered: Answered, effort: Effort) -> list[Row]:
    return [row for row in rows(answered, effort) if row.ratio]


def _goodness(row: Row, ratio: float) -> float:
    good = ratio if row.metric.better is Better.MORE else 1 / ratio
    return min(BEST, max(WORST, good))


def _text(
    figure: Figure, axes: Axes, x: float, line: int, words: str, *, weight: str = "normal", colour: str = "black"
) -> None:
    """Words on a line of the plot, in a column of the whole figure."""
    place = blended_transform_factory(figure.transFigure, axes.transData)
    axes.text(x, line, words, transform=place, fontsize=8.5, weight=weight, color=colour, va="center")


def _draw_row(figure: Figure, axes: Axes, line: int, row: Row) -> list[float]:
    """Returns where its marks are, so that the axis can hold them all."""
    assert row.ratio
    colour = {True: MET, False: MISSED, None: NEUTRAL}[row.met]
    good = _goodness(row, row.ratio)
    axes.plot([1, good], [line, line], color=colour, linewidth=2.2, solid_capstyle="butt", alpha=0.55)
    axes.plot(good, line, "o", color=colour, markersize=5.5)
    edges = [good]
    if row.metric.aim:
        edges.append(_goodness(row, row.metric.aim))
        axes.plot(edges[-1], line, "|", color=AIM, markersize=10, markeredgewidth=2.2)
    _text(figure, axes, RATIO_X, line, f"{row.ratio:.2f}x", colour=colour)
    _text(figure, axes, FIGURES_X, line, f"{number(row.subject)} : {number(row.reference)} {row.metric.unit}")
    return edges


def _finish(axes: Axes, values: list[float], names: list[str]) -> None:
    low, high = min([0.4, *values]) / 1.15, max([2.5, *values]) * 1.15
    steps = [2.0**power for power in range(-6, 8) if low <= 2.0**power <= high]
    axes.set_xscale("log", base=2)
    axes.set_xlim(low, high)
    axes.set_xticks(steps, [f"{step:g}x" if step >= 1 else f"1/{1 / step:g}x" for step in steps], fontsize=8)
    axes.minorticks_off()
    axes.axvline(1.0, color="black", linewidth=1)
    axes.set_xlabel(f"times better than {names[0]} (logarithmic); the figures are {names[-1]} : {names[0]}", fontsize=9)
    axes.grid(axis="x", color="#d0d7de", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="y", length=0)
    points = [
        Line2D([], [], color=colour, marker="o", linestyle="", label=label)
        for colour, label in ((MET, "aim met"), (MISSED, "aim missed"), (NEUTRAL, "no aim"))
    ]
    points.append(Line2D([], [], color=AIM, marker="|", markersize=10, markeredgewidth=2.4, linestyle="", label="aim"))
    axes.legend(handles=points, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=4, frameon=False, fontsize=8)
