"""AlterPartitionReassignments and ListPartitionReassignments: replicas on their way to other brokers (KIP-455).

A move begins by making the new brokers replicas beside the old ones; `moves.py` says when it ends. A move that is asked
for while another is under way replaces it, and to give up brings back what there was before the first one: Kafka keeps
what the first one had added. The order of replicas before the move is not kept, as in Kafka. Checks and their order are
those of Kafka's ReplicationControlManager.alterPartitionReassignment.

Deciding reads the image and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bifrost.controller.core.assignments import check_assignment
from bifrost.controller.core.configs import current_settings
from bifrost.controller.core.decision import Decision
from bifrost.controller.core.image import Located, MetadataImage
from bifrost.controller.core.moves import Layout, partition_change
from bifrost.controller.core.records import PartitionChanged
from bifrost.controller.core.state import Partition
from bifrost.controller.core.unclean_elections import allows_unclean
from bifrost.errors import ApiError, ErrorCode
from bifrost.settings import Settings


class WantedMove(NamedTuple):
    """The brokers that shall hold a partition, the first of which shall lead; None gives up a move."""

    partition: int
    replicas: Sequence[int] | None


class TopicMoves(NamedTuple):
    """The partitions of one topic."""

    topic: str
    partitions: Sequence[WantedMove]


class MoveResult(NamedTuple):
    """The answer for one partition."""

    partition: int
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


class TopicMoveResults(NamedTuple):
    """The answers for one topic, in the order of the request."""

    topic: str
    partitions: list[MoveResult]


class MovingTopic(NamedTuple):
    """The partitions of one topic whose replicas are on the move."""

    topic: str
    partitions: list[tuple[int, Partition]]


def alter_reassignments(
    image: MetadataImage,
    settings: Settings,
    wanted: Sequence[TopicMoves],
    *,
    allow_replication_factor_change: bool = True,
) -> Decision[list[TopicMoveResults]]:
    """Begin, replace or give up the moves that can be; each partition is answered for itself."""
    live = image.active_brokers()
    changes: dict[tuple[str, int], PartitionChanged | None] = {}
    results = []
    for name, moves in wanted:
        answers = []
        for partition, replicas in moves:
            try:
                if (name, partition) in changes:
                    raise ApiError(ErrorCode.INVALID_REQUEST, "it is named more than once")
                located = _find(image, name, partition)
                if replicas is None:
                    layout = _without_move(image, settings, located)
                else:
                    check_assignment(image, partition, replicas)
                    if not allow_replication_factor_change:
                        _check_count(located, replicas)
                    layout = _with_move(located.state, tuple(replicas))
                changes[name, partition] = partition_change(image, located, layout, live)
                answers.append(MoveResult(partition))
            except ApiError as error:
                answers.append(MoveResult(partition, error.code, error.detail))
        results.append(TopicMoveResults(name, answers))
    return Decision([change for change in changes.values() if change is not None], results)


def list_reassignments(image: MetadataImage, wanted: Mapping[str, Sequence[int]] | None) -> Decision[list[MovingTopic]]:
    """The moves under way, all of them or those of named partitions; what does not move is not mentioned."""
    moving: dict[str, MovingTopic] = {}
    for topic, partition, state in image.locate(image.index.moving):
        if wanted is None or partition in wanted.get(topic.name, ()):
            moving.setdefault(topic.name, MovingTopic(topic.name, [])).partitions.append((partition, state))
    return Decision((), list(moving.values()))


def _find(image: MetadataImage, name: str, partition: int) -> Located:
    state = image.partition(name, partition)
    if state is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {name}-{partition}")
    return Located(image.topics[name], partition, state)


def _check_count(located: Located, replicas: Sequence[int]) -> None:
    """KIP-860: as many as there are, or as there shall be after the move that is under way."""
    count = len(located.state.target)
    if len(replicas) != count:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"{located.topic.name}-{located.partition} has {count} replicas; {len(replicas)} would change that",
        )


def _with_move(state: Partition, target: tuple[int, ...]) -> Layout:
    """Both the old and the new: what is to stay first, in its order."""
    removing = tuple(sorted(broker for broker in state.replicas if broker not in target))
    replicas = target + removing
    adding = tuple(sorted(broker for broker in replicas if broker not in state.origin))
    return Layout(replicas, state.isr, adding, removing)


def _without_move(image: MetadataImage, settings: Settings, located: Located) -> Layout:
    """What there was before. Where only new replicas are in sync that would lose writes, so a topic must allow it."""
    topic, partition, state = located
    if not state.is_moving:
        raise ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, f"{topic.name}-{partition} does not move")
    origin = state.origin
    isr = tuple(broker for broker in state.isr if broker not in state.adding)
    if not isr:
        if not allows_unclean(image, current_settings(image, settings), topic.name):
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"only new replicas of {topic.name}-{partition} are in sync; to give them up takes an unclean election",
            )
        live = image.active_brokers()
        isr = (next((broker for broker in origin if broker in live), origin[0]),)
    return Layout(origin, isr)
