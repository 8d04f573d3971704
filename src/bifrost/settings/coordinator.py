"""What a node can be told about consumer groups and the offsets that they commit."""

from __future__ import annotations

from dataclasses import dataclass

from bifrost.settings.fields import INT_MAX, key, long
from bifrost.settings.keys import Kind, Update, minutes
from bifrost.settings.replication import ReplicationSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorSettings(ReplicationSettings):
    """A part of `Settings`."""

    # fmt: off
    # The topic that groups and offsets live in
    offsets_topic_num_partitions: int = key(
        "offsets.topic.num.partitions", 50, at_least=1,
        doc="Partitions of `__consumer_offsets`; it must not change once the topic exists.",
    )
    offsets_topic_replication_factor: int = key(
        "offsets.topic.replication.factor", 3, kind=Kind.SHORT, at_least=1,
        doc="Replicas of `__consumer_offsets`. (Kafka waits for so many brokers; here fewer will do, see ADR 0011.)",
    )
    offsets_topic_segment_bytes: int = key(
        "offsets.topic.segment.bytes", 100 << 20, at_least=1 << 20, doc="Its segment size: small, to load quickly."
    )
    offsets_topic_compression_codec: int = key(
        "offsets.topic.compression.codec", 0, at_least=0, at_most=4,
        doc="How its batches are compressed: 0 not at all, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
    )
    offsets_load_buffer_size: int = key(
        "offsets.load.buffer.size", 5 << 20, at_least=1, doc="How much of it is read at a time when it is loaded."
    )

    # Committed offsets
    offset_metadata_max_bytes: int = key(
        "offset.metadata.max.bytes", 4_096, at_least=0, doc="The longest text that a commit may carry."
    )
    offsets_commit_timeout_ms: int = key(
        "offsets.commit.timeout.ms", 5_000, at_least=1,
        doc="How long a commit, or any other change of a group, may take to reach the disks of all in-sync replicas.",
    )
    offsets_retention_minutes: int = key(
        "offsets.retention.minutes", 10_080, at_least=1,
        doc="How long offsets are kept after the last member has left; in a group without members, after the commit.",
    )
    offsets_retention_check_interval_ms: int = long(
        "offsets.retention.check.interval.ms", 600_000, at_least=1, doc="How often outdated offsets are looked for."
    )

    # Groups of the classic protocol
    group_min_session_timeout_ms: int = key(
        "group.min.session.timeout.ms", 6_000, at_least=1, doc="The shortest session that a member may ask for."
    )
    group_max_session_timeout_ms: int = key(
        "group.max.session.timeout.ms", 1_800_000, at_least=1, doc="The longest session that a member may ask for."
    )
    group_initial_rebalance_delay_ms: int = key(
        "group.initial.rebalance.delay.ms", 3_000, at_least=0,
        doc="How long an empty group waits for more members when the first one comes.",
    )
    group_max_size: int = key("group.max.size", INT_MAX, at_least=1, doc="Members of one group.")

    # Groups of the consumer protocol (KIP-848)
    group_coordinator_rebalance_protocols: tuple[str, ...] = key(
        "group.coordinator.rebalance.protocols", ("classic", "consumer", "streams"),
        choices=("classic", "consumer", "share", "streams"), note="streams and share groups are not there yet",
        doc="Which kinds of groups may be formed.",
    )
    group_consumer_session_timeout_ms: int = key(
        "group.consumer.session.timeout.ms", 45_000, at_least=1, doc="A member silent for so long is removed."
    )
    group_consumer_min_session_timeout_ms: int = key(
        "group.consumer.min.session.timeout.ms", 45_000, at_least=1, doc="The least that a group may have."
    )
    group_consumer_max_session_timeout_ms: int = key(
        "group.consumer.max.session.timeout.ms", 60_000, at_least=1, doc="The most that a group may have."
    )
    group_consumer_heartbeat_interval_ms: int = key(
        "group.consumer.heartbeat.interval.ms", 5_000, at_least=1, doc="How often members are asked for a sign of life."
    )
    group_consumer_min_heartbeat_interval_ms: int = key(
        "group.consumer.min.heartbeat.interval.ms", 5_000, at_least=1, doc="The least that a group may have."
    )
    group_consumer_max_heartbeat_interval_ms: int = key(
        "group.consumer.max.heartbeat.interval.ms", 15_000, at_least=1, doc="The most that a group may have."
    )
    group_consumer_max_size: int = key("group.consumer.max.size", INT_MAX, at_least=1, doc="Members of one group.")
    group_consumer_assignors: tuple[str, ...] = key(
        "group.consumer.assignors", ("uniform", "range"), choices=("uniform", "range"),
        doc="Who may share out partitions; the first one does unless a member asks for another.",
    )
    group_consumer_migration_policy: str = key(
        "group.consumer.migration.policy", "bidirectional",
        choices=("bidirectional", "upgrade", "downgrade", "disabled"),
        note="a group changes its protocol while it is empty, whatever is set here",
        doc="Whether a group may change its protocol while it has members.",
    )
    group_consumer_regex_refresh_interval_ms: int = key(
        "group.consumer.regex.refresh.interval.ms", 600_000, at_least=10_000,
        doc="How often the topics behind a regular expression are looked up even if no topic changed.",
    )
    group_consumer_assignment_interval_ms: int = key(
        "group.consumer.assignment.interval.ms", 1_000, at_least=0, update=Update.CLUSTER_WIDE,
        doc="The shortest time between two assignments of one group.",
    )
    group_consumer_min_assignment_interval_ms: int = key(
        "group.consumer.min.assignment.interval.ms", 0, at_least=0, doc="The least that a group may have."
    )
    group_consumer_max_assignment_interval_ms: int = key(
        "group.consumer.max.assignment.interval.ms", 15_000, at_least=0, doc="The most that a group may have."
    )

    # fmt: on
    @property
    def offsets_retention_ms(self) -> int:
        return minutes(self.offsets_retention_minutes)
