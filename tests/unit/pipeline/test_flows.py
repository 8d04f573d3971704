"""How far each flow has come, from what Spark says: the texts are those of Spark 4.3."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from bifrost.client.errors import UnreachableError
from bifrost.pipeline import listening
from bifrost.pipeline.flows import OUT_OF_ORDER, Flow, Flows
from bifrost.pipeline.topics import Ends
from bifrost.types import TopicPartition

HOME = "spark_catalog.default."
TRACE = """Error: [STREAM_FAILED] Query [id = 8c69] terminated with exception: [PYTHON_ERROR] Traceback:
  File "client.py", line 57, in partitions
bifrost.client.errors.UnknownTopicError: topic readings does not exist. Create it.
 SQLSTATE: 38000"""


def flows() -> Flows:
    return Flows(lambda name: name.removeprefix(HOME))


def test_states_follow_the_events_of_a_run() -> None:
    known = flows()
    states = []
    for told in ("is QUEUED.", "is STARTING.", "is RUNNING.", "has COMPLETED."):
        flow = known.hear(f"Flow {HOME}readings {told}")
        assert flow is not None
        states.append(flow.state)
    assert states == ["waiting", "running", "running", "completed"]
    assert [flow.name for flow in known] == ["readings"]


def test_other_events_are_about_no_flow() -> None:
    assert flows().hear("Run is COMPLETED.") is None


def test_a_failure_has_its_cause_even_after_a_completion() -> None:
    """Spark says that such a flow is complete, and then that it failed."""
    known = flows()
    known.hear("Flow readings has COMPLETED.")
    flow = known.hear(f"Flow 'readings' has FAILED more than 2 times and will not be restarted.\n{TRACE}")
    assert flow is not None
    assert (flow.state, flow.problem) == ("failed", "topic readings does not exist. Create it.")


def test_a_flow_that_succeeds_at_last_has_no_problem() -> None:
    known = flows()
    for told in (f"'readings' has FAILED.\n{TRACE}", "readings is STARTING.", "readings has COMPLETED."):
        flow = known.hear(f"Flow {told}")
    assert flow is not None
    assert (flow.state, flow.problem) == ("completed", "")


def test_flows_that_cannot_be_resolved() -> None:
    known = flows()
    behind = known.hear(f"Failed to resolve flow due to upstream failure: '{HOME}sensors'.\nError: Failed to read it.")
    cause = known.hear(
        f"Failed to resolve flow: '{HOME}readings'.\nError: [CAST] Cannot cast BINARY. SQLSTATE: 42K09;\n'P"
    )
    assert behind is not None
    assert cause is not None
    assert (behind.state, behind.problem) == ("skipped", "")
    assert (cause.state, cause.problem) == ("failed", "Cannot cast BINARY.")


def test_a_flow_that_did_not_wait_is_told() -> None:
    known = flows()
    known.get("alerts").after = ("windows",)
    known.hear("Flow windows is RUNNING.")
    known.hear("Flow alerts is RUNNING.")
    flow = known.hear("Flow alerts has COMPLETED.")
    assert flow is not None
    assert flow.problem == OUT_OF_ORDER


def test_a_flow_that_waited_is_fine() -> None:
    known = flows()
    known.get("alerts").after = ("windows",)
    known.hear("Flow windows has COMPLETED.")
    flow = known.hear("Flow alerts is RUNNING.")
    assert flow is not None
    assert flow.problem == ""


def test_progress_adds_up_over_batches() -> None:
    known = flows()
    offsets = [{"t": {"0": 10, "1": 4}}, {"t": {"0": 15, "1": 4}}]
    for end, rows, written in zip(offsets, (14, 5), (3, 2)):
        report = {"name": f"{HOME}hot", "numInputRows": rows, "sink": {"numOutputRows": written}}
        known.progress({**report, "sources": [{"endOffset": end}]})
    flow = known.get("hot")
    assert (flow.rows_read, flow.rows_written, flow.batches) == (19, 5, 2)
    assert flow.position == {TopicPartition("t", 0): 15, TopicPartition("t", 1): 4}


def test_what_spark_does_not_count_stays_unknown() -> None:
    known = flows()
    sources = [{"endOffset": {"logOffset": 3}}, {"endOffset": None}]
    known.progress({"name": "files", "numInputRows": 7, "sources": sources, "sink": {"numOutputRows": -1}})
    flow = known.get("files")
    assert (flow.rows_read, flow.rows_written, flow.position) == (7, None, {})
    assert known.progress({"name": None}) is None


def test_a_stream_that_completes_in_silence_found_nothing_new() -> None:
    known = flows()
    for name, writes in (("hot", "hot-readings"), ("readings", None)):
        flow = known.get(name)
        flow.is_streaming, flow.writes = True, writes
        known.hear(f"Flow {HOME}{name} has COMPLETED.")
    known.hear(f"Flow {HOME}sensors has COMPLETED.")
    counts = {flow.name: (flow.rows_read, flow.rows_written) for flow in known}
    assert counts == {"hot": (0, 0), "readings": (0, None), "sensors": (None, None)}


def test_what_was_counted_stays_when_a_stream_completes() -> None:
    known = flows()
    known.get("hot").is_streaming = True
    known.progress({"name": "hot", "numInputRows": 3, "sink": {"numOutputRows": 2}})
    flow = known.hear("Flow hot has COMPLETED.")
    assert flow is not None
    assert (flow.rows_read, flow.rows_written) == (3, 2)


FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


def test_lag_is_what_lies_between_a_flow_and_the_ends_of_its_topics() -> None:
    there = {FIRST: 10, SECOND: 4}
    ends = Ends({"hot": [lambda: there]})
    flow = Flow("hot", position={FIRST: 7, SECOND: 4})
    assert ends.lag(flow) == 3
    there[FIRST] = 15
    assert ends.lag(flow) == 8
    there[TopicPartition("t", 2)] = 5  # a new partition, of which it has read nothing
    assert ends.lag(flow) == 13
    there.update({FIRST: 2, SECOND: 4})  # the topic was made anew
    assert ends.lag(flow) == 5


def test_lag_adds_up_over_the_topics_of_a_join() -> None:
    ends = Ends({"both": [lambda: {FIRST: 5}, lambda: {TopicPartition("u", 0): 7}]})
    assert ends.lag(Flow("both", position={FIRST: 5, TopicPartition("u", 0): 3})) == 4


def test_lag_of_a_flow_that_found_nothing_new_is_what_came_since_the_run_began() -> None:
    there = {FIRST: 10}
    ends = Ends({"hot": [lambda: there]})
    there[FIRST] = 12
    assert ends.lag(Flow("hot")) is None, "it has not said where it is"
    assert ends.lag(Flow("hot", state="completed")) == 2


def test_lag_is_unknown_where_there_is_none_and_while_brokers_are_silent() -> None:
    def nobody() -> dict[TopicPartition, int]:
        raise UnreachableError("nobody answers")

    ends = Ends({"hot": [nobody]})
    assert ends.lag(Flow("hot", position={FIRST: 7})) is None
    assert ends.lag(Flow("hot", state="completed")) is None
    assert ends.lag(Flow("sensors", state="completed")) is None


class Streams:
    """A session of which only listeners matter; tells on removal how many queries had ended."""

    def __init__(self) -> None:
        self.streams = self
        self.listener: Any = None

    def addListener(self, listener: Any) -> None:
        self.listener = listener

    def removeListener(self, listener: Any) -> None:
        assert listener is self.listener
        self.listener = None


def ear(tell: Callable[[Any], None]) -> tuple[Streams, listening.Ear]:
    streams = Streams()
    return streams, listening.Ear(streams, tell)  # type: ignore[arg-type]


def test_the_ear_closes_after_the_last_report() -> None:
    heard: list[str] = []
    streams, listener = ear(lambda report: heard.append(report["name"]))

    def late() -> None:
        streams.listener.onQueryTerminated(None)
        streams.listener.onQueryProgress(SimpleNamespace(progress=SimpleNamespace(json='{"name": "last"}')))
        streams.listener.onQueryTerminated(None)

    spark = threading.Timer(0.05, late)
    spark.start()
    listener.close(begun=2)
    assert heard == ["last"]
    assert streams.listener is None
    spark.join()


def test_the_ear_does_not_wait_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "_PATIENCE_S", 0.01)
    streams, listener = ear(lambda _: None)
    listener.close(begun=1)
    assert streams.listener is None
