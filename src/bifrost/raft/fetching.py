"""The ear of a member: fetches from the leader what it has not heard yet, and makes it durable before it asks again.

The offset that it asks for is its acknowledgement, so a voter asks for nothing before what it holds is synced. Whoever
does not know the leader asks the voters in turn; one of them will. Who does not lead says so at once, so between two
questions that came to nothing there is a pause: an election must not be spent on answering those who wait for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from itertools import cycle
from random import Random
from typing import TYPE_CHECKING, Final

from bifrost.errors import ApiError, DiskFullError, ErrorCode, ProtocolError, StorageError
from bifrost.peers.connection import PeerError
from bifrost.protocol.fetch.request import VERSIONS, FetchPartition, FetchRequest, FetchTopic
from bifrost.protocol.fetch.request import encode_request as encode_fetch
from bifrost.protocol.fetch.response import PartitionFetchResult, decode_response
from bifrost.protocol.messages.quorum import (
    FetchSnapshotPartition,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    FetchSnapshotTopic,
)
from bifrost.protocol.messages.quorum import SnapshotId as WireSnapshotId
from bifrost.raft import wire
from bifrost.raft.core.messages import Answer, Divergence, SnapshotId
from bifrost.raft.links import Links
from bifrost.raft.storage import METADATA_TOPIC_ID
from bifrost.types import NodeId

if TYPE_CHECKING:
    from bifrost.raft.driver import QuorumMember

_log = logging.getLogger(__name__)
_VERSION: Final = VERSIONS[-1]
_MS: Final = 1000.0

LoadSnapshot = Callable[[SnapshotId, Iterator[bytes]], Awaitable[Callable[[], None]]]
"""Reads a snapshot, a little at a time. What it returns puts the result in the place of what there was, at once."""


class Fetcher:
    """Runs for as long as its member does, whoever leads."""

    def __init__(self, member: QuorumMember, links: Links, rng: Random, load_snapshot: LoadSnapshot) -> None:
        self._member = member
        self._links = links
        self._load_snapshot = load_snapshot
        others = [voter for voter in links.addresses if voter != member.me]
        rng.shuffle(others)
        self._others = cycle(others)

    def close(self) -> None:
        self._links.close()

    async def run(self) -> None:
        member = self._member
        while not member.stopping:
            target, epoch = self._target(), member.core.epoch
            if target is None:
                await member.changed()
                continue
            try:
                if not await self._fetch(target) and not self._is_wiser(target, epoch):
                    await asyncio.sleep(member.settings.retry_backoff_ms / _MS)
            except PeerError as error:
                if error.refused:
                    member.run(member.core.on_peer_dead(target, member.now_ms()))
                await asyncio.sleep(member.settings.retry_backoff_ms / _MS)
            except ApiError as error:
                _log.warning("metadata fetch failed from=%d error=%s detail=%r", target, error.code.name, error.detail)
                await asyncio.sleep(member.settings.timing.backoff_max_ms / _MS)

    def _target(self) -> NodeId | None:
        """Whom to ask: the leader; anybody, for an observer that knows of none. Voters are told by the leader."""
        core = self._member.core
        if core.fetches_from is not None or core.is_voter:
            return core.fetches_from
        return next(self._others)

    def _is_wiser(self, asked: NodeId, epoch: int) -> bool:
        """Whether a refusal has told whom to ask instead. A voter that knows nobody is told, and asks nobody."""
        core = self._member.core
        if core.fetches_from is None:
            return core.is_voter
        return (core.fetches_from, core.epoch) != (asked, epoch)

    async def _fetch(self, target: NodeId) -> bool:
        """Ask once, and take what comes; False if that was a refusal."""
        member, storage = self._member, self._member.storage
        core, settings = member.core, member.settings
        if core.is_voter:
            while storage.durable_offset < storage.end_offset:
                await member.changed()
        link = await self._links.to(target)
        epoch, offset = core.epoch, storage.end_offset
        asked = FetchPartition(
            0,
            epoch,
            offset,
            storage.last_epoch,
            -1,
            settings.fetch_bytes_max,
            replica_directory_id=member.life,
            high_watermark=core.high_watermark,
        )
        request = FetchRequest(
            max_wait_ms=settings.fetch_wait_ms,
            min_bytes=0,
            max_bytes=settings.fetch_bytes_max,
            topics=[FetchTopic("", METADATA_TOPIC_ID.bytes, [asked])],
            replica_id=member.me,
            cluster_id=member.cluster_id,
        )
        timeout_s = (settings.request_timeout_ms + settings.fetch_wait_ms) / _MS
        body = await link.send(
            lambda number: encode_fetch(_VERSION, number, link.client_id, request), True, timeout_s=timeout_s
        )
        try:
            response = decode_response(body, 0, _VERSION)
        except ProtocolError as error:
            link.close()
            raise PeerError(f"its answer makes no sense: {error}") from error
        if response.error_code != ErrorCode.NONE:
            raise ApiError(ErrorCode(response.error_code), "the fetch was refused")
        if len(response.topics) != 1 or len(response.topics[0].partitions) != 1:
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "the answer is not about the metadata")
        told = response.topics[0].partitions[0]
        if (core.epoch, storage.end_offset) == (epoch, offset):  # else somebody else was faster, and it is stale
            await self._take(target, told)
        return told.error_code == ErrorCode.NONE

    async def _take(self, target: NodeId, told: PartitionFetchResult) -> None:
        """Store what came, then let the core know."""
        member = self._member
        leader, epoch = (-1, member.core.epoch) if told.current_leader is None else told.current_leader
        error = ErrorCode(told.error_code)
        leader = target if error is ErrorCode.NONE else leader
        answer = Answer(epoch, wire.somebody(leader), error)
        divergence = None if told.diverging_epoch is None else Divergence(*told.diverging_epoch)
        if error is ErrorCode.NONE and told.snapshot_id is not None:
            await self._take_snapshot(target, SnapshotId(*told.snapshot_id))
            return
        full: DiskFullError | None = None
        if error is ErrorCode.NONE and divergence is None and told.records:
            assert isinstance(told.records, memoryview | bytes | bytearray)
            try:
                member.storage.append_fetched(memoryview(told.records))
            except DiskFullError as no_room:
                full = no_room  # the leader was heard of all the same
        member.run(member.core.on_fetch_answer(target, answer, divergence, told.high_watermark, member.now_ms()))
        if full is not None:
            raise _no_room(full)
        if error is ErrorCode.INVALID_VOTER_KEY:
            raise ApiError(error, f"another node {member.me} has been started since")

    async def _take_snapshot(self, target: NodeId, snapshot: SnapshotId) -> None:
        """Fetch a whole snapshot, and begin anew behind it."""
        member, snapshots = self._member, self._member.storage.snapshots
        core, epoch = member.core, member.core.epoch
        _log.info("metadata snapshot wanted from=%d end_offset=%d epoch=%d", target, *snapshot)
        try:
            install = await self._receive_snapshot(target, snapshot, epoch)
        except DiskFullError as error:
            if member.stopping:
                raise  # because it was no piece that found no room, but a vote
            raise _no_room(error) from None
        try:
            self._check_leader(target, epoch)
        except PeerError:
            snapshots.discard(snapshot)
            raise
        snapshots.add(snapshot)
        member.storage.restart_behind(snapshot)
        install()
        member.run(core.on_snapshot(snapshot))

    async def _receive_snapshot(self, target: NodeId, snapshot: SnapshotId, epoch: int) -> Callable[[], None]:
        """Fetch it piece by piece, check it, and give it its name; what `LoadSnapshot` made of it."""
        member, loop = self._member, asyncio.get_running_loop()
        unfinished = member.storage.snapshots.receive(snapshot)
        try:
            size = 1
            while unfinished.size < size:
                piece, size = await self._piece(target, snapshot, unfinished.size, epoch)
                self._check_leader(target, epoch)
                member.run(member.core.on_fetch_answer(target, Answer(epoch, target), None, -1, member.now_ms()))
                unfinished.write(piece)
            try:
                await loop.run_in_executor(None, unfinished.check)
            except StorageError as error:
                raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"what came is no snapshot: {error.detail}") from None
            install = await self._load_snapshot(snapshot, unfinished.changes())
            await loop.run_in_executor(None, unfinished.finish)
        except BaseException:
            unfinished.abandon()
            raise
        return install

    def _check_leader(self, target: NodeId, epoch: int) -> None:
        core = self._member.core
        if core.fetches_from != target or core.epoch != epoch:
            raise PeerError("the leader has changed")

    async def _piece(self, target: NodeId, snapshot: SnapshotId, position: int, epoch: int) -> tuple[bytes, int]:
        member = self._member
        link = await self._links.to(target)
        asked = FetchSnapshotPartition(
            partition=0,
            current_leader_epoch=epoch,
            snapshot_id=WireSnapshotId(end_offset=snapshot.end_offset, epoch=snapshot.epoch),
            position=position,
        )
        request = FetchSnapshotRequest(
            cluster_id=member.cluster_id,
            replica_id=member.me,
            max_bytes=member.settings.snapshot_bytes_max,
            topics=[FetchSnapshotTopic(name=wire.TOPIC, partitions=[asked])],
        )
        response = await link.ask(request, FetchSnapshotResponse, timeout_s=member.settings.request_timeout_ms / _MS)
        if response.error_code != ErrorCode.NONE or len(response.topics) != 1:
            raise ApiError(ErrorCode(response.error_code), "the snapshot was refused")
        told = response.topics[0].partitions[0]
        if told.error_code != ErrorCode.NONE:
            raise ApiError(ErrorCode(told.error_code), "the snapshot was refused")
        if told.position != position or not told.unaligned_records:
            raise ApiError(ErrorCode.POSITION_OUT_OF_RANGE, f"asked for byte {position}, told {told.position}")
        return told.unaligned_records, told.size


def _no_room(error: DiskFullError) -> ApiError:
    """What was stored is intact, and the leader keeps the rest: it is asked for again a little later."""
    return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"the disk is full: {error.path}")
