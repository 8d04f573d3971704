"""Questions about offsets, epochs and producer ids."""

from __future__ import annotations

from typing import Any

from tests.compat.questions.catalogue import Answers, fixed, question
from tests.compat.questions.stage import TIME_MS, Ask, Stage
from tests.compat.wire import Wire


def _list(name: str, timestamp: int, partition: int = 0, first: int | None = None, **extra: Any) -> None:
    where = {"partition_index": partition, "timestamp": timestamp, "current_leader_epoch": extra.pop("epoch", -1)}
    topic = extra.pop("topic", "@filled")
    fields = {"replica_id": -1, "timeout": 1000, **extra}
    fixed("list_offsets", name, first=first, topics=[{"name": topic, "partitions": [where]}], **fields)


_list("latest", -1)
_list("latest_committed", -1, first=2, isolation_level=1)
_list("earliest", -2)
_list("latest_of_empty", -1, partition=2)
_list("earliest_of_empty", -2, partition=2)
_list("at_first_timestamp", TIME_MS)
_list("before_all", TIME_MS - 1)
_list("at_zero", 0)
_list("inside_a_batch", TIME_MS + 2000)
_list("between_two_records", TIME_MS + 2500)
_list("at_the_last", TIME_MS + 9000)
_list("after_all", TIME_MS + 9001)
_list("by_time_in_empty", TIME_MS, partition=2)
_list("max_timestamp", -3, first=7)
_list("max_timestamp_of_empty", -3, partition=2, first=7)
_list("max_timestamp_before_v7", -3)
_list("earliest_local", -4, first=8)
_list("latest_tiered", -5, first=9)
_list("earliest_pending_upload", -6, first=11)
_list("unknown_special", -99)
_list("unknown_partition", -1, partition=9)
_list("unknown_topic", -1, topic="@missing")
_list("invalid_topic", -1, topic="with space")
_list("current_epoch", -1, first=4, epoch=0)
_list("future_epoch", -1, first=4, epoch=5)
_list("as_debugger", -1, replica_id=-2)
_list("unknown_isolation", -1, first=2, isolation_level=7)


@question("list_offsets")
def the_same_partition_twice(stage: Stage, ask: Ask) -> Answers:
    where = {"partition_index": 0, "timestamp": -1}
    return ask(replica_id=-1, topics=[{"name": stage.name("filled"), "partitions": [where, where]}])


def _epoch(name: str, epoch: int, partition: int = 0, current: int = -1, topic: str = "@filled") -> None:
    where = {"partition": partition, "leader_epoch": epoch, "current_leader_epoch": current}
    topics = [{"topic": topic, "partitions": [where]}]
    fixed("offset_for_leader_epoch", name, topics=topics, replica_id=-1)


_epoch("current", 0)
_epoch("of_empty", 0, partition=2)
_epoch("future", 5)
_epoch("undefined", -1)
_epoch("with_future_current", 0, current=5)
_epoch("with_right_current", 0, current=0)
_epoch("unknown_partition", 0, partition=9)
_epoch("unknown_topic", 0, topic="@missing")


def _producer(name: str, first: int | None = None, **fields: Any) -> None:
    def function(stage: Stage, ask: Ask) -> Answers:
        return ask(**fields)

    def prepare(stage: Stage) -> None:
        """The first producer id of a broker may take a moment: Kafka fetches them from its controller in blocks."""
        with Wire(stage.bootstrap) as connection:
            while connection.ask("init_producer_id", 4)["error_code"] == "coordinator_load_in_progress":
                pass

    function.__name__ = name
    question("init_producer_id", first=first, prepare=prepare)(function)


_producer("without_transaction", transactional_id=None, transaction_timeout=60000)
_producer("without_timeout", transactional_id=None, transaction_timeout=0)
_producer("empty_transactional_id", transactional_id="", transaction_timeout=60000)
_producer("with_old_id", first=3, transactional_id=None, producer_id=5, producer_epoch=1)
_producer("with_epoch_only", first=3, transactional_id=None, producer_id=-1, producer_epoch=1)
_producer("with_id_only", first=3, transactional_id=None, producer_id=5, producer_epoch=-1)


@question("api_versions", first=3)
def with_a_bad_client_name(stage: Stage, ask: Ask) -> Answers:
    return ask(client_software_name="two words!", client_software_version="1")


@question("api_versions", first=3)
def with_no_client_name(stage: Stage, ask: Ask) -> Answers:
    return ask(client_software_name="", client_software_version="")


@question("api_versions")
def features(stage: Stage, ask: Ask) -> Answers:
    """The list of APIs is compared elsewhere, since a broker need not have them all."""
    answer = ask(client_software_name="compat", client_software_version="1")
    del answer["api_keys"]
    if answer.get("finalized_features_epoch", -1) >= 0:
        answer["finalized_features_epoch"] = "<epoch>"
    for kind in ("supported_features", "finalized_features"):
        answer.get(kind, []).sort(key=lambda each: str(each["name"]))
    return answer
