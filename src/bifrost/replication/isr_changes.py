"""Asks the controller for the ISRs that leaders on this node propose, many partitions in one request.

One request is under way at a time; what is proposed meanwhile goes into the next. A lost answer leaves open whether the
controller has agreed, so the same is asked again until there is an answer, or until the metadata has told it. Kafka:
DefaultAlterPartitionManager.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final
from uuid import UUID

from bifrost.errors import ApiError, ErrorCode
from bifrost.peers.retries import Retries
from bifrost.protocol.messages.replicas import (
    AlterPartitionPartition,
    AlterPartitionPartitionResult,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionTopic,
    BrokerState,
)
from bifrost.replication.core.leader import Member, PartitionLeader
from bifrost.replication.partition import Partition
from bifrost.types import NodeId

_log = logging.getLogger(__name__)

_PAUSE_S: Final = 0.05
_PAUSE_MAX_S: Final = 1.0
_REFUSED: Final = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.INVALID_REQUEST})
"""Nothing has changed."""
_OVERTAKEN: Final = frozenset(
    {
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""Metadata is on its way that this broker has not heard of."""

_State = tuple[int, int]
"""Leader epoch and partition epoch: what a proposal is about."""

Ask = Callable[[AlterPartitionRequest], Awaitable[AlterPartitionResponse]]
"""Asks the active controller, wherever it is; ApiError if there is no answer, or if it refuses the whole."""


class IsrChanges:
    """What the leaders of one broker propose."""

    def __init__(self, ask: Ask, *, broker_id: NodeId, broker_epoch: Callable[[], int]) -> None:
        self._ask = ask
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._waiting: dict[Partition, None] = {}
        self._something_waits = asyncio.Event()
        self._stopped = False

    def propose(self, partition: Partition, _isr: tuple[Member, ...]) -> None:
        """The leader of this partition wants another ISR; which one is asked when it is its turn."""
        self._waiting[partition] = None
        self._something_waits.set()

    async def run(self) -> None:
        """Ask, until `close`."""
        retries = Retries(_PAUSE_S, _PAUSE_MAX_S)
        while not self._stopped:
            self._something_waits.clear()
            asked = {one: _state(leader) for one in self._waiting if (leader := one.leading) is not None}
            self._waiting.clear()
            request = self._request(list(asked))
            if not request.topics:
                await self._something_waits.wait()
                continue
            try:
                answer = await self._ask(request)
            except ApiError as error:
                if retries.is_news(error):
                    _log.warning("isr change not answered error=%s detail=%r", error.code.name, error.detail)
                await asyncio.sleep(retries.pause_s())
                self._again(asked)
                continue
            retries.succeeded()
            if self._on_answer(asked, answer):
                await asyncio.sleep(_PAUSE_S)

    def close(self) -> None:
        self._stopped = True
        self._something_waits.set()

    def _request(self, partitions: list[Partition]) -> AlterPartitionRequest:
        topics: dict[bytes, AlterPartitionTopic] = {}
        for partition in partitions:
            leader = partition.leader
            isr = leader.proposed_isr()
            if isr is None:
                continue
            topic = topics.get(partition.topic_id)
            if topic is None:
                topic = topics[partition.topic_id] = AlterPartitionTopic(
                    topic_id=UUID(bytes=partition.topic_id), partitions=[]
                )
            own = self._broker_epoch()
            topic.partitions.append(
                AlterPartitionPartition(
                    partition_index=partition.tp.partition,
                    leader_epoch=leader.epoch,
                    new_isr_with_epochs=[
                        BrokerState(broker_id=broker, broker_epoch=own if broker == self._broker_id else epoch)
                        for broker, epoch in isr
                    ],
                    partition_epoch=leader.partition_epoch,
                )
            )
        return AlterPartitionRequest(
            broker_id=self._broker_id, broker_epoch=self._broker_epoch(), topics=[*topics.values()]
        )

    def _on_answer(self, asked: dict[Partition, _State], answer: AlterPartitionResponse) -> bool:
        """Tell each leader; whether some of it has to be asked again."""
        told = {(topic.topic_id.bytes, one.partition_index): one for topic in answer.topics for one in topic.partitions}
        again = {}
        for partition, state in asked.items():
            leader = partition.leading
            if leader is None or _state(leader) != state:
                continue  # the metadata was faster
            result = told.get((partition.topic_id, partition.tp.partition))
            if result is None or not _settle(partition, leader, result):
                again[partition] = state
        self._again(again)
        return bool(again)

    def _again(self, asked: dict[Partition, _State]) -> None:
        for partition, state in asked.items():
            leader = partition.leading
            if leader is not None and _state(leader) == state and leader.proposed_isr() is not None:
                self._waiting[partition] = None
                self._something_waits.set()


def _state(leader: PartitionLeader) -> _State:
    return leader.epoch, leader.partition_epoch


def _settle(partition: Partition, leader: PartitionLeader, result: AlterPartitionPartitionResult) -> bool:
    """Tell the leader what the controller says; False if it should be asked again."""
    code, before = ErrorCode(result.error_code), leader.isr
    if code is ErrorCode.NEW_LEADER_ELECTED or (code is ErrorCode.NONE and result.leader_epoch != leader.epoch):
        _log.info("replicas moved tp=%s epoch=%d", partition.tp, leader.epoch)
        return True  # the metadata will tell who leads in the next epoch, and whom
    if code is ErrorCode.NONE:
        partition.on_proposal_accepted(result.isr, result.leader_epoch, result.partition_epoch)
        change = "shrunk" if len(leader.isr) < len(before) else "grown"
        _log.info("isr %s tp=%s isr=%s epoch=%d", change, partition.tp, _text(leader.isr), leader.epoch)
        return True
    _log.warning("isr change refused tp=%s error=%s isr=%s", partition.tp, code.name, _text(before))
    if code in _REFUSED:
        leader.on_proposal_refused()
        return True
    # Where the controller knows a later state, that may be the very one that was asked for, in an answer that was lost.
    # So the proposal still counts, until the metadata tells.
    return code in _OVERTAKEN


def _text(isr: frozenset[NodeId]) -> str:
    return ",".join(map(str, sorted(isr)))
