"""What becomes of a partition when its replicas or its ISR are to change: the one place where a move of replicas ends.

A move (KIP-455) is over once every replica that shall stay is in sync: then those that go leave the assignment and the
ISR in the same change, and somebody else leads if the leader was one of them. Until then all of them are replicas, so
nothing is less safe than before. Whenever a replica leaves, a leader epoch starts, by which whoever still believes in
the old assignment is found out (Kafka: PartitionReassignmentReplicas, PartitionChangeBuilder).
"""

from __future__ import annotations

from collections.abc import Collection, Container
from typing import NamedTuple

import msgspec

from bifrost.controller.core.elections import default_directories, electable, elected
from bifrost.controller.core.image import Located, MetadataImage
from bifrost.controller.core.records import PartitionChanged


class Layout(NamedTuple):
    """Where a partition shall be, and who is in sync."""

    replicas: tuple[int, ...]
    isr: Collection[int]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


def partition_change(
    image: MetadataImage, located: Located, wanted: Layout, live: Container[int]
) -> PartitionChanged | None:
    """The change that brings a partition there, and on to the end of its move if it can end; None if it is there."""
    topic, partition, state = located
    replicas, members, adding, removing = _completed(wanted)
    # In the order of the assignment, so that one set of members is always one tuple.
    isr = tuple(broker for broker in replicas if broker in members)
    assert isr, f"{topic.name}-{partition}: an ISR is never empty"
    directories = state.directories if replicas == state.replicas else default_directories(image, replicas, state)
    after = msgspec.structs.replace(state, replicas=replicas, directories=directories)
    leader = elected(after, isr, electable(image, after, live))
    leaves = any(broker not in replicas for broker in state.replicas)
    change = PartitionChanged(
        topic.topic_id,
        partition,
        leader if leaves or leader != state.leader else None,
        _if_new(isr, state.isr),
        _if_new(replicas, state.replicas),
        _if_new(adding, state.adding),
        _if_new(removing, state.removing),
        None if directories == state.directories else directories,
    )
    return None if change == PartitionChanged(topic.topic_id, partition) else change


def _completed(wanted: Layout) -> Layout:
    if not wanted.adding and not wanted.removing:
        return wanted
    stay = tuple(broker for broker in wanted.replicas if broker not in wanted.removing)
    return Layout(stay, wanted.isr) if all(broker in wanted.isr for broker in stay) else wanted


def _if_new(value: tuple[int, ...], before: tuple[int, ...]) -> tuple[int, ...] | None:
    return None if value == before else value
