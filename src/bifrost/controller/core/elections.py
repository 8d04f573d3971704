"""Who leads a partition, and what becomes of partitions when a broker goes, comes back or starts again.

A leader is chosen among the members of the ISR that are active, in the order of the assignment; a leader that still
will do is kept. A broker that goes leaves every ISR that has other members. Where it is the last one it stays, without
leading, because nobody else has all that was acknowledged; it leads again when it is back. Choosing from outside the
ISR loses writes, and nothing in this file does that (Kafka: PartitionChangeBuilder, generateLeaderAndIsrUpdates).
Nobody leads from a directory that has failed (KIP-858).

These functions read the image and return the changes; which broker is fenced is for their callers to record.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Sequence

from bifrost.controller.core.image import Located, MetadataImage
from bifrost.controller.core.records import NO_LEADER, PartitionChanged
from bifrost.controller.core.state import LOST_DIRECTORY, UNASSIGNED_DIRECTORY, Partition, is_online

# Replicas, ISR, leader and directories decide what happens; the partitions of a large cluster differ little in these.
_Situation = tuple[tuple[int, ...], tuple[int, ...], int, tuple[bytes, ...]]
_Outcome = tuple[int | None, tuple[int, ...] | None]  # leader and ISR, None where they stay


def elected(state: Partition, isr: Collection[int], live: Container[int]) -> int:
    """The leader: the one there is, if it is in sync and lives, or else the first replica that is and does."""
    if state.leader in isr and state.leader in live:
        return state.leader
    return next((broker for broker in state.replicas if broker in isr and broker in live), NO_LEADER)


def electable(image: MetadataImage, state: Partition, live: Container[int]) -> Container[int]:
    """Of the brokers that live, those whose replica is in a directory that works, as far as anybody knows."""
    if not state.directories:
        return live
    brokers = image.brokers
    return [
        broker
        for broker, directory in zip(state.replicas, state.directories)
        if broker in live and brokers[broker].has_online(directory)
    ]


def default_directories(
    image: MetadataImage, replicas: Sequence[int], before: Partition | None = None
) -> tuple[bytes, ...]:
    """Where replicas are: those there were before where they were; of new ones nobody knows, unless the broker has one
    directory only (Kafka: ClusterControlManager.defaultDir)."""
    known = () if before is None else before.replicas
    found = [
        before.directory_of(broker) if before is not None and broker in known else _only_directory(image, broker)
        for broker in replicas
    ]
    return () if all(directory == UNASSIGNED_DIRECTORY for directory in found) else tuple(found)


def _only_directory(image: MetadataImage, broker_id: int) -> bytes:
    broker = image.brokers.get(broker_id)
    if broker is None or len(broker.directories) != 1 or broker.directories[0] == LOST_DIRECTORY:
        return UNASSIGNED_DIRECTORY
    return broker.directories[0]


def broker_leaves(image: MetadataImage, broker_id: int) -> list[PartitionChanged]:
    """The broker is fenced, shuts down or is gone: others lead what it led, as far as there are others in sync."""
    known: dict[_Situation, _Outcome] = {}
    changes = []
    for topic, partition, state in image.locate(image.index.in_sync(broker_id)):
        situation = (state.replicas, state.isr, state.leader, state.directories)
        outcome = known.get(situation)
        if outcome is None:
            outcome = known[situation] = without(image, state, broker_id)
        if outcome != (None, None):
            changes.append(PartitionChanged(topic.topic_id, partition, *outcome))
    return changes


def broker_returns(image: MetadataImage, broker_id: int) -> list[PartitionChanged]:
    """The broker takes part again: it leads what nobody leads, where it is in sync and has the log."""
    leaderless = image.index.led(NO_LEADER)
    in_sync = image.index.in_sync(broker_id)
    waiting = {topic_id: bits & leaderless[topic_id] for topic_id, bits in in_sync.items() if topic_id in leaderless}
    broker = image.brokers[broker_id]
    return [
        PartitionChanged(topic.topic_id, partition, broker_id)
        for topic, partition, state in image.locate(waiting)
        if broker.has_online(state.directory_of(broker_id))
    ]


def broker_restarts(
    image: MetadataImage, broker_id: int, *, clean: bool, directories: Collection[bytes] = ()
) -> list[PartitionChanged]:
    """The broker was started again, with these log directories, and takes part from the outset.

    What it leads gets a new leader epoch: whoever still believes in the old one is found out (KIP-101). If it may have
    lost writes that it had acknowledged, it leaves every ISR where others have them (KIP-966).
    """
    changes = []
    for located in image.locate(image.index.in_sync(broker_id)):
        topic, partition, state = located
        is_gone = not is_online(state.directory_of(broker_id), directories)
        if is_gone or (not clean and len(state.isr) > 1):
            outcome = without(image, state, broker_id)
            if outcome != (None, None):
                changes.append(PartitionChanged(topic.topic_id, partition, *outcome))
        elif state.leader in (broker_id, NO_LEADER):
            changes.append(new_leader(located, broker_id))
    return changes


def new_leader(located: Located, leader: int) -> PartitionChanged:
    """Another leader, from the ISR."""
    assert leader in located.state.isr, f"{located.topic.name}-{located.partition}: {leader} is not in sync"
    return PartitionChanged(located.topic.topic_id, located.partition, leader)


def without(image: MetadataImage, state: Partition, broker_id: int) -> _Outcome:
    """Leader and ISR once this member of the ISR has gone; None where they stay."""
    isr = tuple(member for member in state.isr if member != broker_id)
    leader = elected(state, isr, electable(image, state, image.active_brokers()))
    return None if leader == state.leader else leader, isr or None
