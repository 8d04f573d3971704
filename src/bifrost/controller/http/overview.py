"""Answers that are made of more than the image: where the quorum stands, how far partitions go. Pure."""

from __future__ import annotations

import msgspec

from bifrost.controller.core.image import MetadataImage
from bifrost.controller.http.side import ClusterSide
from bifrost.controller.http.views import names_after
from bifrost.protocol.messages.quorum import DescribeQuorumPartitionResult, ReplicaState


class ClusterView(msgspec.Struct):
    cluster_id: str | None
    node: int
    role: str
    active_controller: int | None
    """As far as this Odin knows; /v1/quorum asks the active one itself."""
    controller_epoch: int
    brokers_alive: int
    brokers_fenced: int
    topics: int
    partitions: int
    partitions_without_leader: int
    partitions_under_replicated: int
    metadata_offset: int


class ReplicaView(msgspec.Struct):
    node: int
    log_end_offset: int
    lag: int
    last_fetch_ms: int | None
    last_caught_up_ms: int | None


class QuorumView(msgspec.Struct):
    leader: int
    epoch: int
    high_watermark: int
    voters: list[ReplicaView]
    observers: list[ReplicaView]


class SeqView(msgspec.Struct):
    topic: str
    seq: list[int]
    """By partition, the end offset: everything below it is committed, and there is nothing to read behind it yet."""
    total: int


class SeqsView(msgspec.Struct):
    seq: dict[str, list[int]]
    """By topic and partition."""
    waiting_for: list[str]
    """Topics with a partition that nobody leads at the moment."""
    next_after: str | None


def cluster_view(side: ClusterSide) -> ClusterView:
    image, counts, standing = side.image, side.counts, side.standing()
    fenced = sum(one.fenced for one in image.brokers.values())
    return ClusterView(
        cluster_id=image.cluster_id,
        node=side.node_id,
        role=standing.role,
        active_controller=standing.leader,
        controller_epoch=standing.epoch,
        brokers_alive=len(image.brokers) - fenced,
        brokers_fenced=fenced,
        topics=len(image.topics),
        partitions=counts.partitions,
        partitions_without_leader=counts.without_leader,
        partitions_under_replicated=counts.under_replicated,
        metadata_offset=image.offset,
    )


def quorum_view(told: DescribeQuorumPartitionResult) -> QuorumView:
    end = max((one.log_end_offset for one in told.current_voters), default=0)
    return QuorumView(
        told.leader_id,
        told.leader_epoch,
        told.high_watermark,
        [_replica_view(one, end) for one in told.current_voters],
        [_replica_view(one, end) for one in told.observers],
    )


def seq_view(topic: str, seq: list[int]) -> SeqView:
    return SeqView(topic, seq, sum(seq))


def led_topics(image: MetadataImage, after: str, limit: int) -> tuple[list[str], list[str], str | None]:
    """A page of topics: those whose every partition has a leader, and the others."""
    names, next_after = names_after(image.topics, after, limit)
    led = [name for name in names if all(one.has_leader for one in image.topics[name].partitions)]
    return led, [name for name in names if name not in set(led)], next_after


def _replica_view(one: ReplicaState, end: int) -> ReplicaView:
    return ReplicaView(
        one.replica_id,
        one.log_end_offset,
        max(0, end - one.log_end_offset),
        _moment(one.last_fetch_timestamp),
        _moment(one.last_caught_up_timestamp),
    )


def _moment(timestamp_ms: int) -> int | None:
    return None if timestamp_ms < 0 else timestamp_ms
