"""Follows one leader: one connection and one fetch session for all partitions that it leads and this node follows.

The offset that is asked for is this replica's acknowledgement, so nothing is asked before what came last is synced.
One request is under way, and the leader answers it when there is something to say; a second one follows it only to
name partitions that came or went meanwhile, and makes the leader answer the first. A partition whose catching up is
throttled rests while the node has fetched more than it may; once it has caught up, writes may wait for it, and it rests
no more.

Must never: store an answer in a partition that follows somebody else by now, or the same leader in another epoch.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import dataclass
from typing import Final

from bifrost.errors import ApiError, DiskFullError, ErrorCode, ProtocolError, StorageError
from bifrost.log.replicated import expected_offset
from bifrost.peers.connection import PeerConnection, PeerError, connect
from bifrost.peers.names import node_name
from bifrost.protocol.fetch import FetchResponse, PartitionFetchResult, decode_response
from bifrost.protocol.fetch.request import VERSIONS
from bifrost.protocol.fetch.request import encode_request as encode_fetch
from bifrost.protocol.messages.log_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from bifrost.replication.core.follower import Append, FindEnd, Pause, RestartAt, TruncateTo, has_caught_up, judge
from bifrost.replication.fetch_session import FollowerSession
from bifrost.replication.following_node import FollowingNode
from bifrost.replication.partition import Partition
from bifrost.types import NodeId

_log = logging.getLogger(__name__)

_VERSION: Final = VERSIONS[-1]
_MS: Final = 1000.0
_PAUSE_MIN_S: Final = 0.02
_FAILURES_TOLD: Final = 4
"""A leader that stops closes its connections a moment before its successor is known: nothing to warn of."""
_LATEST: Final = -1
_IN_ONE_GO_BYTES: Final = 1 << 20
"""What is stored before others have a turn on the loop."""
_SESSION_ERRORS: Final = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


_REMEDY: Final = (
    " remedy='the leader's copy is damaged: while another replica is in sync, stop the leader, remove the partition's"
    " directory there and start it again, and it is rebuilt'"
)


@dataclass(slots=True, eq=False)
class _Followed:
    partition: Partition
    epoch: int
    since: int
    """The first request that names it in this epoch: answers to those before are of another one."""
    failures: int = 0
    resume: asyncio.TimerHandle | None = None
    is_throttled: bool = False
    """Left out because of the budget, not because of a failure."""
    has_caught_up: bool = False
    """The leader may count on it, for all that this replica knows, as long as the epoch lasts."""


class Fetcher:
    """Runs until `close`, whether the leader can be reached or not."""

    def __init__(self, leader_id: NodeId, node: FollowingNode) -> None:
        self.leader_id = leader_id
        self._node = node
        self._loop = asyncio.get_running_loop()
        self._session = FollowerSession()
        self._followed: dict[tuple[bytes, int], _Followed] = {}
        self._unsynced: dict[Partition, None] = {}
        self._pulse: asyncio.Future[None] = self._loop.create_future()
        self._requests = 0
        self._failures = 0
        self._stopped = False

    def follow(self, partition: Partition) -> None:
        """Fetch this partition, in its present leader epoch."""
        self._release(partition)
        key = (partition.topic_id, partition.tp.partition)
        followed = self._followed[key] = _Followed(partition, partition.leader_epoch, self._requests)
        self._put(partition)
        self._throttle(followed)
        self._wake()

    def on_budget_changed(self) -> None:
        """Whoever waits for the budget may look again."""
        for followed in self._followed.values():
            self._look_again(followed)

    def look_again(self, partition: Partition) -> None:
        """Whether it is throttled may have changed: by its configs, or because it is in sync now."""
        followed = self._followed.get((partition.topic_id, partition.tp.partition))
        if followed is not None:
            self._look_again(followed)

    def forget(self, partition: Partition) -> None:
        """Somebody else leads it, or this node does not host it any more."""
        self._release(partition)
        self._session.drop(partition)
        self._wake()

    def on_synced(self, partition: Partition) -> None:
        """What this partition's log holds is on disk, or some of it."""
        if partition in self._unsynced and partition.is_synced:
            del self._unsynced[partition]
            if not self._unsynced:
                self._wake()

    def on_start_stored(self, partition: Partition) -> None:
        """The leader should know where this log begins: somebody may wait for that (KIP-107)."""
        followed = self._followed.get((partition.topic_id, partition.tp.partition))
        if followed is not None and followed.resume is None:
            self._put(partition)
            self._wake()

    def close(self) -> None:
        self._stopped = True
        for followed in self._followed.values():
            if followed.resume is not None:
                followed.resume.cancel()
        self._wake()

    async def run(self) -> None:
        """Fetch, and begin anew whenever the connection is lost."""
        while not self._stopped:
            if not self._followed:
                await self._changed()
                continue
            try:
                await self._converse()
            except PeerError as error:
                self._failures += 1
                if self._failures == _FAILURES_TOLD:
                    _log.warning("leader not reached id=%d reason=%r", self.leader_id, str(error))
                await asyncio.sleep(self._pause_s(self._failures))

    async def _converse(self) -> None:
        """On one connection, until it breaks or nothing is followed any more."""
        link = await self._connect()
        self._session.reset()
        answers: deque[asyncio.Task[memoryview]] = deque()
        try:
            while self._followed and not self._stopped:
                if self._may_ask(len(answers)):
                    answers.append(self._ask(link))
                elif answers and answers[0].done():
                    number = self._requests - len(answers)
                    await self._on_answer(link, answers.popleft().result(), number)
                else:
                    await self._changed()
        finally:
            link.close()
            for answer in answers:
                answer.cancel()
            await asyncio.gather(*answers, return_exceptions=True)

    async def _connect(self) -> PeerConnection:
        address = self._node.address_of(self.leader_id)
        if address is None:
            raise PeerError(f"broker {self.leader_id} has no address")
        settings = self._node.settings
        link = PeerConnection(
            node_name(self._node.broker_id, "fetcher"), answer_bytes_max=2 * settings.max_bytes + (64 << 20)
        )
        return await connect(
            self._node.transport, address.host, address.port, link, timeout_s=settings.timeout_ms / _MS
        )

    def _may_ask(self, under_way: int) -> bool:
        if self._unsynced or not len(self._session):
            return False
        return under_way == 0 or (under_way == 1 and self._session.has_news)

    def _ask(self, link: PeerConnection) -> asyncio.Task[memoryview]:
        node, settings = self._node, self._node.settings
        request = self._session.next_request(
            broker_id=node.broker_id,
            broker_epoch=node.broker_epoch(),
            max_wait_ms=settings.max_wait_ms,
            max_bytes=settings.max_bytes,
            partition_max_bytes=settings.partition_max_bytes,
        )
        sending = link.send(
            lambda number: encode_fetch(_VERSION, number, link.client_id, request),
            True,
            timeout_s=settings.timeout_ms / _MS,
        )
        self._requests += 1
        task = asyncio.ensure_future(sending)
        task.add_done_callback(lambda _: self._wake())
        return task

    async def _on_answer(self, link: PeerConnection, body: memoryview, number: int) -> None:
        """The answer to the request of this number."""
        try:
            answer: FetchResponse = decode_response(body, 0, _VERSION)
        except ProtocolError as error:
            raise PeerError(f"its answer makes no sense: {error}") from error
        code = ErrorCode(answer.error_code)
        if code in _SESSION_ERRORS:
            self._session.reset()
            return
        if code is not ErrorCode.NONE:
            raise PeerError(f"it refuses: {code.name}")
        self._failures = 0
        self._session.on_answer(answer.session_id)
        size = 0
        unsure: list[tuple[_Followed, PartitionFetchResult]] = []
        for topic in answer.topics:
            for result in topic.partitions:
                followed = self._followed.get((topic.topic_id, result.index))
                if followed is not None and followed.resume is None and followed.since <= number:
                    size += self._on_result(followed, result, unsure)
                if size >= _IN_ONE_GO_BYTES:
                    size = 0
                    await asyncio.sleep(0)
        for followed, result in unsure:
            await self._find_end(link, followed, result)

    async def _find_end(self, link: PeerConnection, followed: _Followed, result: PartitionFetchResult) -> None:
        """Ask where the leader's log ends, and judge again."""
        topic, index = followed.partition.tp
        wanted = ListOffsetsPartition(partition_index=index, current_leader_epoch=followed.epoch, timestamp=_LATEST)
        request = ListOffsetsRequest(
            replica_id=self._node.broker_id, topics=[ListOffsetsTopic(name=topic, partitions=[wanted])]
        )
        answer = await link.ask(request, ListOffsetsResponse, timeout_s=self._node.settings.timeout_ms / _MS)
        if self._followed.get((followed.partition.topic_id, index)) is not followed:
            return
        told = [one for each in answer.topics for one in each.partitions if one.error_code == ErrorCode.NONE]
        if told:
            self._on_result(followed, result, [], leader_end=told[0].offset)
        else:
            self._pause(followed)

    def _on_result(
        self,
        followed: _Followed,
        result: PartitionFetchResult,
        unsure: list[tuple[_Followed, PartitionFetchResult]],
        leader_end: int | None = None,
    ) -> int:
        """Do what follows from the answer for one partition; how many bytes it had."""
        partition, epoch = followed.partition, followed.epoch
        error = ErrorCode(result.error_code)
        try:
            match judge(partition.log, error, result.diverging_epoch, result.log_start_offset, leader_end):
                case Append():
                    return self._store(followed, result)
                case FindEnd():
                    unsure.append((followed, result))
                case TruncateTo(offset):
                    _log.info("log parts from its leader's tp=%s offset=%d epoch=%d", partition.tp, offset, epoch)
                    partition.truncate_to(offset, epoch, self._node.clock.now_ms())
                    self._put(partition)
                case RestartAt(offset):
                    _log.warning("log begins anew, its leader has deleted more tp=%s offset=%d", partition.tp, offset)
                    partition.restart_at(offset, epoch, self._node.clock.now_ms())
                    self._put(partition)
                case Pause(expected=expected):
                    level = logging.DEBUG if expected else logging.WARNING
                    _log.log(level, "fetch refused tp=%s error=%s epoch=%d", partition.tp, error.name, epoch)
                    self._pause(followed)
        except DiskFullError as full:
            _log.warning("nothing is fetched, disk full tp=%s path=%s", partition.tp, full.path)
            self._pause(followed)
        except StorageError as failure:
            self._node.on_storage_error(failure)
        except ApiError as refused:
            self._tell_refused(followed, refused)
            self._pause(followed)
        return 0

    def _tell_refused(self, followed: _Followed, refused: ApiError) -> None:
        """What the leader sends cannot be stored. It sends the same again and again, which is told ever less often."""
        failures = followed.failures
        if failures & (failures - 1):
            return
        _log.error(
            "fetched batches refused tp=%s leader=%d error=%s detail=%r attempts=%d%s",
            followed.partition.tp,
            self.leader_id,
            refused.code.name,
            refused.detail,
            failures + 1,
            _REMEDY if refused.code is ErrorCode.CORRUPT_MESSAGE else "",
        )

    def _store(self, followed: _Followed, result: PartitionFetchResult) -> int:
        partition, epoch = followed.partition, followed.epoch
        records = result.records
        size = 0
        if records:
            assert isinstance(records, memoryview), "a decoded answer holds bytes"
            size = len(records)
            log = partition.log
            expected = expected_offset(records, log.log_start_offset, log.log_end_offset)
            if int.from_bytes(records[:8]) >= expected:  # else two requests asked for the same
                partition.append_fetched(records, epoch, self._node.clock.now_ms())
            self._put(partition)
            if self._may_rest(followed):
                self._node.budget.spend(size, self._now_ms())
        if not followed.has_caught_up:
            followed.has_caught_up = has_caught_up(partition.log, result.high_watermark)
            self._throttle(followed)
        partition.believe(result.high_watermark, result.log_start_offset, epoch)
        followed.failures = 0
        return size

    def _put(self, partition: Partition) -> None:
        """Ask for what follows this log, once all of it is on disk: a leader before may have left more than that."""
        self._session.put(partition)
        if not partition.is_synced:
            self._unsynced[partition] = None

    def _pause(self, followed: _Followed) -> None:
        """Leave the partition out for a while: longer each time."""
        followed.failures += 1
        self._leave_out(followed, self._pause_s(followed.failures))

    def _throttle(self, followed: _Followed) -> None:
        """Leave the partition out for as long as the budget says, if it is one that spends from it."""
        if not self._may_rest(followed):
            return
        wait_ms = self._node.budget.wait_ms(self._now_ms())
        if wait_ms > 0:
            followed.is_throttled = True
            self._leave_out(followed, wait_ms / _MS)

    def _may_rest(self, followed: _Followed) -> bool:
        """Whether it spends from the budget."""
        if self._node.budget.rate is None or followed.has_caught_up:
            return False
        return self._node.is_throttled(followed.partition)

    def _leave_out(self, followed: _Followed, seconds: float) -> None:
        self._session.drop(followed.partition)
        followed.resume = self._loop.call_later(seconds, self._resume, followed)

    def _look_again(self, followed: _Followed) -> None:
        if followed.is_throttled and followed.resume is not None:
            followed.resume.cancel()
            self._resume(followed)

    def _resume(self, followed: _Followed) -> None:
        followed.resume, followed.is_throttled = None, False
        self._put(followed.partition)
        self._throttle(followed)
        self._wake()

    def _now_ms(self) -> float:
        return self._loop.time() * _MS

    def _pause_s(self, failures: int) -> float:
        return min(_PAUSE_MIN_S * (1 << min(failures - 1, 16)), self._node.settings.pause_max_ms / _MS)

    def _release(self, partition: Partition) -> None:
        followed = self._followed.pop((partition.topic_id, partition.tp.partition), None)
        if followed is not None and followed.resume is not None:
            followed.resume.cancel()
        self._unsynced.pop(partition, None)

    async def _changed(self) -> None:
        await self._pulse

    def _wake(self) -> None:
        pulse, self._pulse = self._pulse, self._loop.create_future()
        if not pulse.done():  # who waited for it was cancelled
            pulse.set_result(None)
