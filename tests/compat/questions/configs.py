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
GROUP_NAMES = ["consumer.assignment.interval.ms", "consumer.heartbeat.interval.ms", "consumer.session.timeout.ms"]
SETTINGS = [
    "auto.create.topics.enable",
    "auto.leader.rebalance.enable",
    "broker.heartbeat.interval.ms",
    "broker.session.timeout.ms",
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.type",
    "compression.zstd.level",
    "connections.max.idle.ms",
    "controller.quorum.election.backoff.max.ms",
    "controller.quorum.election.timeout.ms",
    "controller.quorum.fetch.max.bytes",
    "controller.quorum.fetch.snapshot.max.bytes",
    "controller.quorum.fetch.timeout.ms",
    "controller.quorum.request.timeout.ms",
    "controller.quorum.retry.backoff.ms",
    "default.replication.factor",
    "delete.topic.enable",
    "fetch.max.bytes",
    "group.consumer.assignment.interval.ms",
    "group.consumer.assignors",
    "group.consumer.heartbeat.interval.ms",
    "group.consumer.max.assignment.interval.ms",
    "group.consumer.max.heartbeat.interval.ms",
    "group.consumer.max.session.timeout.ms",
    "group.consumer.max.size",
    "group.consumer.migration.policy",
    "group.consumer.min.assignment.interval.ms",
    "group.consumer.min.heartbeat.interval.ms",
    "group.consumer.min.session.timeout.ms",
    "group.consumer.session.timeout.ms",
    "group.coordinator.rebalance.protocols",
    "group.initial.rebalance.delay.ms",
    "group.max.session.timeout.ms",
    "group.max.size",
    "group.min.session.timeout.ms",
    "leader.imbalance.check.interval.seconds",
    "log.cleanup.policy",
    "log.flush.interval.messages",
    "log.flush.interval.ms",
    "log.flush.offset.checkpoint.interval.ms",
    "log.flush.scheduler.interval.ms",
    "log.flush.start.offset.checkpoint.interval.ms",
    "log.index.interval.bytes",
    "log.index.size.max.bytes",
    "log.initial.task.delay.ms",
    "log.local.retention.bytes",
    "log.local.retention.ms",
    "log.message.timestamp.after.max.ms",
    "log.message.timestamp.before.max.ms",
    "log.message.timestamp.type",
    "log.preallocate",
    "log.retention.bytes",
    "log.retention.check.interval.ms",
    "log.retention.hours",
    "log.retention.minutes",
    "log.retention.ms",
    "log.roll.hours",
    "log.roll.jitter.hours",
    "log.roll.jitter.ms",
    "log.roll.ms",
    "log.segment.bytes",
    "log.segment.delete.delay.ms",
    "max.connections",
    "max.incremental.fetch.session.cache.slots",
    "max.request.partition.size.limit",
    "message.max.bytes",
    "metadata.log.max.record.bytes.between.snapshots",
    "metadata.log.max.snapshot.interval.ms",
    "metadata.log.segment.bytes",
    "metadata.log.segment.ms",
    "min.insync.replicas",
    "num.partitions",
    "offset.metadata.max.bytes",
    "offsets.commit.timeout.ms",
    "offsets.load.buffer.size",
    "offsets.retention.check.interval.ms",
    "offsets.retention.minutes",
    "offsets.topic.compression.codec",
    "offsets.topic.num.partitions",
    "offsets.topic.segment.bytes",
    "producer.id.expiration.ms",
    "queued.max.request.bytes",
    "replica.fetch.backoff.ms",
    "replica.fetch.max.bytes",
    "replica.fetch.response.max.bytes",
    "replica.fetch.wait.max.ms",
    "replica.high.watermark.checkpoint.interval.ms",
    "replica.lag.time.max.ms",
    "replica.selector.class",
    "replica.socket.timeout.ms",
    "socket.listen.backlog.size",
    "socket.receive.buffer.bytes",
    "socket.request.max.bytes",
    "socket.send.buffer.bytes",
    "unclean.leader.election.enable",
]
"""Those that are the same on every node, and have an effect here."""


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
_describe("group_values", GROUP, "nobody", GROUP_NAMES)
_describe("group_values_with_synonyms", GROUP, "nobody", GROUP_NAMES, include_synonyms=True)
_describe("group_documentation", GROUP, "nobody", GROUP_NAMES[:1], include_documentation=True)
_describe("unknown_name_in_group", GROUP, "nobody", ["no.such.config", GROUP_NAMES[0]])
_describe("nameless_group", GROUP, "", None)
_describe("no_type", 0, "x", None)
_describe("client_metrics", 16, "m", None)
_describe("logger_of_another_broker", BROKER_LOGGER, "77", None)
_describe("logger_by_name", BROKER_LOGGER, "first", None)
fixed("describe_configs", "no_resources", resources=[])


@question("describe_configs")
def flags_of_broker_settings(stage: Stage, ask: Ask) -> Answers:
    """What may be changed, what is secret, and of what type it is; the values are a matter of taste."""
    wanted = {"resource_type": BROKER, "resource_name": str(stage.node), "configuration_keys": SETTINGS}
    (result,) = ask(resources=[wanted])["results"]
    left_out = ("name", "value", "config_source", "synonyms", "documentation")
    return {
        config["name"]: {key: value for key, value in config.items() if key not in left_out}
        for config in result["configs"]
    }


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
