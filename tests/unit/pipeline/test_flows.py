"""How far each flow has come, from what Spark says: the texts are those of Spark 4.3."""

from __future__ import annotations

from bifrost.pipeline.flows import OUT_OF_ORDER, Flows
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
