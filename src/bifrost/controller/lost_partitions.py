"""Finds leaders for partitions that lost all replicas in sync, where their topics allow it.

The active controller asks every replica that lives how far its log goes, and lets the one that has most lead. One that
does not answer may be the one, so it is asked again, until it is fenced, or has had a whole session. This file asks and
waits; `core/unclean_elections.py` decides who is asked, and who leads.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from math import inf
from typing import Final

from bifrost.controller.broker_links import BrokerLinks
from bifrost.controller.core.delta import Delta
from bifrost.controller.core.image import MetadataImage
from bifrost.controller.core.records import NO_LEADER
from bifrost.controller.core.unclean_elections import (
    LogEnd,
    LostPartition,
    Survivors,
    lost_partitions,
    recover_partitions,
)
from bifrost.controller.driver import Controller
from bifrost.errors import ApiError, ErrorCode
from bifrost.peers.connection import PeerError
from bifrost.protocol.messages.log_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from bifrost.settings import Settings

_log = logging.getLogger(__name__)

_LATEST: Final = -1
_ANY_REPLICA: Final = -2
_PAUSE_S: Final = 1.0

_Key = tuple[bytes, int]
"""Topic id and partition."""

LogEnds = dict[_Key, dict[int, LogEnd]]
"""How far logs go, by broker."""


class LostPartitions:
    """Works while its controller is active."""

    def __init__(self, controller: Controller, links: BrokerLinks, settings: Settings) -> None:
        self._controller = controller
        self._links = links
        self._settings = settings
        self._changed = asyncio.Event()
        self._lost_since: dict[_Key, float] = {}
        self._stopped = False

    def on_change(self, _image: MetadataImage, delta: Delta) -> None:
        """For the metadata's subscribers: a partition may be lost, a replica back, an election allowed."""
        if delta.brokers or delta.configs or any(not one.after.has_leader for one in delta.partitions.values()):
            self._changed.set()

    def on_active(self) -> None:
        self._lost_since.clear()
        self._changed.set()

    async def run(self) -> None:
        """Until `close`."""
        while not self._stopped:
            await self._changed.wait()
            self._changed.clear()
            if self._controller.is_active:
                await self._recover()

    def close(self) -> None:
        self._stopped = True
        self._changed.set()
        self._links.close()

    async def survivors_of(self, named: Sequence[tuple[str, int]] | None) -> LogEnds:
        """What those say who live, of the partitions without a leader that are named, or of all."""
        image, live = self._controller.image, self._controller.image.active_brokers()
        wanted = None if named is None else set(named)
        lost = [
            LostPartition(
                topic.topic_id,
                topic.name,
                partition,
                state.partition_epoch,
                tuple(broker for broker in state.replicas if broker in live),
            )
            for topic, partition, state in image.locate(image.index.led(NO_LEADER))
            if wanted is None or (topic.name, partition) in wanted
        ]
        return await self.log_ends(lost)

    async def log_ends(self, wanted: Iterable[LostPartition]) -> LogEnds:
        """What the live replicas of these partitions say; who does not answer is left out."""
        told = await self._told(wanted)
        found = {key: {one: end for one, end in ends.items() if end is not None} for key, ends in told.items()}
        return {key: ends for key, ends in found.items() if ends}

    async def _told(self, wanted: Iterable[LostPartition]) -> dict[_Key, dict[int, LogEnd | None]]:
        """The same, with those whose log is lost."""
        asked: dict[int, dict[str, list[int]]] = {}
        ids: dict[str, bytes] = {}
        for lost in wanted:
            ids[lost.topic] = lost.topic_id
            for broker_id in lost.live_replicas:
                asked.setdefault(broker_id, {}).setdefault(lost.topic, []).append(lost.partition)
        answers = await asyncio.gather(*(self._ask(broker_id, topics) for broker_id, topics in sorted(asked.items())))
        found: dict[_Key, dict[int, LogEnd | None]] = {}
        for broker_id, answer in zip(sorted(asked), answers):
            for topic in answer:
                for told in topic.partitions:
                    ends = found.setdefault((ids[topic.name], told.partition_index), {})
                    if told.error_code == ErrorCode.NONE:
                        ends[broker_id] = LogEnd(told.leader_epoch, told.offset)
                    elif told.error_code == ErrorCode.KAFKA_STORAGE_ERROR:
                        ends[broker_id] = None
        return found

    async def _recover(self) -> None:
        lost = lost_partitions(self._controller.image, self._settings)
        now = asyncio.get_running_loop().time()
        self._lost_since = {key: self._lost_since.get(key, now) for key in map(_key, lost)}
        if not lost:
            return
        told = await self._told(lost)
        survivors = []
        for one in lost:
            answers = told.get(_key(one), {})
            ends = {broker_id: end for broker_id, end in answers.items() if end is not None}
            if ends and (self._had_time(one) or all(broker_id in answers for broker_id in one.live_replicas)):
                survivors.append(Survivors(one.topic_id, one.partition, one.partition_epoch, ends))
        try:
            recovered = await self._controller.submit(
                lambda image: recover_partitions(image, self._settings, survivors)
            )
        except ApiError as error:
            _log.warning("no unclean election error=%s detail=%r", error.code.name, error.detail)
            recovered = []
        for done in recovered:
            _log.warning(
                "leader elected uncleanly, writes may be lost tp=%s-%d leader=%d end=%d",
                done.topic, done.partition, done.leader, done.log_end.end_offset,
            )  # fmt: skip
        if len(recovered) < len(lost):
            await asyncio.sleep(_PAUSE_S)
            self._changed.set()

    def _had_time(self, lost: LostPartition) -> bool:
        """Whether everybody who wanted to has said how much it has."""
        waited_s = asyncio.get_running_loop().time() - self._lost_since.get(_key(lost), inf)
        return waited_s * 1000 >= self._settings.broker_session_timeout_ms

    async def _ask(self, broker_id: int, topics: dict[str, list[int]]) -> Sequence[ListOffsetsTopicResponse]:
        request = ListOffsetsRequest(
            replica_id=_ANY_REPLICA,
            topics=[
                ListOffsetsTopic(
                    name=name,
                    partitions=[ListOffsetsPartition(partition_index=index, timestamp=_LATEST) for index in indexes],
                )
                for name, indexes in topics.items()
            ],
        )
        try:
            return (await self._links.ask(broker_id, request, ListOffsetsResponse)).topics
        except PeerError as error:
            _log.warning("broker does not tell how far its logs go id=%d reason=%r", broker_id, str(error))
            return []


def _key(lost: LostPartition) -> _Key:
    return lost.topic_id, lost.partition
