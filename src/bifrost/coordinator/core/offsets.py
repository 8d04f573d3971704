"""Committed offsets as clients ask for them: commit, fetch, delete. Kafka: OffsetMetadataManager.

Who may commit is for the group to say (`check_commit` of its protocol); a group that nobody ever joined, a simple one,
comes into being with its first offset and consists of nothing else. A commit is stored as it comes: that offsets never
go back by themselves is a promise of whoever calls, and of the log.
"""

from __future__ import annotations

from uuid import UUID

from bifrost.coordinator.core.classic.group import ClassicGroup
from bifrost.coordinator.core.classic.groups import ClassicGroups
from bifrost.coordinator.core.committed import CommittedOffsets, read, tombstone
from bifrost.coordinator.core.consumer.group import ConsumerGroup
from bifrost.coordinator.core.consumer.groups import ConsumerGroups
from bifrost.coordinator.core.environment import Environment, LogRecord, Respond
from bifrost.coordinator.core.groups import Group, Groups, is_subscribed
from bifrost.coordinator.core.records import OffsetCommitKey, OffsetCommitValue, record
from bifrost.errors import ApiError, ErrorCode
from bifrost.protocol.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from bifrost.protocol.schema import ZERO_UUID

NO_OFFSET = -1
_NO_GROUP_ERROR_SINCE = 9  # OffsetCommit: before that, clients know only that their generation is wrong
_TOPIC_IDS_SINCE = 10  # OffsetCommit and OffsetFetch
_FOREVER_MS = (1 << 63) - 1

_Named = tuple[str, OffsetCommitRequestTopic]
"""A topic's name, which the request itself may not have, and what is committed for it."""


class Offsets:
    """The offsets of all groups of one shard."""

    __slots__ = ("_classic", "_committed", "_consumer", "_env", "_groups", "_metadata_max")

    def __init__(
        self,
        env: Environment,
        groups: Groups,
        committed: CommittedOffsets,
        *,
        classic: ClassicGroups,
        consumer: ConsumerGroups,
        metadata_max: int,
    ) -> None:
        self._env = env
        self._groups = groups
        self._committed = committed
        self._classic = classic
        self._consumer = consumer
        self._metadata_max = metadata_max

    def commit(self, request: OffsetCommitRequest, *, version: int, respond: Respond[OffsetCommitResponse]) -> None:
        """Topics that do not exist are refused one by one; `ApiError` if the group refuses all of it."""
        response, wanted = self._existing(request, version)
        if wanted:
            self._check_commit(request, version, wanted)
        now_ms = self._env.now_ms()
        expires_ms = -1 if request.retention_time_ms == -1 else min(now_ms + request.retention_time_ms, _FOREVER_MS)
        records: list[LogRecord] = []
        for name, topic in wanted:
            answer = _topic_answer(response, topic)
            topic_id = topic.topic_id if version >= _TOPIC_IDS_SINCE else self._env.topics.topic_id(name)
            for partition in topic.partitions:
                code = ErrorCode.NONE
                if self._is_too_long(partition.committed_metadata):
                    code = ErrorCode.OFFSET_METADATA_TOO_LARGE
                else:
                    key = OffsetCommitKey(group=request.group_id, topic=name, partition=partition.partition_index)
                    records.append(record(key, _value(partition, topic_id or ZERO_UUID, now_ms, expires_ms)))
                answer.partitions.append(
                    OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)
                )
        self._write(records)
        respond(response)

    def fetch(self, request: OffsetFetchRequestGroup, *, version: int) -> OffsetFetchResponseGroup:
        """What the group has committed, for the partitions that are asked for or, with null, for all."""
        group = self._groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            self._consumer.check_fetch(group, request.member_id, request.member_epoch)
        answer = OffsetFetchResponseGroup(group_id=request.group_id, topics=[])
        if request.topics is not None:
            answer.topics = [self._fetch_topic(request.group_id, topic, version) for topic in request.topics]
            return answer
        for name, partitions in self._committed.of(request.group_id).items():
            topic_id = self._env.topics.topic_id(name) if version >= _TOPIC_IDS_SINCE else ZERO_UUID
            if topic_id is not None:  # what has no id any more could not be named in the answer
                found = [_found(partition, read(value)) for partition, value in partitions.items()]
                answer.topics.append(OffsetFetchResponseTopics(name=name, topic_id=topic_id, partitions=found))
        return answer

    def delete(self, request: OffsetDeleteRequest, respond: Respond[OffsetDeleteResponse]) -> None:
        """KIP-496: of topics that the group does not read any more."""
        group = self._groups.get(request.group_id)
        if group is None and request.group_id not in self._committed:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {request.group_id}")
        if isinstance(group, ClassicGroup) and not group.is_empty and not group.uses_consumer_protocol:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP, f"what {request.group_id} reads cannot be told")
        records: list[LogRecord] = []
        topics = [
            self._delete_topic(request.group_id, group, topic, records) for topic in request.topics if topic.partitions
        ]
        self._write(records)
        respond(OffsetDeleteResponse(topics=topics))

    def _existing(self, request: OffsetCommitRequest, version: int) -> tuple[OffsetCommitResponse, list[_Named]]:
        """The refusals of what does not exist, which come first in the answer, and the rest with its topics' names."""
        response = OffsetCommitResponse(topics=[])
        wanted = []
        for topic in request.topics:
            name = self._env.topics.name(topic.topic_id) if version >= _TOPIC_IDS_SINCE else topic.name
            if name is None:
                _refuse(response, topic, topic.partitions, ErrorCode.UNKNOWN_TOPIC_ID)
                continue
            count = self._env.topics.partitions(name) or 0
            known = [one for one in topic.partitions if 0 <= one.partition_index < count]
            unknown = [one for one in topic.partitions if not 0 <= one.partition_index < count]
            if unknown or not count:
                _refuse(response, topic, unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            if known:
                wanted.append(
                    (name, OffsetCommitRequestTopic(name=topic.name, topic_id=topic.topic_id, partitions=known))
                )
        return response, wanted

    def _check_commit(self, request: OffsetCommitRequest, version: int, wanted: list[_Named]) -> None:
        group, generation = self._groups.get(request.group_id), request.generation_id_or_member_epoch
        if isinstance(group, ClassicGroup):
            self._classic.check_commit(
                group,
                member_id=request.member_id,
                instance_id=request.group_instance_id,
                generation=generation,
            )
        elif isinstance(group, ConsumerGroup):
            partitions = (
                (self._env.topics.topic_id(name) or ZERO_UUID, partition.partition_index)
                for name, topic in wanted
                for partition in topic.partitions
            )
            self._consumer.check_commit(group, request.member_id, generation, version, partitions)
        elif generation >= 0:
            if request.group_id in self._committed:
                raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"{request.group_id} has no members")
            missing = ErrorCode.GROUP_ID_NOT_FOUND if version >= _NO_GROUP_ERROR_SINCE else ErrorCode.ILLEGAL_GENERATION
            raise ApiError(missing, f"there is no group {request.group_id}")

    def _is_too_long(self, metadata: str | None) -> bool:
        """Java counts UTF-16 units."""
        if metadata is None or len(metadata) * 2 <= self._metadata_max:
            return False
        return len(metadata.encode("utf-16-le", "surrogatepass")) // 2 > self._metadata_max

    def _write(self, records: list[LogRecord]) -> None:
        if records:
            self._env.journal.append(records)
            for key, value in records:
                self._committed.replay(key, value)

    def _fetch_topic(self, group_id: str, topic: OffsetFetchRequestTopics, version: int) -> OffsetFetchResponseTopics:
        name = self._env.topics.name(topic.topic_id) if version >= _TOPIC_IDS_SINCE else topic.name
        answer = OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id, partitions=[])
        for partition in topic.partition_indexes:
            value = None if name is None else self._committed.get(group_id, name, partition)
            if value is None or _is_of_another(value.topic_id, topic.topic_id):
                code = ErrorCode.UNKNOWN_TOPIC_ID if name is None else ErrorCode.NONE
                answer.partitions.append(
                    OffsetFetchResponsePartitions(
                        partition_index=partition, committed_offset=NO_OFFSET, error_code=code
                    )
                )
            else:
                answer.partitions.append(_found(partition, value))
        return answer

    def _delete_topic(
        self,
        group_id: str,
        group: Group | None,
        topic: OffsetDeleteRequestTopic,
        records: list[LogRecord],
    ) -> OffsetDeleteResponseTopic:
        count = self._env.topics.partitions(topic.name) or 0
        subscribed = is_subscribed(group, topic.name)
        committed = self._committed.of(group_id).get(topic.name, {})
        answer = OffsetDeleteResponseTopic(name=topic.name, partitions=[])
        for partition in topic.partitions:
            index, code = partition.partition_index, ErrorCode.NONE
            if not 0 <= index < count:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif subscribed:
                code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            elif index in committed:
                records.append(tombstone(group_id, topic.name, index))
            answer.partitions.append(OffsetDeleteResponsePartition(partition_index=index, error_code=code))
        return answer


def _value(partition: OffsetCommitRequestPartition, topic_id: UUID, now_ms: int, expires_ms: int) -> OffsetCommitValue:
    return OffsetCommitValue(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
        commit_timestamp=now_ms,
        expire_timestamp=expires_ms,
        topic_id=topic_id,
    )


def _topic_answer(response: OffsetCommitResponse, topic: OffsetCommitRequestTopic) -> OffsetCommitResponseTopic:
    for known in response.topics:
        if known.name == topic.name and known.topic_id == topic.topic_id:
            return known
    answer = OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=[])
    response.topics.append(answer)
    return answer


def _refuse(
    response: OffsetCommitResponse,
    topic: OffsetCommitRequestTopic,
    partitions: list[OffsetCommitRequestPartition],
    code: ErrorCode,
) -> None:
    _topic_answer(response, topic).partitions += [
        OffsetCommitResponsePartition(partition_index=one.partition_index, error_code=code) for one in partitions
    ]


def _found(partition: int, value: OffsetCommitValue) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=partition,
        committed_offset=value.offset,
        committed_leader_epoch=value.leader_epoch,
        metadata=value.metadata,
    )


def _is_of_another(committed: UUID, asked: UUID) -> bool:
    """The offset was committed for a topic of the same name that is gone; an id that is not known proves nothing."""
    return ZERO_UUID not in (committed, asked) and committed != asked
