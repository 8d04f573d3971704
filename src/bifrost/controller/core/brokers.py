"""Brokers joining the cluster.

A start of a broker is an incarnation. A new incarnation may have lost what its predecessor had not flushed, so every
partition it leads gets a new leader epoch: whoever still believes in the old one is found out (KIP-101).
"""

from __future__ import annotations

from dataclasses import dataclass

from bifrost.controller.core.decision import Decision
from bifrost.controller.core.image import MetadataImage
from bifrost.controller.core.records import BrokerRegistered, Endpoint, MetadataRecord, PartitionChanged
from bifrost.errors import ApiError, ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What a broker says of itself when it starts."""

    broker_id: int
    cluster_id: str
    incarnation: bytes
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None


def register_broker(image: MetadataImage, asked: Registration) -> Decision[None]:
    """Register a start of a broker. Its epoch is in the image once this is committed."""
    if asked.cluster_id != image.cluster_id:
        raise ApiError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"broker {asked.broker_id} belongs to cluster {asked.cluster_id}, not to {image.cluster_id}",
        )
    if not asked.endpoints:
        raise ApiError(ErrorCode.INVALID_REGISTRATION, f"broker {asked.broker_id} has no listener to be reached at")
    known = image.brokers.get(asked.broker_id)
    if known is not None and known.incarnation == asked.incarnation:
        return Decision((), None)  # the answer to an earlier try was lost
    records: list[MetadataRecord] = [BrokerRegistered(asked.broker_id, asked.incarnation, asked.endpoints, asked.rack)]
    return Decision(records + _renewed_leaderships(image, asked.broker_id), None)


def check_registered(image: MetadataImage, *, broker_id: int, broker_epoch: int) -> None:
    """Refuse a broker that is unknown, or that is an earlier start of the one that is registered."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {broker_id} is not registered")
    if broker.epoch != broker_epoch:
        raise ApiError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"broker {broker_id} is registered with epoch {broker.epoch}, not {broker_epoch}",
        )


def _renewed_leaderships(image: MetadataImage, broker_id: int) -> list[MetadataRecord]:
    """A new epoch for each partition that this broker leads, or can lead now that it is back."""
    return [
        PartitionChanged(topic.topic_id, index, leader=broker_id)
        for topic in image.topics.values()
        for index, partition in enumerate(topic.partitions)
        if partition.leader == broker_id or (not partition.has_leader and broker_id in partition.isr)
    ]
