"""Brokers joining the cluster, and leaving it for good.

A start of a broker is an incarnation, and its registration has an epoch of its own. In a cluster of several a start is
registered fenced and heartbeats unfence it; the only node of a cluster takes part at once. Two processes under one id
are told apart by their incarnations: while one of them lives, the other is refused. Whether it lives is a question of
time, so the caller answers it (`heartbeats.py`).

Deciding reads the image and changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from bifrost.controller.core.decision import Decision
from bifrost.controller.core.elections import broker_leaves, broker_restarts
from bifrost.controller.core.image import MetadataImage
from bifrost.controller.core.records import BrokerRegistered, BrokerUnregistered, Endpoint, MetadataRecord
from bifrost.controller.core.state import RESERVED_DIRECTORIES, Broker
from bifrost.errors import ApiError, ErrorCode

UNKNOWN_EPOCH = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What a broker says of itself when it starts.

    `previous_epoch` is what it wrote down when it stopped in order; a broker that did not has none (KIP-966).
    """

    broker_id: int
    cluster_id: str
    incarnation: bytes
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    previous_epoch: int = UNKNOWN_EPOCH
    directories: tuple[bytes, ...] = ()  # the ids of its log directories, those that work


def register_broker(
    image: MetadataImage, asked: Registration, *, fenced: bool = False, session_alive: bool = False
) -> Decision[None]:
    """Register a start of a broker. Its epoch is in the image once this is committed.

    `session_alive` says whether the incarnation that is registered was heard of within its session.
    """
    if asked.cluster_id != image.cluster_id:
        raise ApiError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"broker {asked.broker_id} belongs to cluster {asked.cluster_id}, not to {image.cluster_id}",
        )
    known = image.brokers.get(asked.broker_id)
    if known is not None and known.incarnation != asked.incarnation and known.active and session_alive:
        # One that shuts down may be replaced before its session is over (KAFKA-19047).
        raise ApiError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            f"broker {asked.broker_id} is running already; if that one has just died, try again when its session ends",
        )
    if not asked.endpoints:
        raise ApiError(ErrorCode.INVALID_REGISTRATION, f"broker {asked.broker_id} has no listener to be reached at")
    _check_directories(image, asked)
    if known is not None and known.incarnation == asked.incarnation:
        return Decision((), None)  # the answer to an earlier try was lost
    records: list[MetadataRecord] = [
        BrokerRegistered(
            asked.broker_id, asked.incarnation, asked.endpoints, asked.rack, fenced, directories=asked.directories
        )
    ]
    if fenced:
        # Also after a clean stop: what its predecessor led needs a leader while this one is fenced.
        records += broker_leaves(image, asked.broker_id)
    else:
        clean = _stopped_in_order(known, asked)
        records += broker_restarts(image, asked.broker_id, clean=clean, directories=asked.directories)
    return Decision(records, None)


def unregister_broker(image: MetadataImage, broker_id: int) -> Decision[None]:
    """Forget a broker, live or not; replicas that it holds stay assigned to it (Kafka: handleBrokerUnregistered)."""
    known = image.brokers.get(broker_id)
    if known is None:
        raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {broker_id} is not registered")
    return Decision([*broker_leaves(image, broker_id), BrokerUnregistered(broker_id, known.epoch)], None)


def check_registered(image: MetadataImage, *, broker_id: int, broker_epoch: int) -> Broker:
    """Refuse a broker that is unknown, or that is an earlier start of the one that is registered.

    One code for both, as from Kafka's ClusterControlManager.checkBrokerEpoch: either has to register again.
    """
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise ApiError(ErrorCode.STALE_BROKER_EPOCH, f"broker {broker_id} is not registered")
    if broker.epoch != broker_epoch:
        raise ApiError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"broker {broker_id} is registered with epoch {broker.epoch}, not {broker_epoch}",
        )
    return broker


def _check_directories(image: MetadataImage, asked: Registration) -> None:
    """Each directory is one broker's: two that claim the same id have a copied disk (KIP-858)."""
    problem = None
    if len(set(asked.directories)) < len(asked.directories):
        problem = "names a log directory twice"
    elif any(int.from_bytes(directory) < RESERVED_DIRECTORIES for directory in asked.directories):
        problem = "names a log directory by an id that is nobody's"
    for other in image.brokers.values():
        if other.broker_id != asked.broker_id and set(other.directories).intersection(asked.directories):
            problem = f"has the same log directory as broker {other.broker_id}"
    if problem is not None:
        raise ApiError(ErrorCode.INVALID_REGISTRATION, f"broker {asked.broker_id} {problem}")


def _stopped_in_order(known: Broker | None, asked: Registration) -> bool:
    return known is not None and known.epoch == asked.previous_epoch
