"""`make demo`: trucks → topic → Spark pipeline → a table and a topic of alerts, and proof that nothing went missing.

An embedded Bifrost node starts in this process. A fleet sends its positions, which are read back and compared one by
one. Then the pipeline of this directory runs twice: late reports and the watermark need a second run to meet. What it
found is compared with what plain Python counts. Without Java or PySpark, only the first half runs.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.panel import Panel
from rich.table import Table

from bifrost.pipeline.prerequisites import require_spark
from bifrost.spark.failures import MissingSoftwareError
from bifrost.testing import Cluster
from examples.fleet.delivery import Proof, create_topics, read_back, send
from examples.fleet.expected import Expected, expect
from examples.fleet.trucks import Report, day, fleet
from examples.terminal import open_console, waiting

PROJECT = Path(__file__).parent
MASTER = "local[2]"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trucks", type=int, default=25, help="how many trucks drive")
    parser.add_argument("--hours", type=float, default=8, help="how long their day is")
    parser.add_argument("--map", type=Path, default=Path("fleet.png"), help="where to draw the map")
    options = parser.parse_args()
    console = open_console()
    rng = random.Random(2026)
    reports = day(fleet(options.trucks, rng), options.hours, rng)
    console.print(
        Panel(
            "[bold]Bifrost[/bold] runs inside this process: a broker that speaks Kafka's protocol.\n"
            f"{options.trucks} trucks send {len(reports):,} positions, some of them late, some nonsense.\n"
            "Spark reads them with format('bifrost'), and no jar: cleaned, then speed\n"
            "and stops in windows of five minutes, then alerts back to a topic.",
            title="The fleet",
            expand=False,
        )
    )
    try:
        require_spark()
        missing = None
    except MissingSoftwareError as error:
        missing = error
    started = time.perf_counter()
    with Cluster(flush_policy="ack") as cluster:
        console.print(
            f"broker at [cyan]{cluster.bootstrap}[/cyan] after {(time.perf_counter() - started) * 1000:.0f} ms"
        )
        create_topics(cluster.bootstrap)
        if missing is not None:
            good = deliver(console, cluster.bootstrap, reports)
            console.print(
                f"\n[yellow]The rest needs Spark.[/yellow] {missing.problem}. Install it, and run this again:"
            )
            console.print(f"\n    {missing.hint}\n")
            return 0 if good else 1
        return 0 if analyse(console, cluster.bootstrap, reports, options.map) else 1


def deliver(console: Console, bootstrap: str, reports: list[Report], already: int = 0) -> bool:
    """Sends what is not sent yet, reads everything back and compares."""
    acknowledged = already + send(bootstrap, reports[already:])
    proof = read_back(bootstrap, reports, acknowledged)
    console.print(proof_table(proof))
    return proof.good


def analyse(console: Console, bootstrap: str, reports: list[Report], picture: Path) -> bool:
    """Half of the day, a run, the other half, a run; then the comparison."""
    from bifrost.pipeline.connect import driver

    half = len(reports) // 2
    with tempfile.TemporaryDirectory(prefix="fleet-") as folder:
        settings = {
            "spark.sql.warehouse.dir": f"{folder}/tables",
            "spark.driver.host": "127.0.0.1",
            # The day is short: code that is compiled for speed would not live to see it.
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        }
        began = time.perf_counter()
        with ExitStack() as stack:
            with ThreadPoolExecutor(1) as pool, waiting(console, "Spark starts") as tell:
                prepared = pool.submit(prepare, bootstrap, reports[:half], tell)
                spark = stack.enter_context(driver("fleet", MASTER, settings, Path(folder) / "spark.log"))
                prepared.result()
            up_s = time.perf_counter() - began
            console.print(f"Spark {spark.version} up after {up_s:.0f} s; {half:,} positions sent meanwhile")
            run_once(console, bootstrap, Path(folder), "the first half of the day")
            proven = deliver(console, bootstrap, reports, half)
            run_once(console, bootstrap, Path(folder), "the second half, with what comes late")
            expected = expect([reports[:half], reports[half:]])
            return compare(console, spark, bootstrap, expected, picture) and proven


def prepare(bootstrap: str, reports: list[Report], tell: Callable[[str], None]) -> None:
    """While Spark starts: the first half of the day is sent, and kernels are compiled if this machine has none yet."""
    from bifrost.columnar.kernels.warming import warm_up

    send(bootstrap, reports, lambda number: tell(f"Spark starts; meanwhile the fleet sends: {number:,}"))
    tell("Spark starts; meanwhile kernels are compiled, once on this machine")
    warm_up()
    tell("Spark starts")


def run_once(console: Console, bootstrap: str, folder: Path, what: str) -> None:
    """The table of flows changes in place while they run, as that of `bifrost pipeline run` does, and stays."""
    from bifrost.cli.data.flows import FlowTable
    from bifrost.pipeline import Flow, run
    from bifrost.pipeline.running import Watcher

    began = time.perf_counter()
    console.print(f"\npipeline: {what}")
    with Live(console=console) as live:

        class Shown(Watcher):
            def changed(self, flows: list[Flow]) -> None:
                live.update(FlowTable(flows))

        run(PROJECT, bootstrap=bootstrap, master=MASTER, storage=folder, watcher=Shown())
    if not console.is_terminal:
        console.print()  # where nothing moves, rich does not end the last line
    console.print(f"completed after {time.perf_counter() - began:.0f} s")


def compare(console: Console, spark: object, bootstrap: str, expected: Expected, picture: Path) -> bool:
    from examples.fleet.findings import look

    with waiting(console, "reading tables and alerts"):
        findings = look(spark, bootstrap)  # type: ignore[arg-type]
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
    console.print(table)
    console.print(f"too late to count: {expected.too_late:,} reports; still open: {expected.open:,} windows")
    differences = findings.differences(expected)
    for difference in differences:
        console.print(f"[red]{difference}[/red]")
    if find_spec("matplotlib") is not None:
        from examples.fleet.map import draw

        with waiting(console, "drawing the map"):
            draw(findings, picture)
        console.print(f"map: [cyan]{picture}[/cyan]")
    agree = "[green]Spark and plain Python agree in every window and every alert.[/green]"
    console.print(agree if not differences else "[red]They do not agree.[/red]")
    return not differences


def proof_table(proof: Proof) -> Table:
    table = Table(title="through the topic and back", title_justify="left", show_header=False)
    table.add_row("sent", f"{proof.sent:,}")
    table.add_row("acknowledged, so on disk", f"{proof.acknowledged:,}")
    table.add_row("read back", f"{proof.read:,}")
    table.add_row("trucks out of order", str(proof.disordered))
    table.add_row("trucks in more than one partition", str(proof.scattered))
    return table


if __name__ == "__main__":
    sys.exit(main())
