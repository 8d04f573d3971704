"""The configs of a topic: their names, what they may hold, and which broker setting each one inherits from.

`TopicConfig` is the resolved form that code reads. Text becomes values here and nowhere else; who may change a config
and where overrides are stored is the controller's business.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any, NamedTuple, Self

from bifrost.settings.broker import Settings
from bifrost.settings.broker import keys as broker_keys
from bifrost.settings.keys import Key, Kind, Update, Value, hours, minutes
from bifrost.settings.reading import nearest

_TIERED = "Tiered storage is not supported."
_THROTTLED = r"\*|[0-9]+:[0-9]+"


class Synonym(NamedTuple):
    """A broker setting that a topic config inherits from; `convert` brings it to the topic's unit."""

    name: str
    convert: Callable[[int], int] | None = None

    def value(self, settings: Settings) -> Value:
        value = settings.value(self.name)
        return self.convert(value) if self.convert and isinstance(value, int) else value


class TopicKey(NamedTuple):
    """A topic config: its key, where it inherits from (strongest first), and whether tools should see it."""

    key: Key
    attribute: str
    synonyms: tuple[Synonym, ...]
    internal: bool


def _key(name: str, *synonyms: Synonym | str, doc: str, kind: Kind | None = None, **rules: Any) -> Any:
    """A field for one topic config; type and default come from the broker setting where there is one."""
    sources = tuple(Synonym(one) if isinstance(one, str) else one for one in synonyms)
    default: Value = rules.pop("default", None)
    internal: bool = rules.pop("internal", False)
    if sources:
        parent = broker_keys()[sources[0].name]
        kind = parent.kind
        default = next(value for one in sources if (value := one.value(Settings())) is not None)
        rules = {"choices": parent.choices, "at_least": parent.at_least, "at_most": parent.at_most,
                 "also": parent.also, "note": parent.note} | rules  # fmt: skip
    assert kind is not None, f"{name} has no broker setting to take its type from"
    described = Key(name, kind, default, doc, update=Update.CLUSTER_WIDE, **rules)
    return field(default=default, metadata={"topic": TopicKey(described, name.replace(".", "_"), sources, internal)})


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """Every config of one topic, resolved. Made by `of` from settings and then `override` with the topic's own."""

    # fmt: off
    cleanup_policy: tuple[str, ...] = _key(
        "cleanup.policy", "log.cleanup.policy", doc="Delete old segments, compact them by key, or both.")
    compression_gzip_level: int = _key("compression.gzip.level", "compression.gzip.level", doc="For gzip.")
    compression_lz4_level: int = _key("compression.lz4.level", "compression.lz4.level", doc="For lz4.")
    compression_type: str = _key(
        "compression.type", "compression.type", doc="How batches are stored; `producer` keeps them as they come.")
    compression_zstd_level: int = _key("compression.zstd.level", "compression.zstd.level", doc="For zstd.")
    delete_retention_ms: int = _key(
        "delete.retention.ms", "log.cleaner.delete.retention.ms", doc="How long compaction keeps tombstones.")
    file_delete_delay_ms: int = _key(
        "file.delete.delay.ms", "log.segment.delete.delay.ms", doc="How long deleted files stay on disk.")
    flush_messages: int = _key("flush.messages", "log.flush.interval.messages", doc="See flush.policy.")
    flush_ms: int = _key(
        "flush.ms", "log.flush.interval.ms", "log.flush.scheduler.interval.ms", doc="See flush.policy.")
    follower_replication_throttled_replicas: tuple[str, ...] = _key(
        "follower.replication.throttled.replicas", kind=Kind.LIST, default=(), pattern=_THROTTLED,
        doc="Replicas whose catching up is throttled, as PARTITION:BROKER, or `*`.")
    index_interval_bytes: int = _key(
        "index.interval.bytes", "log.index.interval.bytes", doc="Bytes of data per index entry.")
    internal_segment_bytes: int | None = _key(
        "internal.segment.bytes", kind=Kind.INT, at_least=1, internal=True,
        doc="Overrules segment.bytes, without its lower bound: for tests.")
    leader_replication_throttled_replicas: tuple[str, ...] = _key(
        "leader.replication.throttled.replicas", kind=Kind.LIST, default=(), pattern=_THROTTLED,
        doc="Replicas that the leader throttles, as PARTITION:BROKER, or `*`.")
    local_retention_bytes: int = _key("local.retention.bytes", "log.local.retention.bytes", doc=_TIERED)
    local_retention_ms: int = _key("local.retention.ms", "log.local.retention.ms", doc=_TIERED)
    max_compaction_lag_ms: int = _key(
        "max.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms", doc="Older records are compacted in any case.")
    max_message_bytes: int = _key("max.message.bytes", "message.max.bytes", doc="The largest record batch accepted.")
    message_timestamp_after_max_ms: int = _key(
        "message.timestamp.after.max.ms", "log.message.timestamp.after.max.ms",
        doc="How far in the future a producer's timestamp may lie.")
    message_timestamp_before_max_ms: int = _key(
        "message.timestamp.before.max.ms", "log.message.timestamp.before.max.ms",
        doc="How far in the past a producer's timestamp may lie.")
    message_timestamp_type: str = _key(
        "message.timestamp.type", "log.message.timestamp.type", doc="Whose clock stamps records.")
    min_cleanable_dirty_ratio: float = _key(
        "min.cleanable.dirty.ratio", "log.cleaner.min.cleanable.ratio", doc="Compact once this share of a log is new.")
    min_compaction_lag_ms: int = _key(
        "min.compaction.lag.ms", "log.cleaner.min.compaction.lag.ms", doc="Younger records are not compacted.")
    min_insync_replicas: int = _key(
        "min.insync.replicas", "min.insync.replicas", doc="Replicas that must have a write of acks=all.")
    preallocate: bool = _key("preallocate", "log.preallocate", doc="Reserve a segment's space when it is made.")
    remote_log_copy_disable: bool = _key("remote.log.copy.disable", kind=Kind.BOOLEAN, default=False, doc=_TIERED)
    remote_log_delete_on_disable: bool = _key(
        "remote.log.delete.on.disable", kind=Kind.BOOLEAN, default=False, doc=_TIERED)
    remote_storage_enable: bool = _key("remote.storage.enable", kind=Kind.BOOLEAN, default=False, doc=_TIERED)
    retention_bytes: int = _key(
        "retention.bytes", "log.retention.bytes", doc="Keep so much of a partition; negative: all of it.")
    retention_ms: int = _key(
        "retention.ms", "log.retention.ms", Synonym("log.retention.minutes", minutes),
        Synonym("log.retention.hours", hours), at_least=-1, also=None, doc="Keep data for so long; -1 for ever.")
    segment_bytes: int = _key("segment.bytes", "log.segment.bytes", doc="Start a new segment at this size.")
    segment_index_bytes: int = _key(
        "segment.index.bytes", "log.index.size.max.bytes", doc="The largest index of a segment.")
    segment_jitter_ms: int = _key(
        "segment.jitter.ms", "log.roll.jitter.ms", Synonym("log.roll.jitter.hours", hours),
        doc="At most this much is taken off segment.ms, so that segments do not all roll at once.")
    segment_ms: int = _key(
        "segment.ms", "log.roll.ms", Synonym("log.roll.hours", hours), doc="Start a new segment at this age.")
    unclean_leader_election_enable: bool = _key(
        "unclean.leader.election.enable", "unclean.leader.election.enable",
        doc="Let a replica that may lack acknowledged writes lead when no other is left.")
    # fmt: on

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """What a topic without overrides gets from this broker."""
        values = {}
        for spec in topic_keys().values():
            inherited = [value for one in spec.synonyms if (value := one.value(settings)) is not None]
            if inherited:
                values[spec.attribute] = inherited[0]
        return cls(**values)  # type: ignore[arg-type]  # a synonym has the type of its topic config

    def override(self, overrides: Mapping[str, str]) -> Self:
        """The same with the topic's own configs, which were validated before they were stored."""
        if not overrides:
            return self
        specs = [(topic_keys()[name], text) for name, text in overrides.items()]
        values = {spec.attribute: spec.key.parse(text) for spec, text in specs}
        return replace(self, **values)  # type: ignore[arg-type]

    @property
    def effective_segment_bytes(self) -> int:
        """The size at which a segment rolls."""
        return self.segment_bytes if self.internal_segment_bytes is None else self.internal_segment_bytes


@cache
def topic_keys() -> dict[str, TopicKey]:
    """Every topic config by name, sorted."""
    specs: list[TopicKey] = [one.metadata["topic"] for one in fields(TopicConfig)]
    return {spec.key.name: spec for spec in sorted(specs, key=lambda spec: spec.key.name)}


def check_override(name: str, text: str) -> str:
    """The canonical text of one override; ValueError for an unknown name or a value that it cannot have."""
    spec = topic_keys().get(name)
    if spec is None:
        raise ValueError(f"unknown topic config {name}{nearest(name, topic_keys())}")
    return spec.key.format(spec.key.parse(text)) or ""


def check_together(config: TopicConfig) -> None:
    """What only shows when the configs of a topic are looked at side by side; ValueError tells."""
    if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
        raise ValueError(
            f"min.compaction.lag.ms={config.min_compaction_lag_ms} is above"
            f" max.compaction.lag.ms={config.max_compaction_lag_ms}; lower the first or raise the second"
        )
    if config.remote_storage_enable:
        raise ValueError("remote.storage.enable=true: tiered storage is not supported; leave it at false")
