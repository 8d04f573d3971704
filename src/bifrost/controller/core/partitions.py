"""Adding partitions to topics. Their number only grows, because keys and offsets depend on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from bifrost.controller.core.assignments import (
    check_replicas,
    check_request_size,
    partition_records,
    place_partitions,
    rotation,
    rotation_start,
)
from bifrost.controller.core.decision import Charge, Decision, free_of_charge
from bifrost.controller.core.image import MetadataImage
from bifrost.controller.core.placement import Rotation
from bifrost.controller.core.records import MetadataRecord
from bifrost.errors import ApiError, ErrorCode


class MorePartitions(NamedTuple):
    """A topic that should have `total` partitions, its new ones on these brokers if any are given."""

    name: str
    total: int
    assignments: Sequence[Sequence[int]] | None = None


class PartitionsResult(NamedTuple):
    """The answer for one topic."""

    name: str
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


def create_partitions(
    image: MetadataImage,
    wanted: Sequence[MorePartitions],
    *,
    validate_only: bool = False,
    charge: Charge = free_of_charge,
) -> Decision[list[PartitionsResult]]:
    """Add the missing partitions of each topic that can have them."""
    check_request_size(sum(_missing(image, one) for one in wanted))
    times_named = Counter(one.name for one in wanted)
    records: list[MetadataRecord] = []
    results: dict[str, PartitionsResult] = {}
    brokers = rotation(image)
    for one in wanted:
        if one.name in results:
            continue
        try:
            if times_named[one.name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, f"topic {one.name} is named more than once")
            new = _decide_one(image, brokers, one)
            charge(len(new))
            records += new
            results[one.name] = PartitionsResult(one.name)
        except ApiError as error:
            results[one.name] = PartitionsResult(one.name, error.code, error.detail)
    return Decision(() if validate_only else records, list(results.values()))


def _missing(image: MetadataImage, wanted: MorePartitions) -> int:
    topic = image.topics.get(wanted.name)
    return 0 if topic is None else max(wanted.total - len(topic.partitions), 0)


def _decide_one(image: MetadataImage, brokers: Rotation, wanted: MorePartitions) -> Sequence[MetadataRecord]:
    topic = image.topics.get(wanted.name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {wanted.name} does not exist")
    present = len(topic.partitions)
    if wanted.total <= present:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS, f"topic {topic.name} has {present} partitions; {wanted.total} is not more"
        )
    replication_factor = len(topic.partitions[0].target)
    if wanted.assignments is None:
        assignments: Sequence[Sequence[int]] = place_partitions(
            brokers,
            replication_factor=replication_factor,
            start=rotation_start(image, brokers, topic.partitions[0].replicas[0]),
            first_partition=present,
            end_partition=wanted.total,
        )
    else:
        assignments = wanted.assignments
        if len(assignments) != wanted.total - present:
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"{wanted.total - present} partitions are to be added and {len(assignments)} are assigned",
            )
        for partition, replicas in enumerate(assignments, present):
            check_replicas(image, partition, replicas, replication_factor)
    return partition_records(image, topic.topic_id, present, assignments)
