"""What Odin's HTTP side sees of its node, and when it is built: only on a controller whose settings ask for it.

What is below `controller/http` is imported here and nowhere else, and what it needs of others only behind its door
(`controller/http/door.py`): a node that nobody asks over HTTP must not pay for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final, TypeVar

from bifrost.broker.controller_channel import ControllerChannel
from bifrost.broker.odin import Odin
from bifrost.broker.registry import answer_here, unexpected
from bifrost.controller.broker_links import BrokerLinks
from bifrost.controller.core.counts import PartitionCounts
from bifrost.controller.core.image import MetadataImage
from bifrost.errors import ApiError, ErrorCode
from bifrost.peers.names import node_name
from bifrost.peers.transport import Transport
from bifrost.protocol.messages.quorum import (
    DescribeQuorumPartition,
    DescribeQuorumPartitionResult,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumTopic,
)
from bifrost.protocol.schema import Message
from bifrost.raft import wire
from bifrost.raft.core.roles import Follower
from bifrost.settings import Settings

if TYPE_CHECKING:
    from bifrost.controller.http.door import HttpDoor
    from bifrost.controller.http.side import Standing

_MS: Final = 1000.0
_PATIENCE: Final = 2.5
"""In requests: one to find the active Odin, one for its answer, and some for this node's own part."""
_ALL_OF_IT: Final = DescribeQuorumRequest(
    topics=[DescribeQuorumTopic(topic_name=wire.TOPIC, partitions=[DescribeQuorumPartition(partition_index=0)])]
)

R = TypeVar("R")
T = TypeVar("T", bound=Message)


class HttpSide:
    """One Odin, for `controller/http`. Make it before the log is applied, so that it sees every change."""

    def __init__(self, odin: Odin, settings: Settings, transport: Transport) -> None:
        from bifrost.controller.http.history import EventHistory
        from bifrost.controller.http.sequences import EndOffsets

        self.node_id = settings.node_id
        self.settings = settings
        self.metrics = odin.metrics
        self.history = EventHistory(settings.http_events_max)
        self.counts = PartitionCounts(odin.replica.image)
        self._odin = odin
        request_s = settings.controller_quorum_request_timeout_ms / _MS
        self._patience_s = _PATIENCE * request_s

        def channel(purpose: str) -> ControllerChannel:
            patience_ms = settings.controller_quorum_request_timeout_ms
            return ControllerChannel(odin, transport, answer_here, patience_ms=patience_ms, purpose=purpose)

        self._questions = channel("http-questions")
        self._changes = channel("http-changes")
        self._offsets = EndOffsets(
            lambda: odin.replica.image,
            BrokerLinks(
                lambda: odin.replica.image,
                transport,
                node_name(settings.node_id, "http"),
                listener=settings.inter_broker_listener_name,
                timeout_s=request_s,
            ),
        )
        odin.replica.let_witness(self.history)
        odin.replica.subscribe(self.counts.on_change)

    @property
    def image(self) -> MetadataImage:
        return self._odin.replica.image

    def standing(self) -> Standing:
        from bifrost.controller.http.side import Standing

        core = self._odin.member.core
        hears = isinstance(core.role, Follower) and core.role.has_fetched and not core.role.is_leader_lost
        return Standing(
            role=type(core.role).__name__.lower(),
            epoch=core.epoch,
            leader=core.leader,
            high_watermark=core.high_watermark,
            log_end_offset=self._odin.member.end_offset,
            is_active=self._odin.controller.is_active,
            hears_leader=hears or self._odin.controller.is_active,
        )

    def followers(self) -> DescribeQuorumPartitionResult | None:
        if not self._odin.controller.is_active:
            return None
        return wire.only_partition(self._odin.describe_followers().topics)

    async def quorum(self) -> DescribeQuorumPartitionResult:
        if self._odin.member.core.leader is None:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "this Odin knows of no leader of the quorum")
        answer = await self._in_time(self._questions.ask(_ALL_OF_IT, DescribeQuorumResponse))
        told = wire.only_partition(answer.topics)
        if told.error_code:
            raise ApiError(ErrorCode.NOT_CONTROLLER, told.error_message or "the leader of the quorum has changed")
        return told

    async def until_current(self) -> None:
        """The leader's high watermark, once a majority has confirmed that it leads, is what this image has to reach."""
        end = (await self.quorum()).high_watermark
        await self._in_time(self._until_applied(end))

    async def change(self, request: Message, kind: type[T]) -> T:
        answer = await self._in_time(self._changes.change(request, kind))
        try:
            await self.until_current()  # so that whoever asks here next finds the change
        except ApiError:
            pass  # it is made all the same
        return answer

    async def end_offsets(self, topics: list[str]) -> dict[str, list[int]]:
        return await self._offsets.of(topics)

    def on_unexpected(self, what: str, error: Exception) -> None:
        unexpected(self._odin, what, error)

    def close(self) -> None:
        self._questions.close()
        self._changes.close()
        self._offsets.close()

    async def _until_applied(self, end: int) -> None:
        """Committed changes are applied in slices, on the leader too: what it has committed it may not show yet."""
        while self._odin.replica.next_offset < end:
            await self._odin.member.changed()

    async def _in_time(self, answer: Coroutine[Any, Any, R]) -> R:
        """Nobody who asks over HTTP waits for long: HOGO LO is an answer, too."""
        try:
            return await asyncio.wait_for(answer, self._patience_s)
        except TimeoutError:
            raise ApiError(
                ErrorCode.NOT_CONTROLLER, "the quorum does not answer; a change may have been made all the same"
            ) from None


def open_http(side: HttpSide, settings: Settings) -> HttpDoor:
    """The door, not yet open."""
    from bifrost.controller.http.door import HttpDoor

    assert settings.http is not None, "this node does not speak HTTP"
    return HttpDoor(side, settings.http, settings.http_token)
