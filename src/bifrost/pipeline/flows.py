"""The flows of a run and how far each has come, from what Spark tells of them. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from bifrost.pipeline.failures import cause
from bifrost.types import TopicPartition

WAITING: Final = "waiting"
RUNNING: Final = "running"
COMPLETED: Final = "completed"
FAILED: Final = "failed"
OUT_OF_ORDER: Final = (
    "started before the flows whose tables it reads were done, so it missed what they wrote in this run: "
    "use select, not withColumn, drop or withWatermark, on a table of the same pipeline"
)
"""Spark looks such a table up as it loads the definition, if an earlier run has made it, and forgets its flow."""
_STATES: Final = {
    "QUEUED": WAITING,
    "PLANNING": RUNNING,
    "STARTING": RUNNING,
    "RUNNING": RUNNING,
    "COMPLETED": COMPLETED,
    "FAILED": FAILED,
    "SKIPPED": "skipped",
    "STOPPED": "stopped",
    "EXCLUDED": "excluded",
    "IDLE": "idle",
}
_TOLD: Final = re.compile(r"^Flow '?(?P<flow>[^'\s]+)'? (?:is |has been |has )?(?P<state>[A-Z]+)\b")
_UNRESOLVED: Final = re.compile(r"^Failed to resolve flow(?P<follows> due to upstream failure)?: '(?P<flow>[^']+)'")


@dataclass(slots=True)
class Flow:
    """One flow of the pipeline. What Spark does not count, as in a batch flow, is None."""

    name: str
    target: str = ""
    """The table or sink that it writes."""
    reads: tuple[str, ...] = ()
    """Topics."""
    writes: str | None = None
    """A topic."""
    after: tuple[str, ...] = ()
    """Flows that write the tables it reads."""
    is_streaming: bool = False
    state: str = WAITING
    starts: int = 0
    """Spark starts it again if it fails."""
    rows_read: int | None = None
    rows_written: int | None = None
    batches: int = 0
    lag: int | None = None
    """Records of its topics that it has not read."""
    problem: str = ""
    position: dict[TopicPartition, int] = field(default_factory=dict)
    """Where its next batch starts."""


class Flows:
    """All flows of one run, under the names that their author gave them."""

    def __init__(self, display_name: Callable[[str], str] = str) -> None:
        self._display_name = display_name
        self._flows: dict[str, Flow] = {}

    def __iter__(self) -> Any:
        return iter(self._flows.values())

    def get(self, name: str) -> Flow:
        """Known ones, and those that only Spark knows, such as flows that are defined in SQL."""
        shown = self._display_name(name)
        return self._flows.setdefault(shown, Flow(shown))

    def hear(self, message: str) -> Flow | None:
        """An event of the run, as text; returns the flow that it was about."""
        unresolved = _UNRESOLVED.match(message)
        if unresolved:
            flow = self.get(unresolved["flow"])
            flow.state = FAILED if not unresolved["follows"] else "skipped"
            flow.problem = "" if unresolved["follows"] else cause(message.partition("\n")[2])
            return flow
        told = _TOLD.match(message)
        if not told or told["state"] not in _STATES:
            return None
        flow = self.get(told["flow"])
        flow.state = _STATES[told["state"]]
        flow.starts += told["state"] == "RUNNING"
        # Spark starts a failed flow again, and says of some that they are complete before it says that they failed.
        flow.problem = cause(message.partition("\n")[2]) if flow.state == FAILED else flow.problem
        if flow.state == COMPLETED:
            self._count_nothing(flow)
            flow.problem = OUT_OF_ORDER if flow.problem == OUT_OF_ORDER else ""
        elif flow.state == RUNNING and any(self.get(each).state in (WAITING, RUNNING) for each in flow.after):
            flow.problem = OUT_OF_ORDER
        return flow

    def _count_nothing(self, flow: Flow) -> None:
        """Spark is silent about a query that found nothing new."""
        if flow.is_streaming:
            flow.rows_read = flow.rows_read or 0
            flow.rows_written = flow.rows_written or (0 if flow.writes else None)

    def progress(self, report: Mapping[str, Any]) -> Flow | None:
        """The progress of a streaming query, which Spark names like its flow."""
        if not report.get("name"):
            return None
        flow = self.get(str(report["name"]))
        flow.batches += 1
        flow.rows_read = (flow.rows_read or 0) + int(report.get("numInputRows", 0))
        written = int(report.get("sink", {}).get("numOutputRows", -1))
        if written >= 0:
            flow.rows_written = (flow.rows_written or 0) + written
        for source in report.get("sources", ()):
            flow.position.update(_offsets(source.get("endOffset")))
        return flow


def _offsets(told: object) -> dict[TopicPartition, int]:
    """Offsets of topics as the source has them, `{topic: {partition: offset}}`; nothing for other sources."""
    found: dict[TopicPartition, int] = {}
    if isinstance(told, Mapping):
        for topic, partitions in told.items():
            if not isinstance(partitions, Mapping):
                return {}
            found.update({TopicPartition(topic, int(number)): int(offset) for number, offset in partitions.items()})
    return found
