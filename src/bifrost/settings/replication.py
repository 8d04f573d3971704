"""What a node can be told about followers and leaders of partitions, those on the move included."""

from __future__ import annotations

from dataclasses import dataclass

from bifrost.settings.cleaning import CleanerSettings
from bifrost.settings.fields import LONG_MAX, key, long
from bifrost.settings.keys import Kind, Update


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationSettings(CleanerSettings):
    """A part of `Settings`."""

    # fmt: off
    replica_lag_time_max_ms: int = long(
        "replica.lag.time.max.ms", 30_000, at_least=1, doc="A follower this far behind leaves the ISR."
    )
    replica_fetch_max_bytes: int = key(
        "replica.fetch.max.bytes", 1_048_576, at_least=0, doc="How much of one partition a follower asks for at a time."
    )
    replica_fetch_response_max_bytes: int = key(
        "replica.fetch.response.max.bytes", 10_485_760, at_least=0,
        doc="How much a follower asks for at a time, in all.",
    )
    replica_fetch_wait_max_ms: int = key(
        "replica.fetch.wait.max.ms", 500, at_least=1, doc="How long a leader may wait for something to tell a follower."
    )
    replica_fetch_backoff_ms: int = key(
        "replica.fetch.backoff.ms", 1_000, at_least=0,
        doc="The longest pause before a follower asks again where it was refused; pauses begin much shorter.",
    )
    replica_socket_timeout_ms: int = key(
        "replica.socket.timeout.ms", 30_000, at_least=1, doc="How long a follower waits for its leader's answer."
    )
    replica_high_watermark_checkpoint_interval_ms: int = long(
        "replica.high.watermark.checkpoint.interval.ms", 5_000, at_least=1, doc="How often high watermarks are saved."
    )
    replica_selector_class: str | None = key(
        "replica.selector.class", None, kind=Kind.STRING,
        choices=(
            "org.apache.kafka.common.replica.LeaderSelector",
            "org.apache.kafka.common.replica.RackAwareReplicaSelector",
        ),
        doc="Which replica a consumer that says where it stands reads from: the leader, or one in its own rack.",
    )
    leader_forwarding_enable: bool = key(
        "leader.forwarding.enable", True, own=True, update=Update.CLUSTER_WIDE,
        doc="Pass a Produce or Fetch request on to the leader of its partition, where that is another node.",
    )
    auto_leader_rebalance_enable: bool = key(
        "auto.leader.rebalance.enable", True, doc="Let the first replica of a partition lead again when it is back."
    )
    leader_imbalance_check_interval_seconds: int = long(
        "leader.imbalance.check.interval.seconds", 300, at_least=1, doc="How often leaders are brought home."
    )
    leader_replication_throttled_rate: int = long(
        "leader.replication.throttled.rate", LONG_MAX, at_least=0, update=Update.PER_BROKER,
        doc="Bytes a second that this broker sends to followers which catch up, where topics list them as throttled.",
    )
    follower_replication_throttled_rate: int = long(
        "follower.replication.throttled.rate", LONG_MAX, at_least=0, update=Update.PER_BROKER,
        doc="Bytes a second that this broker fetches to catch up, where topics list its replicas as throttled.",
    )
    replica_alter_log_dirs_io_max_bytes_per_second: int = long(
        "replica.alter.log.dirs.io.max.bytes.per.second", LONG_MAX, at_least=0, update=Update.PER_BROKER,
        doc="Bytes a second that are copied of replicas which move to another directory of this broker.",
    )
    replica_catch_up_time_percent: int = key(
        "replica.catch.up.time.percent", 33, at_least=1, at_most=100, own=True, update=Update.CLUSTER_WIDE,
        doc="How much of the time a follower that catches up may take while others write; between pieces it rests.",
    )
    # fmt: on
