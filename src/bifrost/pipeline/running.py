"""One run of a pipeline: everything that is there now goes through, then it ends. The next one goes on from there."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from bifrost.client.clusters import resolve
from bifrost.columnar.channel import Channel
from bifrost.pipeline.failures import PipelineError, cause
from bifrost.pipeline.flows import FAILED, Flow, Flows
from bifrost.pipeline.listening import Ear
from bifrost.pipeline.prerequisites import check_master, require_spark
from bifrost.pipeline.project import BOOTSTRAP, Project, find_spec_file, read_project
from bifrost.pipeline.topics import Ends, check_brokers, check_topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from bifrost.pipeline.graph import Graph
    from bifrost.spark.sessions import Ship

LOCAL: Final = "local[*]"
_LAG_S: Final = 1.0
_MESSAGES: Final = 100


class Watcher:
    """Is told how a run comes along. This one does not care."""

    def stage(self, text: str) -> None:
        """What begins now, in a few words."""

    def changed(self, flows: list[Flow]) -> None:
        """At every change of a flow; called by several threads, one at a time."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run, or a look at the definitions, came to."""

    name: str
    flows: list[Flow]
    dry_run: bool

    def flow(self, name: str) -> Flow:
        return next(flow for flow in self.flows if flow.name == name)


def run(
    path: str | Path = ".",
    *,
    bootstrap: str | None = None,
    master: str | None = None,
    ship: Ship | None = None,
    storage: str | Path | None = None,
    settings: Mapping[str, str] | None = None,
    dry_run: bool = False,
    full_refresh: bool = False,
    watcher: Watcher | None = None,
) -> Outcome:
    """Runs the pipeline in `path`, or with `dry_run` only checks that it could. Raises PipelineError if a flow fails.

    `bootstrap` and `storage` take the place of what the specification says; `settings` are of Spark's driver. To the
    executors of a cluster, `ship` sends this package ("zip"), or all libraries of this environment ("venv"). With
    `full_refresh` all tables and checkpoints begin anew.
    """
    watch = watcher or Watcher()
    file = find_spec_file(Path(path))
    require_spark(master or LOCAL)
    watch.stage("reading the project")
    project = read_project(file, storage)
    configured = {**project.configuration, **(settings or {})}
    address = bootstrap or configured.get(BOOTSTRAP) or resolve().bootstrap
    check_brokers(address)
    where = master or configured.get("spark.master") or LOCAL
    check_master(where)
    watch.stage(f"{'packing the environment and ' if ship == 'venv' else ''}starting Spark on {where}")
    from bifrost.pipeline.connect import connected

    runtime = {**project.configuration, BOOTSTRAP: address}
    driver = _driver_settings(project, settings or {})
    log = _log(project, where)
    with connected(project.name, where, driver, runtime, log, ship) as spark:
        return _Run(spark, project, watch, log, dry_run=dry_run, full_refresh=full_refresh).run()


def _log(project: Project, master: str) -> Path | None:
    """Where a driver of ours prints to; beside the specification if the storage is not on this machine."""
    if master.startswith("sc://"):
        return None
    return (project.local_storage or project.file.parent) / "spark.log"


def _driver_settings(project: Project, given: Mapping[str, str]) -> dict[str, str]:
    """A catalog that outlives the run, unless somebody has configured one.

    Spark forgets tables of its default catalog when it ends, but not their files, and the next run would stop at them.
    """
    settings = {**project.configuration, **given}
    if any(name.startswith(("spark.sql.catalog", "spark.hadoop.hive.metastore")) for name in settings):
        return settings
    directory = project.local_storage or project.file.parent
    options = [settings.get("spark.driver.extraJavaOptions", ""), f"-Dderby.stream.error.file={directory}/derby.log"]
    return {
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": f"{project.storage.rstrip('/')}/tables",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={directory}/catalog;create=true",
        **settings,
        "spark.driver.extraJavaOptions": " ".join(filter(None, options)),
    }


class _Run:
    """Hears Spark's events in one thread and the progress of its queries in another."""

    def __init__(
        self,
        spark: SparkSession,
        project: Project,
        watch: Watcher,
        log: Path | None,
        *,
        dry_run: bool,
        full_refresh: bool,
    ) -> None:
        self._spark = spark
        self._project = project
        self._watch = watch
        self._log = log
        self._dry_run = dry_run
        self._full_refresh = full_refresh
        self._flows = Flows(project.display_name)
        self._lock = threading.Lock()
        self._over = threading.Event()

    def run(self) -> Outcome:
        from bifrost.pipeline.graph import load_graph

        self._watch.stage("loading definitions")
        graph = load_graph(self._spark, self._project)
        check_topics(graph.uses)
        self._know(graph)
        self._watch.stage("checking flows" if self._dry_run else "running")
        self._watch.changed(list(self._flows))
        ear = Ear(self._spark, self._progress)
        lag = threading.Thread(target=self._measure_lag, args=(Ends.of(graph.uses),), daemon=True)
        lag.start()
        try:
            self._hear(graph)
        finally:
            ear.close(sum(flow.starts for flow in self._flows if flow.is_streaming))
            self._over.set()
            lag.join()
        return Outcome(self._project.name, list(self._flows), self._dry_run)

    def _know(self, graph: Graph) -> None:
        for name, target in graph.targets.items():
            flow = self._flows.get(name)
            flow.target = target
            flow.is_streaming = name in graph.streaming
            flow.after = tuple(
                each for each, its_target in graph.targets.items() if its_target in graph.tables.get(name, ())
            )
            flow.reads = tuple(
                topic for use in graph.uses if use.owner == name and not use.is_sink for topic in use.names
            )
            flow.writes = next(
                (", ".join(use.names) for use in graph.uses if use.owner == target and use.is_sink), None
            )

    def _hear(self, graph: Graph) -> None:
        """Until the run is over; KeyboardInterrupt stops the flows, each after its batch, and goes on."""
        from pyspark.errors import PySparkException

        # In a thread of its own, which Ctrl-C does not strike: in the middle of gRPC it may leave a lock of the channel
        # taken, and the next call would wait forever.
        messages: Channel[str] = Channel(_MESSAGES, senders=1)
        threading.Thread(target=self._follow, args=(graph, messages), name="bifrost-pipeline", daemon=True).start()
        try:
            while (message := messages.get()) is not None:
                self._event(message)
        except KeyboardInterrupt:
            self._watch.stage("stopping")
            for query in self._spark.streams.active:
                query.stop()
            self._spark.interruptAll()
            raise
        except PySparkException as error:
            raise self._failure(str(error)) from error
        if any(flow.state == FAILED for flow in self._flows):
            raise self._failure("")

    def _follow(self, graph: Graph, messages: Channel[str]) -> None:
        from pyspark.pipelines.spark_connect_pipeline import start_run

        with messages.sending():
            for result in start_run(
                cast("SparkSession", _Answers(self._spark)),
                graph.id,
                full_refresh=None,
                full_refresh_all=self._full_refresh,
                refresh=None,
                dry=self._dry_run,
                storage=self._project.storage,
            ):
                if "pipeline_event_result" in result:
                    messages.put(result["pipeline_event_result"].event.message)

    def _failure(self, said: str) -> PipelineError:
        failed = [flow for flow in self._flows if flow.state == FAILED]
        is_there = self._log is not None and self._log.exists()  # not if the driver is somebody else's
        hint = f"All of what Spark says is in {self._log}." if is_there else ""
        if not failed:
            return PipelineError(cause(said), hint)
        others = f" ({len(failed) - 1} more flows failed)" if len(failed) > 1 else ""
        return PipelineError(f"flow {failed[0].name} failed: {failed[0].problem}{others}", hint)

    def _event(self, message: str) -> None:
        with self._lock:
            if self._flows.hear(message) is not None:
                self._watch.changed(list(self._flows))

    def _progress(self, report: Mapping[str, Any]) -> None:
        with self._lock:
            if self._flows.progress(report) is not None:
                self._watch.changed(list(self._flows))

    def _measure_lag(self, ends: Ends) -> None:
        """Now and then, and once more when all is over."""
        is_over = False
        while not is_over:
            is_over = self._over.wait(_LAG_S)
            with self._lock:
                known = [replace(flow, position=dict(flow.position)) for flow in self._flows]
            lags = {flow.name: ends.lag(flow) for flow in known}
            with self._lock:
                changed = [flow for flow in self._flows if lags.get(flow.name) not in (None, flow.lag)]
                for flow in changed:
                    flow.lag = lags[flow.name]
                if changed:
                    self._watch.changed(list(self._flows))


class _Answers:
    """A session as `start_run` needs it, without the answers that Spark 4.3 does not know itself and stops at.

    They tell what Python workers have counted, and come as soon as functions or a source of the session ran in some.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._asked: Any = spark.client
        self.client = self

    def execute_command_as_iterator(self, command: Any) -> Iterator[dict[str, Any]]:
        request = self._asked._execute_plan_request_with_metadata()
        self._asked._set_command_in_plan(request.plan, command)
        answers = self._asked._execute_and_fetch_as_iterator(request, {})
        return (answer for answer in answers if isinstance(answer, dict))
