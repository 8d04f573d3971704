"""What a member answers to others: votes, announcements, fetches of the log and of snapshots, and how far everybody is.

A fetch that finds nothing new waits, and is answered the moment there is a record or a new high watermark: nobody
polls, and a change is committed one round trip after it was appended.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from bifrost.errors import ApiError, ErrorCode, StorageError
from bifrost.protocol.fetch.request import FetchRequest
from bifrost.protocol.fetch.response import FetchResponse, PartitionFetchResult, TopicFetchResult
from bifrost.protocol.messages.quorum import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    DescribeQuorumPartitionResult,
    DescribeQuorumResponse,
    DescribeQuorumTopicResult,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchSnapshotPartitionResult,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    FetchSnapshotTopicResult,
    LeaderIdAndEpoch,
    ReplicaState,
    VoteRequest,
    VoteResponse,
)
from bifrost.raft import wire
from bifrost.raft.core.messages import FetchVerdict, SnapshotId
from bifrost.raft.core.roles import Leader, Progress
from bifrost.raft.storage import METADATA_TOPIC_ID
from bifrost.types import NodeId

if TYPE_CHECKING:
    from bifrost.raft.driver import QuorumMember

_MS: Final = 1000.0


class QuorumService:
    """The answers of one member."""

    def __init__(self, member: QuorumMember) -> None:
        self._member = member

    def vote(self, request: VoteRequest) -> VoteResponse:
        self._check_cluster(request.cluster_id)
        self._check_voter(request.voter_id)
        member = self._member
        answer, effects = member.core.on_vote(wire.read_vote(request), member.now_ms())
        member.run(effects)  # a vote is on disk before it is given
        return wire.vote_response(answer)

    def begin_epoch(self, request: BeginQuorumEpochRequest) -> BeginQuorumEpochResponse:
        self._check_cluster(request.cluster_id)
        self._check_voter(request.voter_id)
        member = self._member
        answer, effects = member.core.on_begin_epoch(wire.read_begin(request), member.now_ms())
        member.run(effects)
        return wire.begin_response(answer)

    def end_epoch(self, request: EndQuorumEpochRequest) -> EndQuorumEpochResponse:
        self._check_cluster(request.cluster_id)
        member = self._member
        answer, effects = member.core.on_end_epoch(wire.read_end(request), member.now_ms())
        member.run(effects)
        return wire.end_response(answer)

    async def fetch(self, request: FetchRequest) -> FetchResponse:
        """Records from an offset on, or why there are none."""
        self._check_cluster(request.cluster_id)
        topics = request.topics
        known = len(topics) == 1 and topics[0].topic_id == METADATA_TOPIC_ID.bytes and len(topics[0].partitions) == 1
        if not known or topics[0].partitions[0].index != 0:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID, "this listener serves the metadata and nothing else")
        member, asked, replica = self._member, topics[0].partitions[0], NodeId(request.replica_id)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + request.max_wait_ms / _MS
        verdict, effects = member.core.on_fetch(
            replica,
            epoch=asked.current_leader_epoch,
            offset=asked.fetch_offset,
            last_epoch=asked.last_fetched_epoch,
            life=asked.replica_directory_id,
            now_ms=member.now_ms(),
        )
        member.run(effects)
        while verdict.is_readable and self._has_nothing_new(asked.fetch_offset, asked.high_watermark):
            remaining_s = deadline - loop.time()
            if remaining_s <= 0 or not self._still_leads(asked.current_leader_epoch):
                break
            await member.changed(remaining_s)
        if verdict.is_readable and not self._still_leads(asked.current_leader_epoch):
            verdict = FetchVerdict(member.core.answer(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        limit = min(request.max_bytes, asked.partition_max_bytes)
        return FetchResponse(
            [TopicFetchResult("", METADATA_TOPIC_ID.bytes, [self._result(verdict, asked.fetch_offset, limit)])]
        )

    async def fetch_snapshot(self, request: FetchSnapshotRequest) -> FetchSnapshotResponse:
        """A piece of a snapshot. Before the first of them, all of it is checked."""
        self._check_cluster(request.cluster_id)
        if len(request.topics) != 1 or request.topics[0].name != wire.TOPIC or len(request.topics[0].partitions) != 1:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "only the metadata has snapshots")
        member, asked = self._member, request.topics[0].partitions[0]
        core, snapshots = member.core, member.storage.snapshots
        wanted = SnapshotId(asked.snapshot_id.end_offset, asked.snapshot_id.epoch)
        if asked.position == 0 and core.leads and wanted in snapshots:
            await self._check_snapshot(wanted)
        error, data, size = ErrorCode.NONE, memoryview(b""), 0
        if not core.leads:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif asked.current_leader_epoch != core.epoch:
            older = asked.current_leader_epoch < core.epoch
            error = ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH
        elif wanted not in snapshots:
            error = ErrorCode.SNAPSHOT_NOT_FOUND
        else:
            core.on_snapshot_fetch(NodeId(request.replica_id), member.now_ms())
            limit = min(request.max_bytes, member.settings.snapshot_bytes_max)
            data, size = snapshots.piece(wanted, max(asked.position, 0), limit)
            if not 0 <= asked.position < size:
                error = ErrorCode.POSITION_OUT_OF_RANGE
        result = FetchSnapshotPartitionResult(
            index=0,
            error_code=error,
            snapshot_id=asked.snapshot_id,
            current_leader=LeaderIdAndEpoch(leader_id=wire.leader_id(core.leader), leader_epoch=core.epoch),
            size=size,
            position=asked.position,
            unaligned_records=bytes(data),
        )
        return FetchSnapshotResponse(topics=[FetchSnapshotTopicResult(name=wire.TOPIC, partitions=[result])])

    async def _check_snapshot(self, snapshot: SnapshotId) -> None:
        storage = self._member.storage
        try:
            is_sound = await asyncio.get_running_loop().run_in_executor(None, storage.snapshots.is_sound, snapshot)
        except StorageError:
            if snapshot in storage.snapshots:
                raise
            return  # it was removed in the meantime
        if not is_sound and snapshot in storage.snapshots:
            storage.on_damaged_snapshot(snapshot)

    def describe(self, wall_clock_ms: int) -> DescribeQuorumResponse:
        """How far everybody is; ApiError(NOT_LEADER_OR_FOLLOWER) from those who cannot know."""
        member = self._member
        core, role = member.core, member.core.role
        if not isinstance(role, Leader):
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "only the leader of the quorum knows")
        now_ms = member.now_ms()
        role.forget_silent(now_ms)

        def state(node: NodeId, progress: Progress) -> ReplicaState:
            def told(moment_ms: float) -> int:
                return -1 if moment_ms == float("-inf") else round(wall_clock_ms - (now_ms - moment_ms))

            return ReplicaState(
                replica_id=node,
                log_end_offset=progress.end_offset,
                last_fetch_timestamp=told(progress.fetched_at_ms),
                last_caught_up_timestamp=told(progress.caught_up_at_ms),
            )

        me = Progress(member.storage.end_offset, now_ms, now_ms)
        result = DescribeQuorumPartitionResult(
            partition_index=0,
            leader_id=core.me,
            leader_epoch=core.epoch,
            high_watermark=core.high_watermark,
            current_voters=[state(one, role.followers.get(one, me)) for one in core.voters],
            observers=[state(*one) for one in sorted(role.observers.items())],
        )
        return DescribeQuorumResponse(topics=[DescribeQuorumTopicResult(topic_name=wire.TOPIC, partitions=[result])])

    def _has_nothing_new(self, offset: int, known_high_watermark: int) -> bool:
        return offset >= self._member.storage.end_offset and self._member.core.high_watermark <= known_high_watermark

    def _still_leads(self, epoch: int) -> bool:
        return self._member.core.leads and self._member.core.epoch == epoch

    def _result(self, verdict: FetchVerdict, offset: int, max_bytes: int) -> PartitionFetchResult:
        member, answer = self._member, verdict.answer
        result = PartitionFetchResult(
            0, error_code=answer.error, current_leader=(wire.leader_id(answer.leader), answer.epoch)
        )
        if answer.error is ErrorCode.NONE:
            result.high_watermark = member.core.high_watermark
            result.log_start_offset = member.storage.start_offset
        if verdict.divergence is not None:
            result.diverging_epoch = verdict.divergence
        elif verdict.snapshot is not None:
            result.snapshot_id = verdict.snapshot
        elif answer.error is ErrorCode.NONE:
            result.records = member.storage.read(offset, max_bytes)
        return result

    def _check_cluster(self, cluster_id: str | None) -> None:
        known = self._member.cluster_id
        if cluster_id is not None and known is not None and cluster_id != known:
            raise ApiError(ErrorCode.INCONSISTENT_CLUSTER_ID, f"this is cluster {known}, not {cluster_id}")

    def _check_voter(self, voter_id: int) -> None:
        if voter_id not in (-1, self._member.me):
            raise ApiError(ErrorCode.INVALID_VOTER_KEY, f"this is node {self._member.me}, not {voter_id}")
