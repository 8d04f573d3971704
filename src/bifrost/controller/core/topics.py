"""Creating and deleting topics: what is refused, with which error, and what is recorded.

Checks come in the order of Kafka's ReplicationControlManager, so that a request with several faults is answered alike.
One bad topic does not spoil the others of its request; a limit on the whole request does, and is raised.
Deciding reads the image and changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from bifrost.controller.core.assignments import (
    check_replicas,
    check_request_size,
    next_start,
    partition_records,
    place_partitions,
    rotation,
)
from bifrost.controller.core.configs import check_topic_configs, current_settings, topic_config_records
from bifrost.controller.core.decision import Charge, Decision, free_of_charge
from bifrost.controller.core.image import MetadataImage
from bifrost.controller.core.names import check_topic_name
from bifrost.controller.core.placement import Rotation
from bifrost.controller.core.records import MetadataRecord, TopicCreated, TopicDeleted
from bifrost.controller.core.state import INTERNAL_TOPICS, METADATA_TOPIC, Topic
from bifrost.errors import ApiError, ErrorCode
from bifrost.settings import Settings

NO_TOPIC_ID = bytes(16)


class NewTopic(NamedTuple):
    """A topic to create; -1 takes the broker's default, and goes with assignments."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignments: Sequence[tuple[int, Sequence[int]]] = ()  # (partition, broker ids)
    configs: Sequence[tuple[str, str | None]] = ()


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """The answer for one topic; what follows `message` is meaningful without an error only."""

    name: str
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    topic_id: bytes = NO_TOPIC_ID
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)  # the overrides, as stored


class TopicRef(NamedTuple):
    """A topic by name or by id; exactly one of them is given."""

    name: str | None
    topic_id: bytes = NO_TOPIC_ID


class DeletedTopic(NamedTuple):
    """The answer for one topic; name and id as far as they are known."""

    name: str | None
    topic_id: bytes
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


def create_topics(
    image: MetadataImage,
    settings: Settings,
    topics: Sequence[NewTopic],
    *,
    topic_ids: Sequence[bytes],
    validate_only: bool = False,
    charge: Charge = free_of_charge,
) -> Decision[list[CreatedTopic]]:
    """Create each topic that can be created; `topic_ids` has a fresh id for every one."""
    check_request_size(sum(_asked_partitions(settings, topic) for topic in topics))
    times_named = Counter(topic.name for topic in topics)
    records: list[MetadataRecord] = []
    results: dict[str, CreatedTopic] = {}
    new_names: dict[str, str] = {}
    start = next_start(image)
    defaults = current_settings(image, settings)
    brokers = rotation(image)
    for topic, topic_id in zip(topics, topic_ids, strict=True):
        if topic.name in results:
            continue
        try:
            if times_named[topic.name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, f"topic {topic.name} is named more than once")
            _check_new_name(image, topic.name, new_names)
            configs = check_topic_configs(defaults, topic.configs)
            assignments = _assignments(image, settings, topic, brokers, start)
            charge(len(assignments))
        except ApiError as error:
            results[topic.name] = CreatedTopic(topic.name, error.code, error.detail)
            continue
        new_names[topic.name.replace(".", "_")] = topic.name
        start += len(assignments) if topic.name not in INTERNAL_TOPICS else 0
        records.append(TopicCreated(topic.name, topic_id))
        records += topic_config_records(topic.name, configs)
        records += partition_records(image, topic_id, 0, assignments)
        results[topic.name] = CreatedTopic(
            topic.name,
            topic_id=topic_id,
            partitions=len(assignments),
            replication_factor=len(assignments[0]),
            configs=configs,
        )
    return Decision(() if validate_only else records, list(results.values()))


def delete_topics(
    image: MetadataImage, settings: Settings, refs: Sequence[TopicRef], *, charge: Charge = free_of_charge
) -> Decision[list[DeletedTopic]]:
    """Delete each topic that exists; a topic named twice in one request is left alone."""
    if not settings.delete_topic_enable:
        raise ApiError(ErrorCode.TOPIC_DELETION_DISABLED, "delete.topic.enable is false on this cluster")
    times_given = Counter(refs)
    given = set(refs)
    records: list[MetadataRecord] = []
    results: list[DeletedTopic] = []
    for ref, times in times_given.items():
        try:
            _check_ref(ref, times)
            topic = _find(image, ref)
            if ref.name is None and TopicRef(topic.name) in given:
                continue  # the answer to the name covers it
            if ref.name is not None and TopicRef(None, topic.topic_id) in given:
                results.append(
                    DeletedTopic(
                        ref.name, topic.topic_id, ErrorCode.INVALID_REQUEST, f"{ref.name} is given by its id as well"
                    )
                )
                continue
            charge(len(topic.partitions))
        except ApiError as error:
            results.append(DeletedTopic(ref.name, ref.topic_id, error.code, error.detail))
            continue
        records.append(TopicDeleted(topic.topic_id))
        results.append(DeletedTopic(topic.name, topic.topic_id))
    return Decision(records, results)


def _asked_partitions(settings: Settings, topic: NewTopic) -> int:
    if topic.assignments:
        return len(topic.assignments)
    return settings.num_partitions if topic.partitions == -1 else max(topic.partitions, 0)


def _check_new_name(image: MetadataImage, name: str, new_names: Mapping[str, str]) -> None:
    if name == METADATA_TOPIC:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{METADATA_TOPIC} is the cluster's own and cannot be created")
    if name in image.topics:
        raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name} already exists")
    check_topic_name(name)
    other = image.colliding_topic(name) or new_names.get(name.replace(".", "_"))
    if other is not None:
        raise ApiError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"topic {name} collides with {other}: metric names cannot tell '.' from '_'",
        )


def _assignments(
    image: MetadataImage, settings: Settings, topic: NewTopic, brokers: Rotation, start: int
) -> list[tuple[int, ...]]:
    """The replicas of each partition, from 0."""
    if topic.assignments:
        return _manual_assignments(image, topic)
    if topic.replication_factor < -1 or topic.replication_factor == 0:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"replication factor {topic.replication_factor}: expected at least 1, or -1 for the default",
        )
    if topic.partitions < -1 or topic.partitions == 0:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS, f"{topic.partitions} partitions: expected at least 1, or -1 for the default"
        )
    default = settings.default_replication_factor
    return place_partitions(
        brokers,
        replication_factor=default if topic.replication_factor == -1 else topic.replication_factor,
        start=start,
        first_partition=0,
        end_partition=settings.num_partitions if topic.partitions == -1 else topic.partitions,
    )


def _manual_assignments(image: MetadataImage, topic: NewTopic) -> list[tuple[int, ...]]:
    for given, what in ((topic.replication_factor, "replication factor"), (topic.partitions, "number of partitions")):
        if given != -1:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"with assignments the {what} has to be -1, not {given}")
    chosen: dict[int, tuple[int, ...]] = {}
    expected_count = None
    for partition, replicas in topic.assignments:
        if partition in chosen:
            raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"partition {partition} is assigned more than once")
        check_replicas(image, partition, replicas, expected_count)
        expected_count = len(replicas)
        chosen[partition] = tuple(replicas)
    for partition in range(len(chosen)):
        if partition not in chosen:
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"partitions are numbered from 0 without gaps, and {partition} is not assigned",
            )
    return [chosen[partition] for partition in range(len(chosen))]


def _check_ref(ref: TopicRef, times: int) -> None:
    if ref.name is None and ref.topic_id == NO_TOPIC_ID:
        raise ApiError(ErrorCode.INVALID_REQUEST, "neither a name nor an id is given")
    if ref.name is not None and ref.topic_id != NO_TOPIC_ID:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{ref.name} comes with an id; give one of them")
    if times > 1:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{ref.name or 'the id'} is given more than once")


def _find(image: MetadataImage, ref: TopicRef) -> Topic:
    if ref.name is None:
        topic = image.topics_by_id.get(ref.topic_id)
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID, "no topic has this id")
        return topic
    topic = image.topics.get(ref.name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {ref.name} does not exist")
    return topic
