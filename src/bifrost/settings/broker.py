"""Every setting of a node, under Kafka's own name and with Kafka's default unless its text says otherwise.

Code reads attributes; files, the command line and the wire use the names. Consumer groups, replication and compaction
have files of their own, `coordinator.py`, `replication.py` and `cleaning.py`. The defaults that topics inherit are
declared there and here: `topic.py` says which topic config takes which. Nothing here reads a file or the environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from functools import cache
from posixpath import normpath
from typing import Any

from bifrost.settings.connections import ConnectionSettings
from bifrost.settings.fields import LATER, LONG_MAX, key, long
from bifrost.settings.keys import Key, Kind, Update, Value
from bifrost.settings.listeners import HttpListener, Listener, read_http_listener, read_listeners

CLUSTER_WIDE = Update.CLUSTER_WIDE

_FLUSH = "flush.policy alone decides when data reaches the disk"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(ConnectionSettings):
    """The settings of one node. `parse_settings` makes one from text."""

    # What was set on purpose, by name, as canonical text; this is how DescribeConfigs tells a setting from a default.
    given: Mapping[str, str] = field(default_factory=dict, compare=False)

    # fmt: off
    # The node and its place in the cluster
    node_id: int = key("node.id", 1, at_least=0, doc="The number of this node; no two nodes of a cluster share one.")
    process_roles: tuple[str, ...] = key(
        "process.roles", ("broker", "controller"), choices=("broker", "controller"), doc="What this node is."
    )
    broker_rack: str | None = key("broker.rack", None, kind=Kind.STRING, doc="Where it stands, for clients that care.")
    listeners: tuple[str, ...] = key(
        "listeners", ("PLAINTEXT://:9092",),
        doc="Where to listen, as NAME://HOST:PORT. No host: every interface. Port 0: one that is free.",
    )
    advertised_listeners: tuple[str, ...] | None = key(
        "advertised.listeners", None, kind=Kind.LIST, doc="What clients are told to connect to. Default: the listeners."
    )
    listener_security_protocol_map: str = key(
        "listener.security.protocol.map",
        "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
        doc="Which protocol each listener name speaks, as NAME:PROTOCOL.",
    )
    inter_broker_listener_name: str | None = key(
        "inter.broker.listener.name", None, kind=Kind.STRING, doc="The listener that brokers use among themselves."
    )
    controller_listener_names: tuple[str, ...] = key(
        "controller.listener.names", ("CONTROLLER",), doc="The listeners that carry the metadata quorum, not clients."
    )
    controller_quorum_voters: tuple[str, ...] = key(
        "controller.quorum.voters", (), pattern=r"[0-9]+@.+:[0-9]+", doc="The controllers, as ID@HOST:PORT."
    )
    controller_quorum_bootstrap_servers: tuple[str, ...] = key(
        "controller.quorum.bootstrap.servers", (),
        doc="Kafka 4 asks there who votes. Nobody is asked here: without controller.quorum.voters it is refused, unless"
            " it names this node alone.",
    )

    # Where data lives and when it is safe
    log_dir: tuple[str, ...] = key(
        "log.dir", ("bifrost-data",), doc="The data directory when log.dirs is not set. (Kafka: a folder under /tmp.)"
    )
    log_dirs: tuple[str, ...] | None = key("log.dirs", None, kind=Kind.LIST, doc="The data directories.")
    log_dir_failure_timeout_ms: int = long(
        "log.dir.failure.timeout.ms", 30_000, at_least=1,
        doc="A node stops that could not tell the controller for so long that one of its log directories has failed.",
    )
    metadata_log_dir: str | None = key(
        "metadata.log.dir", None, kind=Kind.STRING, doc="The metadata log's directory. Default: the first of log.dirs."
    )
    flush_policy: str = key(
        "flush.policy", "ack", choices=("ack", "os", "memory"), own=True,
        doc="When a write counts: `ack` once it is on the disk, `os` once the page cache has it (as Kafka does), "
        "`memory` keeps no files at all.",
    )

    # Topics
    auto_create_topics_enable: bool = key(
        "auto.create.topics.enable", True, doc="Create a topic when a client first asks for it."
    )
    delete_topic_enable: bool = key("delete.topic.enable", True, doc="Allow topics to be deleted.")
    num_partitions: int = key("num.partitions", 1, at_least=1, doc="Partitions of a topic that does not say how many.")
    default_replication_factor: int = key(
        "default.replication.factor", 1, at_least=1, doc="Replicas of a partition that does not say how many."
    )
    min_insync_replicas: int = key(
        "min.insync.replicas", 1, at_least=1, update=CLUSTER_WIDE, doc="Replicas that must have a write of acks=all."
    )
    unclean_leader_election_enable: bool = key(
        "unclean.leader.election.enable", False, update=CLUSTER_WIDE,
        doc="Let a replica that may lack acknowledged writes lead when no other is left.",
    )

    # Records
    message_max_bytes: int = key(
        "message.max.bytes", 1_048_588, at_least=0, update=CLUSTER_WIDE, doc="The largest record batch accepted."
    )
    compression_type: str = key(
        "compression.type", "producer", choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        update=CLUSTER_WIDE, doc="How batches are stored; `producer` keeps them as they come.",
    )
    compression_gzip_level: int = key(
        "compression.gzip.level", -1, at_least=1, at_most=9, also=-1, update=CLUSTER_WIDE, doc="For gzip."
    )
    compression_lz4_level: int = key(
        "compression.lz4.level", 9, at_least=1, at_most=17, update=CLUSTER_WIDE, doc="For lz4."
    )
    compression_zstd_level: int = key(
        "compression.zstd.level", 3, at_least=-131_072, at_most=22, update=CLUSTER_WIDE, doc="For zstd."
    )
    log_message_timestamp_type: str = key(
        "log.message.timestamp.type", "CreateTime", choices=("CreateTime", "LogAppendTime"), update=CLUSTER_WIDE,
        doc="Whose clock stamps records: the producer's or this node's.",
    )
    log_message_timestamp_before_max_ms: int = long(
        "log.message.timestamp.before.max.ms", LONG_MAX, at_least=0, update=CLUSTER_WIDE,
        doc="How far in the past a producer's timestamp may lie.",
    )
    log_message_timestamp_after_max_ms: int = long(
        "log.message.timestamp.after.max.ms", 3_600_000, at_least=0, update=CLUSTER_WIDE,
        doc="How far in the future a producer's timestamp may lie.",
    )
    producer_id_expiration_ms: int = key(
        "producer.id.expiration.ms", 86_400_000, at_least=1, update=CLUSTER_WIDE,
        doc="An idempotent producer silent for so long is forgotten.",
    )

    # Segments
    log_segment_bytes: int = key(
        "log.segment.bytes", 1 << 30, at_least=1 << 20, update=CLUSTER_WIDE, doc="Start a new segment at this size."
    )
    log_roll_ms: int | None = long(
        "log.roll.ms", None, at_least=1, update=CLUSTER_WIDE, doc="Start a new segment at this age."
    )
    log_roll_hours: int = key("log.roll.hours", 168, at_least=1, doc="The same in hours, unless log.roll.ms is set.")
    log_roll_jitter_ms: int | None = long(
        "log.roll.jitter.ms", None, at_least=0, update=CLUSTER_WIDE,
        doc="At most this much is taken off the age, so that segments do not all roll at once.",
    )
    log_roll_jitter_hours: int = key(
        "log.roll.jitter.hours", 0, at_least=0, doc="The same in hours, unless log.roll.jitter.ms is set."
    )
    log_index_interval_bytes: int = key(
        "log.index.interval.bytes", 4_096, at_least=0, update=CLUSTER_WIDE, doc="Bytes of data per index entry."
    )
    log_index_size_max_bytes: int = key(
        "log.index.size.max.bytes", 10 << 20, at_least=4, update=CLUSTER_WIDE, doc="The largest index of a segment."
    )
    log_preallocate: bool = key(
        "log.preallocate", False, update=CLUSTER_WIDE, note=LATER, doc="Reserve a segment's space when it is made."
    )
    log_flush_interval_messages: int = long(
        "log.flush.interval.messages", LONG_MAX, at_least=1, update=CLUSTER_WIDE, note=_FLUSH, doc="See flush.policy."
    )
    log_flush_interval_ms: int | None = long(
        "log.flush.interval.ms", None, at_least=0, update=CLUSTER_WIDE, note=_FLUSH, doc="See flush.policy."
    )
    log_flush_scheduler_interval_ms: int = long(
        "log.flush.scheduler.interval.ms", LONG_MAX, note=_FLUSH, doc="See flush.policy."
    )
    log_flush_offset_checkpoint_interval_ms: int = key(
        "log.flush.offset.checkpoint.interval.ms", 60_000, at_least=0, doc="How often recovery points are saved."
    )
    log_flush_start_offset_checkpoint_interval_ms: int = key(
        "log.flush.start.offset.checkpoint.interval.ms", 60_000, at_least=0,
        doc="How often Kafka saves log starts. Here they are saved as they move.",
    )

    # Retention; compaction is in `cleaning.py`
    log_cleanup_policy: tuple[str, ...] = key(
        "log.cleanup.policy", ("delete",), choices=("compact", "delete"), update=CLUSTER_WIDE,
        doc="What happens to old data: deleted by age and size, compacted by key, or both.",
    )
    log_retention_ms: int | None = long(
        "log.retention.ms", None, at_least=1, also=-1, update=CLUSTER_WIDE, doc="Keep data for so long."
    )
    log_retention_minutes: int | None = key(
        "log.retention.minutes", None, kind=Kind.INT, at_least=1, also=-1,
        doc="The same in minutes, unless log.retention.ms is set.",
    )
    log_retention_hours: int = key(
        "log.retention.hours", 168, at_least=1, also=-1, doc="The same in hours, unless one above is set."
    )
    log_retention_bytes: int = long(
        "log.retention.bytes", -1, update=CLUSTER_WIDE, doc="Keep so much of a partition; -1 for all."
    )
    log_retention_check_interval_ms: int = long(
        "log.retention.check.interval.ms", 300_000, at_least=1, doc="How often old segments are sought."
    )
    log_initial_task_delay_ms: int = long(
        "log.initial.task.delay.ms", 30_000, at_least=0, doc="How long after the start they are first sought."
    )
    log_segment_delete_delay_ms: int = long(
        "log.segment.delete.delay.ms", 60_000, at_least=0, update=CLUSTER_WIDE,
        doc="How long the files of a deleted topic or segment stay on disk.",
    )
    log_local_retention_bytes: int = long(
        "log.local.retention.bytes", -2, at_least=-2, update=CLUSTER_WIDE, note=LATER, doc="For tiered storage."
    )
    log_local_retention_ms: int = long(
        "log.local.retention.ms", -2, at_least=-2, update=CLUSTER_WIDE, note=LATER, doc="For tiered storage."
    )

    # The metadata log
    metadata_log_segment_bytes: int = key(
        "metadata.log.segment.bytes", 1 << 30, at_least=8 << 20, doc="Start a new metadata segment at this size."
    )
    metadata_log_segment_ms: int = long(
        "metadata.log.segment.ms", 604_800_000, at_least=1, doc="Start a new metadata segment at this age."
    )
    metadata_log_max_record_bytes_between_snapshots: int = long(
        "metadata.log.max.record.bytes.between.snapshots", 20 << 20, at_least=1,
        doc="Write a snapshot of the metadata once so much was committed since the last one.",
    )
    metadata_log_max_snapshot_interval_ms: int = long(
        "metadata.log.max.snapshot.interval.ms", 3_600_000, at_least=0,
        doc="Write a snapshot of the metadata this long after the last one, if anything has changed; 0 is never.",
    )
    controller_quorum_election_timeout_ms: int = key(
        "controller.quorum.election.timeout.ms", 1_000, at_least=1,
        doc="How long a voter that knows of no leader waits before it asks for support, and for votes.",
    )
    controller_quorum_election_backoff_max_ms: int = key(
        "controller.quorum.election.backoff.max.ms", 1_000, at_least=1,
        doc="The longest pause between two attempts to be elected.",
    )
    controller_quorum_fetch_timeout_ms: int = key(
        "controller.quorum.fetch.timeout.ms", 2_000, at_least=1,
        doc="How long a leader may be silent before another is looked for. A dead one is noticed at once.",
    )
    controller_quorum_request_timeout_ms: int = key(
        "controller.quorum.request.timeout.ms", 2_000, at_least=1,
        doc="How long controllers wait for each other's answers.",
    )
    controller_quorum_retry_backoff_ms: int = key(
        "controller.quorum.retry.backoff.ms", 20, at_least=1, doc="The pause before a controller is asked again."
    )
    controller_quorum_fetch_max_bytes: int = key(
        "controller.quorum.fetch.max.bytes", 1 << 20, at_least=1, doc="Metadata in one answer to a fetch."
    )
    controller_quorum_fetch_snapshot_max_bytes: int = key(
        "controller.quorum.fetch.snapshot.max.bytes", 1 << 20, at_least=1, doc="Bytes of a snapshot in one answer."
    )
    broker_session_timeout_ms: int = key(
        "broker.session.timeout.ms", 9_000, at_least=1,
        doc="A broker that is silent for so long is fenced. One whose process ends is fenced at once. It has to be the "
        "same on all nodes: a broker counts on its own value when it accepts writes that it alone acknowledges "
        "(acks=0 and 1), and where that is larger than the controllers' such writes may be lost.",
    )
    broker_heartbeat_interval_ms: int = key(
        "broker.heartbeat.interval.ms", 2_000, at_least=1, doc="How often a broker tells the controller that it lives."
    )
    controller_max_pending_requests: int = key(
        "controller.max.pending.requests", 10_000, at_least=1, own=True,
        doc="Changes that may wait for the controller; more are answered with THROTTLING_QUOTA_EXCEEDED.",
    )

    # Connections and requests
    socket_request_max_bytes: int = key(
        "socket.request.max.bytes", 100 << 20, at_least=1, doc="A larger request closes its connection."
    )
    request_max_bytes: int = key(
        "request.max.bytes", 4 << 20, at_least=1_024, own=True,
        doc="So does a larger one that carries no records: reading it would keep all other clients waiting.",
    )
    socket_send_buffer_bytes: int = key(
        "socket.send.buffer.bytes", 102_400, at_least=1, also=-1, doc="SO_SNDBUF; -1 leaves it to the system."
    )
    socket_receive_buffer_bytes: int = key(
        "socket.receive.buffer.bytes", -1, at_least=1, also=-1,
        doc="SO_RCVBUF; -1 leaves it to the system. (Kafka: 102400, at a third less rate of large requests.)",
    )
    socket_listen_backlog_size: int = key(
        "socket.listen.backlog.size", 50, at_least=1, doc="Connections that may wait to be accepted."
    )
    queued_max_request_bytes: int = long(
        "queued.max.request.bytes", 512 << 20, at_least=1 << 20,
        doc="Memory for requests that have not fully arrived; beyond it the slowest client goes. (Kafka: no limit.)",
    )
    connection_max_inflight_requests: int = key(
        "connection.max.inflight.requests", 100, at_least=1, own=True,
        doc="Unanswered requests of one connection; beyond it the connection is not read.",
    )
    connection_max_unsent_bytes: int = key(
        "connection.max.unsent.bytes", 1 << 20, at_least=1, own=True,
        doc="Bytes of answers that one client may leave unread before the connection is not read any more.",
    )
    fetch_max_bytes: int = key("fetch.max.bytes", 55 << 20, at_least=1_024, doc="The most a fetch answer carries.")
    max_incremental_fetch_session_cache_slots: int = key(
        "max.incremental.fetch.session.cache.slots", 1_000, at_least=0, doc="Fetch sessions kept at once."
    )
    max_request_partition_size_limit: int = key(
        "max.request.partition.size.limit", 2_000, at_least=1, doc="Partitions in one DescribeTopicPartitions answer."
    )

    # fmt: on
    @property
    def log_directories(self) -> tuple[str, ...]:
        """Where data lives: log.dirs, else log.dir. One spelling each: paths of files must lead back to them."""
        return tuple(map(normpath, self.log_dirs or self.log_dir))

    @property
    def metadata_directory(self) -> str:
        """The directory that holds the metadata log's own folder."""
        return normpath(self.metadata_log_dir or self.log_directories[0])

    @property
    def broker_listeners(self) -> tuple[Listener, ...]:
        """The listeners for clients and other brokers, in the order given."""
        return tuple(one for one in self._all_listeners() if not self._is_controller(one))

    @property
    def controller_listeners(self) -> tuple[Listener, ...]:
        """The listeners for the metadata quorum."""
        return tuple(one for one in self._all_listeners() if self._is_controller(one))

    @property
    def advertised(self) -> tuple[Listener, ...]:
        """What clients are told, one for each broker listener; an empty host or port 0 is the node's to fill in."""
        if not self.advertised_listeners:
            return self.broker_listeners
        protocols = self.listener_security_protocol_map
        listed = read_listeners("advertised.listeners", self.advertised_listeners, protocols)
        return tuple(one for one in listed if not self._is_controller(one))

    @property
    def http(self) -> HttpListener | None:
        """Where this node speaks HTTP, if it does: only controllers do."""
        if not self.http_listener or "controller" not in self.process_roles:
            return None
        return read_http_listener(self.http_listener)

    @property
    def inter_broker_listener(self) -> str:
        """The name of the listener that brokers use among themselves: the first one unless it is named."""
        return (self.inter_broker_listener_name or self.broker_listeners[0].name).upper()

    def value(self, name: str) -> Value:
        """The value under Kafka's name; KeyError for a name that is not one of ours."""
        value: Value = getattr(self, attribute_names()[name])
        return value

    def _all_listeners(self) -> tuple[Listener, ...]:
        return read_listeners("listeners", self.listeners, self.listener_security_protocol_map)

    def _is_controller(self, listener: Listener) -> bool:
        return any(listener.name == name.upper() for name in self.controller_listener_names)


def _declared() -> list[Field[Any]]:
    """What inheritance puts first comes last: a page about settings starts with the node."""
    inherited = {one.name for one in fields(ConnectionSettings)}
    return sorted((one for one in fields(Settings) if "key" in one.metadata), key=lambda one: one.name in inherited)


@cache
def keys() -> dict[str, Key]:
    """Every setting by name."""
    return {one.metadata["key"].name: one.metadata["key"] for one in _declared()}


@cache
def attribute_names() -> dict[str, str]:
    """From Kafka's name to the attribute that holds it."""
    return {one.metadata["key"].name: one.name for one in _declared()}
