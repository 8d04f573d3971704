"""Which of a broker's log directories holds which replica (KIP-858), and what follows when one of them fails.

A broker that has one directory need not say where its replicas are; one that has several says so once they are there
(`assign_directories`). When a directory fails, the broker's next heartbeat tells: replicas in it lead no more and leave
every ISR that has other members, and the rest of the broker goes on. A replica of which nobody has said where it is
counts as sound until its broker says so (Kafka: ReplicationControlManager.handleDirectoriesOffline,
handleAssignReplicasToDirs).

One thing is not as in Kafka. Where a replica is the only one in sync and its directory is gone, another directory with
a new and empty log does not make it fit to lead: nobody has what was acknowledged, and only an unclean election says
that this does not matter. So the lost directory stays on record.

Deciding reads the image and changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from bifrost.controller.core.brokers import check_registered
from bifrost.controller.core.decision import Decision
from bifrost.controller.core.elections import without
from bifrost.controller.core.image import Located, MetadataImage
from bifrost.controller.core.records import BrokerDirectoriesChanged, MetadataRecord, PartitionChanged
from bifrost.controller.core.state import LOST_DIRECTORY, Broker, Partition
from bifrost.errors import ApiError, ErrorCode


class Assigned(NamedTuple):
    """A replica, and the directory of its broker that it is in."""

    directory: bytes
    topic_id: bytes
    partition: int


def directories_fail(image: MetadataImage, broker: Broker, failed: Collection[bytes]) -> list[MetadataRecord]:
    """These directories of the broker work no more; nothing if that is known, or if they are not its own."""
    lost = frozenset(failed).intersection(broker.directories)
    if not lost:
        return []
    left = tuple(directory for directory in broker.directories if directory not in lost)
    records: list[MetadataRecord] = [BrokerDirectoriesChanged(broker.broker_id, left or (LOST_DIRECTORY,))]
    for located in image.locate(image.index.in_sync(broker.broker_id)):
        if located.state.directory_of(broker.broker_id) in lost:
            records += _replica_fails(image, located, broker.broker_id)
    return records


def assign_directories(
    image: MetadataImage, wanted: Sequence[Assigned], *, broker_id: int, broker_epoch: int
) -> Decision[list[ErrorCode]]:
    """Take a broker's word for where its replicas are; one answer for each, in order."""
    broker = check_registered(image, broker_id=broker_id, broker_epoch=broker_epoch)
    changes: dict[tuple[bytes, int], PartitionChanged] = {}
    answers = []
    for directory, topic_id, partition in wanted:
        try:
            located = _find(image, topic_id, partition, broker_id)
        except ApiError as error:
            answers.append(error.code)
            continue
        answers.append(ErrorCode.NONE)
        changes.pop((topic_id, partition), None)  # the last word counts
        change = _assign(image, located, broker, directory)
        if change is not None:
            changes[topic_id, partition] = change
    return Decision([*changes.values()], answers)


def _find(image: MetadataImage, topic_id: bytes, partition: int, broker_id: int) -> Located:
    topic = image.topics_by_id.get(topic_id)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
    if not 0 <= partition < len(topic.partitions):
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    state = topic.partitions[partition]
    if broker_id not in state.replicas:
        raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return Located(topic, partition, state)


def _assign(image: MetadataImage, located: Located, broker: Broker, directory: bytes) -> PartitionChanged | None:
    topic, partition, state = located
    before = state.directory_of(broker.broker_id)
    if before == directory or (state.isr == (broker.broker_id,) and not broker.has_online(before)):
        return None
    directories = with_directory(state, broker.broker_id, directory)
    leader, isr = None, None
    if not broker.has_online(directory) and broker.broker_id in state.isr:
        leader, isr = without(image, state, broker.broker_id)
    return PartitionChanged(topic.topic_id, partition, leader, isr, directories=directories)


def _replica_fails(image: MetadataImage, located: Located, broker_id: int) -> Iterable[PartitionChanged]:
    topic, partition, state = located
    outcome = without(image, state, broker_id)
    if outcome != (None, None):
        yield PartitionChanged(topic.topic_id, partition, *outcome)


def with_directory(state: Partition, broker_id: int, directory: bytes) -> tuple[bytes, ...]:
    """The directories of all replicas, this broker's changed."""
    return tuple(directory if one == broker_id else state.directory_of(one) for one in state.replicas)
