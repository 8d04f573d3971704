"""A shard with everything in it, without a node: its journal is a list, its clock moves when told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any

from bifrost.coordinator.core.deadlines import Deadlines
from bifrost.coordinator.core.environment import Client, Environment, LogRecord
from bifrost.coordinator.core.records import OffsetCommitValue, read_key, read_value
from bifrost.coordinator.core.settings import GroupSettings
from bifrost.coordinator.core.shard import GroupShard, OffsetSettings
from bifrost.errors import ApiError, ErrorCode
from bifrost.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from bifrost.protocol.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
)
from bifrost.protocol.messages.groups import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from tests.unit.coordinator.classic.stand_ins import ListJournal
from tests.unit.coordinator.consumer.stand_ins import Topics

GROUP = "g"
CLIENT = Client("app", "/10.0.0.1")
EPOCH_MS = 1_700_000_000_000
"""The wall clock's reading when the monotonic clock says 0."""
Offsets = Mapping[tuple[str, int], int]


class WholeShard:
    """The shard under test, and short words for what clients send it."""

    def __init__(self, *, records: Iterable[LogRecord] = (), topics: Topics | None = None, **settings: Any) -> None:
        self.now_ms = 0
        self.topics = topics or Topics(orders=4, payments=2)
        self.journal = ListJournal(records)
        self.deadlines = Deadlines()
        self._settings = settings
        ids = count(1)
        env = Environment(
            journal=self.journal,
            deadlines=self.deadlines,
            topics=self.topics,
            monotonic_ms=lambda: self.now_ms,
            now_ms=lambda: EPOCH_MS + self.now_ms,
            new_id=lambda: f"id{next(ids)}",
        )
        groups = GroupSettings(initial_rebalance_delay_ms=0, consumer_assignment_interval_ms=0)
        self.core = GroupShard(env, groups, OffsetSettings(**settings))
        self.core.replay(self.journal.records)
        self.core.loaded()

    def restart(self) -> WholeShard:
        """The node dies, and another reads what was written."""
        again = WholeShard(records=self.journal.records, topics=self.topics, **self._settings)
        again.now_ms = self.now_ms
        return again

    def advance(self, delay_ms: int) -> None:
        """Time passes, and what is due happens in its moment."""
        end_ms = self.now_ms + delay_ms
        while (next_ms := self.deadlines.next_ms()) is not None and next_ms <= end_ms:
            self.now_ms = max(self.now_ms, next_ms)
            self.deadlines.run(self.now_ms)
        self.now_ms = end_ms

    def written(self) -> list[tuple[Any, Any]]:
        """The log, in words."""
        words = []
        for key, value in self.journal.records:
            parsed = read_key(key)
            assert parsed is not None
            words.append((parsed, None if value is None else read_value(parsed, value)))
        return words

    # Offsets.

    def commit(
        self,
        offsets: Offsets,
        *,
        group_id: str = GROUP,
        member_id: str = "",
        generation: int = -1,
        metadata: str | None = None,
        version: int = 9,
        retention_ms: int = -1,
    ) -> list[ErrorCode]:
        """What each partition is answered, in the order of the answer; ApiError if all of it is refused."""
        by_topic: dict[str, list[OffsetCommitRequestPartition]] = {}
        for (topic, partition), offset in offsets.items():
            by_topic.setdefault(topic, []).append(
                OffsetCommitRequestPartition(
                    partition_index=partition,
                    committed_offset=offset,
                    committed_leader_epoch=7,
                    committed_metadata=metadata,
                )
            )
        request = OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            retention_time_ms=retention_ms,
            topics=[OffsetCommitRequestTopic(name=name, partitions=found) for name, found in by_topic.items()],
        )
        response = self.commit_request(request, version)
        return [ErrorCode(one.error_code) for topic in response.topics for one in topic.partitions]

    def commit_request(self, request: OffsetCommitRequest, version: int) -> OffsetCommitResponse:
        answers: list[OffsetCommitResponse] = []
        self.core.offsets.commit(request, version=version, respond=answers.append)
        (answer,) = answers
        return answer

    def fetch(self, *partitions: tuple[str, int], group_id: str = GROUP) -> list[int]:
        """The offsets, -1 where there is none."""
        topics = [OffsetFetchRequestTopics(name=name, partition_indexes=[partition]) for name, partition in partitions]
        answer = self.fetch_request(OffsetFetchRequestGroup(group_id=group_id, topics=topics), 9)
        return [one.committed_offset for topic in answer.topics for one in topic.partitions]

    def fetch_all(self, group_id: str = GROUP) -> dict[tuple[str, int], int]:
        answer = self.fetch_request(OffsetFetchRequestGroup(group_id=group_id, topics=None), 9)
        return {
            (topic.name, one.partition_index): one.committed_offset
            for topic in answer.topics
            for one in topic.partitions
        }

    def fetch_request(self, request: OffsetFetchRequestGroup, version: int) -> OffsetFetchResponseGroup:
        return self.core.offsets.fetch(request, version=version)

    def delete_offsets(self, topic: str, *partitions: int, group_id: str = GROUP) -> list[ErrorCode]:
        wanted = [OffsetDeleteRequestPartition(partition_index=one) for one in partitions]
        request = OffsetDeleteRequest(
            group_id=group_id, topics=[OffsetDeleteRequestTopic(name=topic, partitions=wanted)]
        )
        answers: list[OffsetDeleteResponse] = []
        self.core.offsets.delete(request, answers.append)
        (answer,) = answers
        return [ErrorCode(one.error_code) for found in answer.topics for one in found.partitions]

    def stored(self, topic: str, partition: int, group_id: str = GROUP) -> OffsetCommitValue | None:
        return self.core.committed.get(group_id, topic, partition)

    # Members.

    def join_classic(
        self,
        *topics: str,
        group_id: str = GROUP,
        protocol_type: str = "consumer",
        session_ms: int = 10_000,
        member_id: str = "",
    ) -> str:
        """A group of one classic member at work; its id."""
        joined: list[JoinGroupResponse] = []
        metadata = subscription(topics) if protocol_type == "consumer" else b""
        request = JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=60_000,
            member_id=member_id,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
        )
        self.core.join(request, version=3, client=CLIENT, respond=joined.append)
        self.advance(0)
        (answer,) = joined
        assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code)
        synced: list[SyncGroupResponse] = []
        sync = SyncGroupRequest(
            group_id=group_id,
            generation_id=answer.generation_id,
            member_id=answer.member_id,
            assignments=[SyncGroupRequestAssignment(member_id=answer.member_id, assignment=b"all")],
        )
        self.core.classic.sync(sync, version=3, respond=synced.append)
        assert [one.error_code for one in synced] == [0]
        return answer.member_id

    def leave_classic(self, member_id: str, group_id: str = GROUP) -> None:
        members = [MemberIdentity(member_id=member_id)]
        self.core.classic.leave(LeaveGroupRequest(group_id=group_id, members=members), 5)

    def heartbeat(
        self, member_id: str, epoch: int, topics: Sequence[str] | None = None, *, group_id: str = GROUP
    ) -> ConsumerGroupHeartbeatResponse:
        """Of a member that speaks the newer protocol: 0 joins, -1 leaves."""
        joining = epoch == 0
        request = ConsumerGroupHeartbeatRequest(
            group_id=group_id,
            member_id=member_id,
            member_epoch=epoch,
            rebalance_timeout_ms=60_000 if joining else -1,
            subscribed_topic_names=list(topics or ()) if joining else None,
            topic_partitions=[] if joining else None,
        )
        answers: list[ConsumerGroupHeartbeatResponse] = []
        self.core.consumer.heartbeat(request, version=1, client=CLIENT, respond=answers.append)
        (answer,) = answers
        return answer


def subscription(topics: Sequence[str]) -> bytes:
    """ConsumerProtocolSubscription v0."""
    names = b"".join(len(name).to_bytes(2, "big") + name.encode() for name in topics)
    return b"\0\0" + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff"


def refusal(call: Any, *args: Any, **options: Any) -> ErrorCode:
    """The code with which all of a request is refused."""
    try:
        call(*args, **options)
    except ApiError as error:
        return error.code
    raise AssertionError("it was not refused")
