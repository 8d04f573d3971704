"""The replicas of new partitions: placed by us, or given by the request and checked."""

from __future__ import annotations

from collections.abc import Sequence

from bifrost.controller.core.elections import default_directories
from bifrost.controller.core.image import MetadataImage
from bifrost.controller.core.placement import Rotation
from bifrost.controller.core.records import PartitionCreated
from bifrost.controller.core.state import INTERNAL_TOPICS
from bifrost.errors import ApiError, ErrorCode

PARTITIONS_PER_REQUEST_MAX = 10_000  # Kafka: ReplicationControlManager.MAX_PARTITIONS_PER_BATCH


def check_request_size(partitions: int) -> None:
    """Refuse a request whose new partitions would keep everyone else waiting."""
    if partitions > PARTITIONS_PER_REQUEST_MAX:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION,
            f"the request asks for {partitions} partitions; {PARTITIONS_PER_REQUEST_MAX} is the most at a time",
        )


def rotation(image: MetadataImage) -> Rotation:
    """The brokers that may hold new replicas: all but those that shut down, fenced ones as a last resort.

    Racks count if every one of them has a rack.
    """
    brokers = [broker for _, broker in sorted(image.brokers.items()) if not broker.shutting_down]
    racks = {broker.broker_id: broker.rack for broker in brokers if broker.rack is not None}
    return Rotation(
        [broker.broker_id for broker in brokers if not broker.fenced],
        [broker.broker_id for broker in brokers if broker.fenced],
        racks if len(racks) == len(brokers) else None,
    )


def place_partitions(
    brokers: Rotation, *, replication_factor: int, start: int, first_partition: int, end_partition: int
) -> list[tuple[int, ...]]:
    """Replicas for a range of partitions, each with a live leader; a fenced broker may follow once it is back."""
    live, fenced = brokers.live_count, brokers.fenced_count
    if not live or replication_factor > live + fenced:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"replication factor {replication_factor} needs as many live brokers; there are {live}"
            + (f", and {fenced} fenced" if fenced else ""),
        )
    return brokers.place(
        replication_factor=replication_factor,
        start=start,
        first_partition=first_partition,
        end_partition=end_partition,
    )


def next_start(image: MetadataImage) -> int:
    """How many partitions people have had made, ever: their topics go round the brokers as if there were no others.

    What the cluster's own topics have is taken away here and not left out of the count, so that all nodes, of whichever
    version, and all snapshots count the same.
    """
    own = (image.topics[name] for name in INTERNAL_TOPICS if name in image.topics)
    return image.partitions_created - sum(len(topic.partitions) for topic in own)


def rotation_start(image: MetadataImage, brokers: Rotation, first_leader: int) -> int:
    """Where the first replica of partition 0 stands in the rotation, so that new partitions go on in it."""
    leaders = brokers.leaders
    return leaders.index(first_leader) if first_leader in leaders else next_start(image)


def check_assignment(
    image: MetadataImage, partition: int, replicas: Sequence[int], expected_count: int | None = None
) -> None:
    """Raise ApiError(INVALID_REPLICA_ASSIGNMENT) unless these are brokers, each of them once."""
    problem = None
    unknown = next((broker for broker in sorted(replicas) if broker not in image.brokers), None)
    twice = next((broker for broker in sorted(replicas) if replicas.count(broker) > 1), None)
    if not replicas:
        problem = "no replica is given"
    elif unknown is not None:
        problem = f"broker {unknown} is not registered"
    elif twice is not None:
        problem = f"broker {twice} is named more than once"
    elif expected_count is not None and len(replicas) != expected_count:
        problem = f"{len(replicas)} replicas are given where the other partitions have {expected_count}"
    if problem:
        raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"partition {partition}: {problem}")


def check_replicas(image: MetadataImage, partition: int, replicas: Sequence[int], expected_count: int | None) -> None:
    """The same for a new partition, which needs a leader from the start."""
    check_assignment(image, partition, replicas, expected_count)
    if not any(image.brokers[broker].active for broker in replicas):
        problem = "all of its brokers are fenced or shutting down"
        raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"partition {partition}: {problem}")


def partition_records(
    image: MetadataImage, topic_id: bytes, first_partition: int, assignments: Sequence[Sequence[int]]
) -> list[PartitionCreated]:
    """One record for each assignment; active replicas are in sync and the first of them leads."""
    active = image.active_brokers()
    records = []
    for partition, replicas in enumerate(assignments, first_partition):
        isr = tuple(broker for broker in replicas if broker in active)
        directories = default_directories(image, replicas)
        records.append(PartitionCreated(topic_id, partition, tuple(replicas), isr, isr[0], directories=directories))
    return records
