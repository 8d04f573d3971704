"""AlterPartition: a leader tells who is in sync with it, and the controller agrees or says why not.

The leader may count on a new ISR only once it is committed here, because the next leader will come from the committed
one. So whatever the leader did not know when it asked must be found out: every state of a partition has an epoch, every
start of a broker has one, and a request that names another is refused. Checks come in the order of Kafka's
ReplicationControlManager.validateAlterPartitionData, versions 2 and 3: topics by id, and in 3 the epochs of members
(KIP-903). A replica whose directory has failed is no member either, which Kafka does not check: were it the last one,
nobody could lead (`directories.py`).

The leader is a member of the new ISR and active, so it leads on, unless the new ISR ends a move of replicas by which
the leader goes (`moves.py`): then the ISR is taken, and the leader is told NEW_LEADER_ELECTED. The recovery state after
an unclean election (KIP-704) is not kept: a leader is recovered from the start.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bifrost.controller.core.brokers import UNKNOWN_EPOCH, check_registered
from bifrost.controller.core.decision import Decision
from bifrost.controller.core.image import Located, MetadataImage
from bifrost.controller.core.moves import Layout, partition_change
from bifrost.controller.core.records import NO_LEADER, PartitionChanged
from bifrost.controller.core.state import Partition
from bifrost.errors import ApiError, ErrorCode


class IsrMember(NamedTuple):
    """A broker in an ISR; its epoch as the leader knows it, which version 2 does not tell."""

    broker_id: int
    broker_epoch: int = UNKNOWN_EPOCH


class IsrChange(NamedTuple):
    """What the leader wants for one partition, and which state of it the leader knows."""

    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: Sequence[IsrMember]
    recovering: bool = False


class TopicIsrChanges(NamedTuple):
    """The partitions of one topic."""

    topic_id: bytes
    partitions: Sequence[IsrChange]


class ChangedPartition(NamedTuple):
    """The answer for one partition: its state from now on, or why nothing changed; the message is for our own log."""

    partition: int
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    leader: int = NO_LEADER
    leader_epoch: int = -1
    partition_epoch: int = -1
    isr: tuple[int, ...] = ()


class ChangedTopic(NamedTuple):
    """The answers for one topic, in the order of the request."""

    topic_id: bytes
    partitions: list[ChangedPartition]


def alter_partitions(
    image: MetadataImage, wanted: Sequence[TopicIsrChanges], *, broker_id: int, broker_epoch: int
) -> Decision[list[ChangedTopic]]:
    """Change each ISR that can be changed; ApiError(STALE_BROKER_EPOCH) if the asker is not who it was."""
    check_registered(image, broker_id=broker_id, broker_epoch=broker_epoch)
    live = image.active_brokers()
    changes: dict[tuple[bytes, int], PartitionChanged] = {}
    results = []
    for topic_id, partitions in wanted:
        answers = []
        for asked in partitions:
            try:
                if (topic_id, asked.partition) in changes:
                    raise ApiError(ErrorCode.INVALID_REQUEST, "it is named more than once")
                located = _find(image, topic_id, asked.partition)
                _check_epochs(located.state, asked, broker_id)
                _check_isr(image, located.state, asked)
            except ApiError as error:
                answers.append(ChangedPartition(asked.partition, error.code, error.detail))
                continue
            state = located.state
            members = {member.broker_id for member in asked.isr}
            layout = Layout(state.replicas, members, state.adding, state.removing)
            change = partition_change(image, located, layout, live)
            if change is not None:
                changes[topic_id, asked.partition] = change
            answers.append(_answer(located, change))
        results.append(ChangedTopic(topic_id, answers))
    return Decision([*changes.values()], results)


def _answer(located: Located, change: PartitionChanged | None) -> ChangedPartition:
    """The state from now on; a leader that leads no more is told only that."""
    _, partition, state = located
    if change is None:
        return ChangedPartition(
            partition,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
            isr=state.isr,
        )
    if change.leader not in (None, state.leader):
        return ChangedPartition(partition, ErrorCode.NEW_LEADER_ELECTED, f"broker {change.leader} leads from now on")
    return ChangedPartition(
        partition,
        leader=state.leader,
        leader_epoch=state.leader_epoch + (change.leader is not None),
        partition_epoch=state.partition_epoch + 1,
        isr=state.isr if change.isr is None else change.isr,
    )


def _find(image: MetadataImage, topic_id: bytes, partition: int) -> Located:
    topic = image.topics_by_id.get(topic_id)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID, "no topic has this id")
    if not 0 <= partition < len(topic.partitions):
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic.name} has no partition {partition}")
    return Located(topic, partition, topic.partitions[partition])


def _check_epochs(state: Partition, asked: IsrChange, broker_id: int) -> None:
    """Refuse whoever does not know the present state, or does not lead."""
    if asked.leader_epoch > state.leader_epoch or asked.partition_epoch > state.partition_epoch:
        # The leader has heard from a controller that knows more than this one, which therefore is not the active one.
        raise ApiError(ErrorCode.NOT_CONTROLLER, "the leader knows a later state than this controller")
    if asked.leader_epoch < state.leader_epoch:
        raise ApiError(ErrorCode.FENCED_LEADER_EPOCH, f"the leader epoch is {state.leader_epoch}")
    if broker_id != state.leader:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"broker {state.leader} leads")
    if asked.partition_epoch < state.partition_epoch:
        raise ApiError(ErrorCode.INVALID_UPDATE_VERSION, f"the partition epoch is {state.partition_epoch}")


def _check_isr(image: MetadataImage, state: Partition, asked: IsrChange) -> None:
    """Refuse an ISR that cannot be one, and members who might not have what the leader thinks they have."""
    members = [member.broker_id for member in asked.isr]
    if len(set(members)) < len(members) or not set(members) <= set(state.replicas):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{members} are not replicas, each of them once")
    if state.leader not in members:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"the leader is not in {members}")
    if asked.recovering:
        raise ApiError(ErrorCode.INVALID_REQUEST, "a leader that has recovered does not start over")
    for broker_id, broker_epoch in asked.isr:
        broker = image.brokers.get(broker_id)
        problem = None
        if broker is None:
            problem = "is not registered"
        elif broker.shutting_down:
            problem = "is shutting down"
        elif broker.fenced:
            problem = "is fenced"
        elif broker_epoch not in (UNKNOWN_EPOCH, broker.epoch):
            problem = f"has epoch {broker.epoch}, not {broker_epoch}"
        elif not broker.has_online(state.directory_of(broker_id)):
            problem = "has lost the directory of its replica, and has not said where there is another"
        if problem:
            raise ApiError(ErrorCode.INELIGIBLE_REPLICA, f"broker {broker_id} {problem}")
