"""What the demo shows of its results: tables, and a bar while trucks send."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.panel import Panel
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

from examples.fleet.delivery import IN_SYNC_MIN, Proof
from examples.fleet.expected import Expected
from examples.fleet.fall import Fall

if TYPE_CHECKING:
    from examples.fleet.findings import Findings


def introduction(trucks: int, reports: int) -> Panel:
    return Panel(
        "[bold]Bifrost[/bold] runs as six processes: three Heimdall, the brokers, and three\n"
        "Odin, the controllers. Every position is kept three times.\n"
        f"{trucks} trucks send {reports:,} positions, some of them late, some nonsense.\n"
        "In the middle of it, a broker is killed.\n"
        "Spark reads them with format('bifrost'), and no jar: cleaned, then speed\n"
        "and stops in windows of five minutes, then alerts back to a topic.",
        title="The fleet",
        expand=False,
    )


@contextmanager
def sending(console: Console, total: int) -> Iterator[Callable[[int], object]]:
    """A bar of what is acknowledged, for those who watch."""
    if not console.is_terminal:
        yield lambda _: None
        return
    columns = (TextColumn("[dim]         trucks[/dim]"), BarColumn(24), TextColumn("{task.description}"))
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=total)
        yield lambda count: progress.update(task, completed=count, description=f"{count:,} of {total:,} acknowledged")


def proof_table(proof: Proof, fall: Fall) -> Table:
    table = Table(title="through the topic and back", title_justify="left", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_row("sent", f"{proof.sent:,}")
    table.add_row(f"acknowledged, so on {IN_SYNC_MIN} disks at least", f"{proof.acknowledged:,}")
    table.add_row("read back", f"{proof.read:,}")
    table.add_row("trucks out of order or incomplete", str(proof.disordered))
    table.add_row("trucks in more than one partition", str(proof.scattered))
    table.add_section()
    table.add_row(f"heimdall-{fall.broker} killed: others lead after", f"{fall.elected_s * 1000:.0f} ms")
    table.add_row("its partitions acknowledge again after", f"{fall.written_s * 1000:.0f} ms")
    table.add_row("it is back and in sync again after", f"{fall.in_sync_s:.1f} s")
    return table


def findings_table(findings: Findings, expected: Expected) -> Table:
    kinds = [kind for _, kind, _ in findings.alerts]
    table = Table(title="what it found", title_justify="left")
    for heading in ("", "Spark", "plain Python"):
        table.add_column(heading, justify="left" if not heading else "right")
    table.add_row("positions that make sense", f"{findings.positions:,}", f"{expected.positions:,}")
    table.add_row("windows of five minutes, closed", f"{len(findings.windows):,}", f"{len(expected.windows):,}")
    counted = sum(window.reports for window in findings.windows.values())
    table.add_row("reports in them", f"{counted:,}", f"{sum(window.reports for window in expected.windows.values()):,}")
    for kind in ("speeding", "standing"):
        table.add_row(
            f"alerts: {kind}", f"{kinds.count(kind):,}", f"{sum(each == kind for _, each, _ in expected.alerts):,}"
        )
    return table


def verdict(proof: Proof) -> str:
    if not proof.good:
        return "[red]Not all of it came back as it was sent.[/red]"
    return (
        f"[green]Nothing was lost: {proof.sent:,} sent = {proof.acknowledged:,} acknowledged = {proof.read:,} read "
        "back, every truck in order.[/green]"
    )
