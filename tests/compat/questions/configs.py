"""Questions about configs. Values are asked by name: which names exist at all is compared elsewhere."""

from __future__ import annotations

from typing import Any

from tests.compat.questions.catalogue import Answers, fixed, question
from tests.compat.questions.stage import Ask, Stage

TOPIC, BROKER, BROKER_LOGGER, GROUP = 2, 4, 8, 32
TOPIC_NAMES = [
    "cleanup.policy",
    "compression.type",
    "delete.retention.ms",
    "file.delete.delay.ms",
    "flush.messages",
    "flush.ms",
    "index.interval.bytes",
    "max.compaction.lag.ms",
    "max.message.bytes",
    "message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms",
    "message.timestamp.type",
    "min.cleanable.dirty.ratio",
    "min.compaction.lag.ms",
    "min.insync.replicas",
    "preallocate",
    "retention.bytes",
    "retention.ms",
    "segment.bytes",
    "segment.index.bytes",
    "segment.jitter.ms",
    "segment.ms",
    "unclean.leader.election.enable",
]
BROKER_NAMES = [
    "auto.create.topics.enable",
    "default.replication.factor",
    "fetch.max.bytes",
    "log.cleanup.policy",
    "log.retention.hours",
    "log.retention.ms",
    "log.roll.hours",
    "log.segment.bytes",
    "message.max.bytes",
    "min.insync.replicas",
    "num.partitions",
    "socket.request.max.bytes",
]


def _describe(name: str, kind: int, resource: str, keys: list[str] | None, **extra: Any) -> None:
    wanted = {"resource_type": kind, "resource_name": resource, "configuration_keys": keys}
    fixed("describe_configs", name, resources=[wanted], **extra)


_describe("topic_defaults", TOPIC, "@empty", TOPIC_NAMES)
_describe("topic_defaults_with_synonyms", TOPIC, "@empty", TOPIC_NAMES, include_synonyms=True)
_describe("topic_documentation", TOPIC, "@empty", ["retention.ms", "segment.bytes"], include_documentation=True)
_describe("unknown_name_in_topic", TOPIC, "@empty", ["no.such.config", "retention.ms"])
_describe("unknown_topic", TOPIC, "@missing", None)
_describe("invalid_topic", TOPIC, "with space", None)
_describe("empty_topic_name", TOPIC, "", None)
_describe("broker_values", BROKER, "@node", BROKER_NAMES)
_describe("broker_values_with_synonyms", BROKER, "@node", BROKER_NAMES, include_synonyms=True)
_describe("cluster_wide_defaults", BROKER, "", None)
_describe("unknown_broker", BROKER, "77", None)
_describe("broker_by_name", BROKER, "first", None)
_describe("unknown_type", 99, "x", None)
_describe("unknown_group", GROUP, "nobody", ["consumer.session.timeout.ms"])


@question("describe_configs")
def no_names_means_all(stage: Stage, ask: Ask) -> Answers:
    """As null does. Which names a broker has beyond these is its own affair."""
    wanted = {"resource_type": TOPIC, "resource_name": stage.name("empty"), "configuration_keys": []}
    answer = ask(resources=[wanted])
    (result,) = answer["results"]
    result["configs"] = [config for config in result["configs"] if config["name"] in TOPIC_NAMES]
    return answer


@question("describe_configs")
def the_same_resource_twice(stage: Stage, ask: Ask) -> Answers:
    wanted = {"resource_type": TOPIC, "resource_name": stage.name("empty"), "configuration_keys": ["retention.ms"]}
    return ask(resources=[wanted, wanted])


@question("describe_configs", prepare=lambda stage: stage.create("tuned", 1, {"segment.bytes": "2000000"}))
def changed_topic_value(stage: Stage, ask: Ask) -> Answers:
    keys = ["segment.bytes", "retention.ms", "min.insync.replicas"]
    wanted = {"resource_type": TOPIC, "resource_name": stage.name("tuned"), "configuration_keys": keys}
    return ask(resources=[wanted], include_synonyms=True)
