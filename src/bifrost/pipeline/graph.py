"""A project's definitions handed to Spark, and what they do with topics, read off the plans that go over the wire."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from bifrost.pipeline.failures import PipelineError, cause
from bifrost.pipeline.project import Project
from bifrost.pipeline.topics import TopicUse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMAT: Final = "bifrost"


@dataclass(slots=True)
class Graph:
    """What Spark knows by `id`: flows in the order of their definition, each with what it writes and reads."""

    id: str
    targets: dict[str, str] = field(default_factory=dict)
    uses: list[TopicUse] = field(default_factory=list)
    tables: dict[str, set[str]] = field(default_factory=dict)
    """Tables and views that a flow reads, by the name of the flow."""
    streaming: set[str] = field(default_factory=set)
    """Flows that read a stream, from a topic or from a table."""
    views: set[str] = field(default_factory=set)
    """Temporary ones, which are no flows of a run: whoever reads them reads what they read."""

    def inline_views(self) -> None:
        """Gives what views use to the flows that read them, and forgets the views."""
        for flow in [flow for flow in self.targets if flow not in self.views]:
            behind = self._views_behind(flow, set())
            self.uses.extend(replace(use, owner=flow) for use in self.uses if use.owner in behind)
        self.uses = [use for use in self.uses if use.owner not in self.views]
        self.targets = {flow: target for flow, target in self.targets.items() if flow not in self.views}

    def _views_behind(self, flow: str, seen: set[str]) -> set[str]:
        for view in self.tables.get(flow, set()) & self.views - seen:
            seen.add(view)
            self._views_behind(view, seen)
        return seen


def load_graph(spark: SparkSession, project: Project) -> Graph:
    """Imports the definitions. What they raise becomes a PipelineError that names the file."""
    from pyspark.errors import PySparkException
    from pyspark.pipelines.cli import register_definitions
    from pyspark.pipelines.spark_connect_graph_element_registry import SparkConnectGraphElementRegistry
    from pyspark.pipelines.spark_connect_pipeline import create_dataflow_graph

    spec = project.spec
    try:
        graph = Graph(create_dataflow_graph(spark, spec.catalog, spec.database, project.configuration))
        registry = SparkConnectGraphElementRegistry(spark, graph.id)
        registry._client = _Listener(registry._client, graph)
        with redirect_stdout(io.StringIO()):  # Spark prints what it imports
            register_definitions(project.file, registry, spec, spark, graph.id)
        graph.inline_views()
    except (PySparkException, SyntaxError, ImportError, NameError, AttributeError, TypeError, ValueError) as error:
        raise PipelineError(f"{_place(error, project)}{_said(error)}") from error
    return graph


class _Listener:
    """Spark's client, with an ear on what is defined: the plans of flows, the options of sinks."""

    def __init__(self, client: Any, graph: Graph) -> None:
        self._heard = client
        self._graph = graph

    def __getattr__(self, name: str) -> Any:
        return getattr(self._heard, name)

    def execute_command(self, command: Any) -> Any:
        told = command.pipeline_command
        if told.HasField("define_output"):
            self._output(told.define_output)
        elif told.HasField("define_flow"):
            self._flow(told.define_flow)
        return self._heard.execute_command(command)

    def _output(self, output: Any) -> None:
        from pyspark.sql.connect.proto import OutputType

        if output.output_type == OutputType.TEMPORARY_VIEW:
            self._graph.views.add(output.output_name)
        elif output.sink_details.format == FORMAT:
            self._graph.uses.append(TopicUse(output.output_name, dict(output.sink_details.options), is_sink=True))

    def _flow(self, flow: Any) -> None:
        reads = list(_reads(flow.relation_flow_details.relation))
        self._graph.targets[flow.flow_name] = flow.target_dataset_name
        self._graph.tables[flow.flow_name] = {
            read.named_table.unparsed_identifier for read in reads if read.HasField("named_table")
        }
        if any(read.is_streaming for read in reads):
            self._graph.streaming.add(flow.flow_name)
        self._graph.uses.extend(
            TopicUse(flow.flow_name, dict(read.data_source.options), read.is_streaming)
            for read in reads
            if read.data_source.format == FORMAT
        )


def _reads(message: Any) -> Iterator[Any]:
    """Every `Read` of a plan, however deep."""
    if message.DESCRIPTOR.name == "Read":
        yield message
    for descriptor, value in message.ListFields():
        if descriptor.message_type is None:
            continue
        if hasattr(value, "ListFields"):
            yield from _reads(value)
        elif not hasattr(value, "items"):  # a map holds no plans
            for each in value:
                yield from _reads(each)


def _place(error: Exception, project: Project) -> str:
    """`transformations/cleaned.py:12: ` if the error passed a file of the project."""
    place = ""
    trace = error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if file.startswith(str(project.file.parent)):
            place = f"{file.removeprefix(str(project.file.parent)).lstrip('/')}:{trace.tb_lineno}: "
        trace = trace.tb_next
    if isinstance(error, SyntaxError) and error.filename:
        place = f"{error.filename.removeprefix(str(project.file.parent)).lstrip('/')}:{error.lineno}: "
    return place


def _said(error: Exception) -> str:
    from pyspark.errors import PySparkException

    return cause(str(error)) if isinstance(error, PySparkException) else f"{type(error).__name__}: {error}"
