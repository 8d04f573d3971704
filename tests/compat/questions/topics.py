"""Questions about topics, their configs and the cluster."""

from __future__ import annotations

import uuid
from typing import Any

from tests.compat.questions.catalogue import Answers, fixed, named, question
from tests.compat.questions.configs import TOPIC_NAMES
from tests.compat.questions.stage import Ask, Stage
from tests.compat.wire import Answer

NOBODY = uuid.UUID(int=0xBAD)

fixed("metadata", "one_topic", topics=[{"name": "@filled"}], allow_auto_topic_creation=False)
fixed("metadata", "two_topics_in_the_order_asked", topics=[{"name": "@filled"}, {"name": "@empty"}])
fixed("metadata", "the_same_topic_twice", topics=[{"name": "@empty"}, {"name": "@empty"}])
fixed("metadata", "no_topics", first=1, topics=[])
fixed("metadata", "unknown_topic", first=4, topics=[{"name": "@missing"}], allow_auto_topic_creation=False)
fixed("metadata", "invalid_name", first=4, topics=[{"name": "no spaces"}], allow_auto_topic_creation=False)
fixed("metadata", "invalid_name_to_create", first=4, topics=[{"name": "no spaces"}], allow_auto_topic_creation=True)
fixed("metadata", "empty_name", first=4, topics=[{"name": ""}], allow_auto_topic_creation=False)
fixed("metadata", "null_name_without_id", first=10, topics=[{"name": None}], allow_auto_topic_creation=False)
fixed("metadata", "topic_operations", first=8, topics=[{"name": "@empty"}], include_topic_authorized_operations=True)
fixed("metadata", "cluster_operations", first=8, last=10, topics=[], include_cluster_authorized_operations=True)
fixed("metadata", "unknown_id", first=10, topics=[{"name": None, "topic_id": NOBODY}])


@question("metadata", first=10)
def by_id(stage: Stage, ask: Ask) -> Answers:
    return ask(topics=[{"name": None, "topic_id": stage.topic_id("filled")}])


@question("metadata", first=10)
def id_and_name_together(stage: Stage, ask: Ask) -> Answers:
    return ask(topics=[{"name": stage.name("filled"), "topic_id": stage.topic_id("filled")}])


def _create(label: str, first: int | None = None, **topic: Any) -> None:
    wanted = {"name": "@new", "num_partitions": 1, "replication_factor": 1, **topic}

    def function(stage: Stage, ask: Ask) -> Answers:
        return _without_configs(ask(topics=named(stage, [wanted]), timeout=5000, validate_only=True))

    function.__name__ = label
    question("create_topics", first=first)(function)


def _without_configs(answer: Answer) -> Answer:
    """Whether an answer has the topic's configs, and not what they are: `really_created` looks at those."""
    for topic in answer["topics"]:
        if topic.get("configs"):
            topic["configs"] = "<configs>"
    return answer


_create("valid")
_create("three_partitions_with_configs", num_partitions=3, configs=[{"name": "retention.ms", "value": "1000"}])
_create("default_counts", first=4, num_partitions=-1, replication_factor=-1)
_create("default_counts_before_v4", num_partitions=-1, replication_factor=-1)
_create("existing", name="@empty")
_create("empty_name", name="")
_create("dot", name=".")
_create("dots", name="..")
_create("space", name="with space")
_create("slash", name="../etc")
_create("longest_name", name="x" * 249)
_create("too_long_name", name="x" * 250)
_create("internal_name", name="__share_group_state")
_create("no_partitions", num_partitions=0)
_create("negative_partitions", num_partitions=-2)
_create("no_replicas", replication_factor=0)
_create("negative_replicas", replication_factor=-2)
_create("too_many_replicas", replication_factor=2)
_create("unknown_config", configs=[{"name": "no.such.config", "value": "1"}])
_create("config_of_wrong_type", configs=[{"name": "retention.ms", "value": "soon"}])
_create("config_out_of_range", configs=[{"name": "segment.bytes", "value": "1"}])
_create("config_not_a_choice", configs=[{"name": "cleanup.policy", "value": "burn"}])
_create("null_config", configs=[{"name": "retention.ms", "value": None}])
_create("config_twice", configs=[{"name": "retention.ms", "value": "1"}, {"name": "retention.ms", "value": "2"}])


def _assign(name: str, assignments: list[tuple[int, list[str | int]]], counts: tuple[int, int] = (-1, -1)) -> None:
    """`node` in a list of replicas stands for the only broker."""

    def function(stage: Stage, ask: Ask) -> Answers:
        lists = [
            {"partition_index": partition, "broker_ids": [stage.node if each == "node" else each for each in replicas]}
            for partition, replicas in assignments
        ]
        topic: dict[str, Any] = {"name": stage.name("new"), "assignments": lists}
        topic |= {"num_partitions": counts[0], "replication_factor": counts[1]}
        return _without_configs(ask(topics=[topic], timeout=5000, validate_only=True))

    function.__name__ = name
    question("create_topics")(function)


_assign("assigned", [(0, ["node"]), (1, ["node"])])
_assign("assigned_with_counts", [(0, ["node"])], counts=(1, 1))
_assign("assigned_to_a_stranger", [(0, [77])])
_assign("assigned_twice_to_one", [(0, ["node", "node"])])
_assign("assigned_to_nobody", [(0, [])])
_assign("assigned_with_a_gap", [(0, ["node"]), (2, ["node"])])
_assign("assigned_not_from_zero", [(1, ["node"])])
_assign("assigned_same_partition_twice", [(0, ["node"]), (0, ["node"])])


@question("create_topics")
def same_name_twice_in_a_request(stage: Stage, ask: Ask) -> Answers:
    topic = {"name": stage.name("new"), "num_partitions": 1, "replication_factor": 1}
    return ask(topics=[topic, topic], timeout=5000, validate_only=True)


@question("create_topics")
def colliding_name(stage: Stage, ask: Ask) -> Answers:
    """`.` and `_` mean the same in metric names."""
    topic = {"name": stage.name("empty").replace(".", "_"), "num_partitions": 1, "replication_factor": 1}
    return ask(topics=[topic], timeout=5000, validate_only=True)


@question("create_topics")
def really_created(stage: Stage, ask: Ask) -> Answers:
    topic = {"name": stage.name(f"really-v{ask.version}"), "num_partitions": 2, "replication_factor": 1}
    topic["configs"] = [{"name": "max.message.bytes", "value": "1234567"}]
    answer = ask(topics=[topic], timeout=5000)
    (created,) = answer["topics"]
    created["name"] = "T.really"
    if "configs" in created:
        created["configs"] = [config for config in created["configs"] if config["name"] in TOPIC_NAMES]
    return answer


fixed("create_topics", "no_topics", topics=[], timeout=5000)
fixed("delete_topics", "unknown", first=1, last=5, topic_names=["@missing"], timeout=5000)
fixed("delete_topics", "unknown_by_name", first=6, topics=[{"name": "@missing"}], timeout=5000)
fixed("delete_topics", "unknown_by_id", first=6, topics=[{"name": None, "topic_id": NOBODY}], timeout=5000)
fixed("delete_topics", "name_and_id", first=6, topics=[{"name": "@empty", "topic_id": NOBODY}], timeout=5000)
fixed("delete_topics", "neither_name_nor_id", first=6, topics=[{"name": None}], timeout=5000)
fixed("delete_topics", "invalid_name", first=1, last=5, topic_names=["with space"], timeout=5000)
fixed("delete_topics", "unknown_twice", first=1, last=5, topic_names=["@missing", "@missing"], timeout=5000)
fixed("delete_topics", "nothing", first=1, last=5, topic_names=[], timeout=5000)


@question("delete_topics")
def really_deleted(stage: Stage, ask: Ask) -> Answers:
    """Once it is there, once it is not."""
    name = stage.create(f"doomed-v{ask.version}")
    answers = [ask(topic_names=[name], topics=[{"name": name}], timeout=5000) for _ in range(2)]
    for answer in answers:
        answer["responses"][0]["name"] = "T.doomed"
        answer["responses"][0].pop("topic_id", None)
    return answers


def _grow(name: str, count: int, topic: str = "@filled", assignments: list[dict[str, Any]] | None = None) -> None:
    wanted = {"name": topic, "count": count, "assignments": assignments}
    fixed("create_partitions", name, topics=[wanted], timeout=5000, validate_only=True)


_grow("valid", 5)
_grow("same_count", 3)
_grow("fewer", 2)
_grow("none", 0)
_grow("negative", -1)
_grow("unknown_topic", 2, topic="@missing")
_grow("invalid_name", 2, topic="with space")
_grow("to_a_stranger", 4, assignments=[{"broker_ids": [77]}])
_grow("to_nobody", 4, assignments=[{"broker_ids": []}])
_grow("too_few_assignments", 5, assignments=[{"broker_ids": [77]}])
fixed("create_partitions", "same_topic_twice", topics=[{"name": "@filled", "count": 5}] * 2, validate_only=True)

fixed("describe_cluster", "plain")
fixed("describe_cluster", "operations", include_cluster_authorized_operations=True)
fixed("describe_cluster", "of_controllers", first=1, endpoint_type=2)
fixed("describe_cluster", "of_something_else", first=1, endpoint_type=9)
fixed("describe_cluster", "with_fenced", first=2, include_fenced_brokers=True)


def _partitions(name: str, topics: list[str], limit: int = 2000, cursor: dict[str, Any] | None = None) -> None:
    names = [{"name": each} for each in topics]
    fixed("describe_topic_partitions", name, topics=names, response_partition_limit=limit, cursor=cursor)


_partitions("one", ["@filled"])
_partitions("sorted_by_name", ["@filled", "@empty"])
_partitions("unknown", ["@missing"])
_partitions("unknown_beside_known", ["@missing", "@empty"])
_partitions("invalid_name", ["with space"])
_partitions("limited_to_two", ["@filled"], limit=2)
_partitions("limited_to_two_across_topics", ["@empty", "@filled"], limit=2)
_partitions("limited_to_none", ["@filled"], limit=0)
_partitions("from_a_cursor", ["@filled"], cursor={"topic_name": "@filled", "partition_index": 1})
_partitions("from_a_cursor_past_the_end", ["@filled"], cursor={"topic_name": "@filled", "partition_index": 9})
_partitions("from_a_negative_cursor", ["@filled"], cursor={"topic_name": "@filled", "partition_index": -1})
_partitions("from_a_cursor_elsewhere", ["@filled"], cursor={"topic_name": "@missing", "partition_index": 0})
