"""`make demo`: trucks → topic → Spark pipeline → a table and a topic of alerts, and proof that nothing went missing.

Three brokers and three controllers start, each a process. A fleet sends its positions; in the middle of it, the broker
that leads some of them is killed, and comes back. The pipeline of this directory runs twice: late reports and the
watermark need a second run to meet. Positions are read back and compared one by one, and what Spark found with what
plain Python counts. Without Java or PySpark, all but the pipeline runs.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path

from rich.live import Live

from bifrost.pipeline.prerequisites import require_spark
from bifrost.spark.failures import MissingSoftwareError
from bifrost.testing import Cluster
from bifrost.testing.process import ProcessNode
from examples.fleet import shown
from examples.fleet.delivery import IN_SYNC_MIN, PARTITIONS, REPLICAS, Proof, Stream, create_topics, read_back
from examples.fleet.expected import Expected, expect
from examples.fleet.fall import Fall, kill_a_leader
from examples.fleet.trucks import Report, day, fleet
from examples.terminal import Teller, open_console

PROJECT = Path(__file__).parent
MASTER = "local[2]"
SECOND_HALF_S = 5.0
"""Over which the second half of the day is spread: long enough to see somebody die and come back."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trucks", type=int, default=25, help="how many trucks drive")
    parser.add_argument("--hours", type=float, default=8, help="how long their day is")
    parser.add_argument("--map", type=Path, default=Path("fleet.png"), help="where to draw the map")
    options = parser.parse_args()
    console = open_console()
    rng = random.Random(2026)
    reports = day(fleet(options.trucks, rng), options.hours, rng)
    console.print(shown.introduction(options.trucks, len(reports)))
    try:
        require_spark()
        missing = None
    except MissingSoftwareError as error:
        missing = error
    tell = Teller(console)
    with _cluster(tell) as cluster:
        if missing is None:
            return 0 if analyse(tell, cluster, reports, options.map) else 1
        half = len(reports) // 2
        first = Stream(cluster.bootstrap)
        first.send(reports[:half])
        tell(f"{half:,} positions sent, {len(first.acknowledged):,} acknowledged")
        second, fall = send_through_a_fall(tell, cluster, reports[half:])
        good = prove(tell, cluster, reports, first, second, fall).good
    console.print(f"\n[yellow]The rest needs Spark.[/yellow] {missing.problem}. Install it, and run this again:")
    console.print(f"\n    {missing.hint}\n")
    return 0 if good else 1


@contextmanager
def _cluster(tell: Teller) -> Iterator[Cluster]:
    """As `bifrost up` arranges it, with data that nobody needs afterwards."""
    cluster = Cluster(brokers=3, odins=3, processes=True, flush_policy="ack")
    for node in (*cluster.brokers, *cluster.odins):
        assert isinstance(node, ProcessNode)
        node.log = cluster.data_dir / f"{node.id}.log"  # not between our lines
    with tell.waiting("three Heimdall and three Odin start"), ExitStack() as stack:
        stack.enter_context(cluster)
        active = cluster.active_odin()
        whole = stack.pop_all()
    with whole:
        decides = "" if active is None else f"; odin-{active.id} decides"
        tell(f"up at [cyan]{cluster.bootstrap}[/cyan]{decides}")
        create_topics(cluster.bootstrap)
        tell(f"topics: {PARTITIONS} partitions, {REPLICAS} copies, acks=all, min.insync.replicas={IN_SYNC_MIN}")
        yield cluster


def send_through_a_fall(tell: Teller, cluster: Cluster, reports: list[Report]) -> tuple[Stream, Fall]:
    """All of it is acknowledged, and the broker that was killed is in sync again, when this returns."""
    stream = Stream(cluster.bootstrap)
    tell(f"the trucks send {len(reports):,} positions in {SECOND_HALF_S:.0f} s")
    with ThreadPoolExecutor(1) as pool:
        fall = pool.submit(kill_a_leader, cluster, stream, len(reports) // 3, tell)
        with shown.sending(tell.console, len(reports)) as told:
            stream.send(reports, SECOND_HALF_S, told)
            tell(f"all sent, {len(stream.acknowledged):,} of {len(reports):,} acknowledged")
            return stream, fall.result()


def prove(tell: Teller, cluster: Cluster, reports: list[Report], first: Stream, second: Stream, fall: Fall) -> Proof:
    """Reads everything back and compares."""
    with tell.waiting("reading everything back"):
        proof = read_back(cluster.bootstrap, reports, len(first.acknowledged) + len(second.acknowledged))
    tell.console.print(shown.proof_table(proof, fall))
    tell.console.print(shown.verdict(proof))
    return proof


def analyse(tell: Teller, cluster: Cluster, reports: list[Report], picture: Path) -> bool:
    """Half of the day, a run, the other half, a run; then the comparison."""
    from bifrost.pipeline.connect import driver

    half, bootstrap = len(reports) // 2, cluster.bootstrap
    with tempfile.TemporaryDirectory(prefix="fleet-") as folder, ExitStack() as stack:
        stack.push(lambda kind, *_: keep_log(tell, Path(folder) / "spark.log", kind))
        settings = {
            "spark.sql.warehouse.dir": f"{folder}/tables",
            "spark.driver.host": "127.0.0.1",
            # The day is short: code that is compiled for speed would not live to see it.
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        }
        with ThreadPoolExecutor(1) as pool, tell.waiting("Spark starts") as progress:
            first = Stream(bootstrap)
            prepared = pool.submit(prepare, first, reports[:half], progress)
            spark = stack.enter_context(driver("fleet", MASTER, settings, Path(folder) / "spark.log"))
            prepared.result()
        tell(
            f"Spark {spark.version} is up; {half:,} positions sent meanwhile, {len(first.acknowledged):,} acknowledged"
        )
        run_once(tell, bootstrap, Path(folder), "the first half of the day")
        second, fall = send_through_a_fall(tell, cluster, reports[half:])
        run_once(tell, bootstrap, Path(folder), "the second half, with what comes late")
        agrees = compare(tell, spark, bootstrap, expect([reports[:half], reports[half:]]), picture)
        return prove(tell, cluster, reports, first, second, fall).good and agrees


def keep_log(tell: Teller, log: Path, raised: type[BaseException] | None) -> None:
    """What Spark has said is all that is left to learn from when a run fails."""
    if raised is not None and issubclass(raised, Exception) and log.exists():
        tell(f"[red]this went wrong[/red]; what Spark said is in [cyan]{shutil.copy(log, 'fleet-spark.log')}[/cyan]")


def prepare(stream: Stream, reports: list[Report], tell: Callable[[str], None]) -> None:
    """While Spark starts: the first half of the day is sent, and kernels are compiled if this machine has none yet."""
    from bifrost.columnar.kernels.warming import warm_up

    stream.send(reports, told=lambda count: tell(f"Spark starts; meanwhile the fleet sends, {count:,} acknowledged"))
    tell("Spark starts; meanwhile kernels are compiled, once on this machine")
    warm_up()
    tell("Spark starts")


def run_once(tell: Teller, bootstrap: str, folder: Path, what: str) -> None:
    """The table of flows changes in place while they run, as that of `bifrost pipeline run` does, and stays."""
    from bifrost.cli.data.flows import FlowTable
    from bifrost.pipeline import Flow, run
    from bifrost.pipeline.running import Watcher

    began = time.perf_counter()
    tell(f"pipeline: {what}")
    with Live(console=tell.console) as live:

        class Shown(Watcher):
            def changed(self, flows: list[Flow]) -> None:
                live.update(FlowTable(flows))

        run(PROJECT, bootstrap=bootstrap, master=MASTER, storage=folder, watcher=Shown())
    if not tell.console.is_terminal:
        tell.console.print()  # where nothing moves, rich does not end the last line
    tell(f"pipeline completed after {time.perf_counter() - began:.0f} s")


def compare(tell: Teller, spark: object, bootstrap: str, expected: Expected, picture: Path) -> bool:
    from examples.fleet.findings import look

    with tell.waiting("reading tables and alerts"):
        findings = look(spark, bootstrap)  # type: ignore[arg-type]
    console = tell.console
    console.print(shown.findings_table(findings, expected))
    console.print(f"too late to count: {expected.too_late:,} reports; still open: {expected.open:,} windows")
    differences = findings.differences(expected)
    for difference in differences:
        console.print(f"[red]{difference}[/red]")
    if find_spec("matplotlib") is not None:
        from examples.fleet.map import draw

        with tell.waiting("drawing the map"):
            draw(findings, picture)
        console.print(f"map: [cyan]{picture}[/cyan]")
    agree = "[green]Spark and plain Python agree in every window and every alert.[/green]"
    console.print(agree if not differences else "[red]They do not agree.[/red]")
    return not differences


if __name__ == "__main__":
    sys.exit(main())
