"""The table a person reads at the end of a run."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench.question import Better, Effort, Metric, Pairing
from bench.results import Answered, Row, rows


def show(console: Console, answers: list[Answered], names: list[str], effort: Effort) -> None:
    """`names` are the reference's and, where there are two peers, the subject's."""
    reference, subject = names[0], names[1] if len(names) > 1 else ""
    table = Table(title=f"{subject} : {reference}" if subject else reference, title_justify="left", header_style="bold")
    table.add_column("question", no_wrap=True)
    table.add_column("figure", no_wrap=True)
    for heading in ([subject] if subject else []) + [reference]:
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("unit", no_wrap=True)
    for heading in ("ratio", "aim", "met", "spread"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("notes", no_wrap=True)
    policy = ""
    order = list(Pairing)
    for answered in sorted(answers, key=lambda answer: order.index(answer.question.pairing)):
        if answered.question.pairing.words != policy:
            policy = answered.question.pairing.words
            table.add_section()
            table.add_row(Text(policy, style="bold cyan"))
        if answered.failure:
            table.add_row(answered.question.title_for(effort), Text("no answer, see below", style="red"))
        for number, row in enumerate(rows(answered, effort)):
            _add(table, row, first=number == 0, two=bool(subject))
    console.print(table)
    for answered in answers:
        if answered.failure:
            console.print(Text(f"{answered.question.name}: {answered.failure}", style="red"))
    for pairing in order:
        console.print(f"{pairing.words}: {pairing.settings}", highlight=False)
    console.print(
        "ratio: of medians. spread: (max - min) / median of the worse side. "
        "c: the client was the limit. n: other processes used the machine meanwhile. w: still warming up."
    )


def _add(table: Table, row: Row, *, first: bool, two: bool) -> None:
    style = {True: "green", False: "red", None: ""}[row.met]
    figures = ([number(row.subject)] if two else []) + [number(row.reference)]
    table.add_row(
        row.title if first else "",
        row.metric.title,
        *figures,
        row.metric.unit,
        Text(f"{row.ratio:.2f}" if row.ratio is not None else "-", style=style),
        _aim(row.metric),
        Text({True: "yes", False: "no", None: ""}[row.met], style=style),
        f"{row.spread:.0%}",
        row.notes,
    )


def _aim(metric: Metric) -> str:
    if metric.limit is not None:
        return f"≤ {metric.limit:g} {metric.unit}"
    sign = "≥" if metric.better is Better.MORE else "≤"
    return f"{sign} {metric.aim:g}" if metric.aim is not None else ""


def number(value: float | None) -> str:
    """Three significant digits, thousands separated."""
    if value is None:
        return "-"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
