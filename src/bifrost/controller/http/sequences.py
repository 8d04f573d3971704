"""How far each partition goes: asked of the leaders.

A leader is asked in the leader epoch that this Odin knows (KIP-320). One that leads no more, or not yet, refuses: an
offset is that of the partition, and not of somebody who was left behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from bifrost.controller.broker_links import BrokerLinks
from bifrost.controller.core.image import MetadataImage
from bifrost.controller.http.leaders import check_led
from bifrost.controller.http.views import known_topic
from bifrost.errors import ApiError, ErrorCode
from bifrost.peers.connection import PeerError
from bifrost.protocol.messages.log_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

_LATEST: Final = -1


class EndOffsets:
    """Asks brokers, for one Odin."""

    def __init__(self, image: Callable[[], MetadataImage], links: BrokerLinks) -> None:
        self._image = image
        self._links = links

    async def of(self, topics: Sequence[str]) -> dict[str, list[int]]:
        """The end offset of every partition, by topic. ApiError if one cannot be had."""
        image = self._image()
        found: dict[str, list[int]] = {}
        by_leader: dict[int, list[ListOffsetsTopic]] = {}
        for name in topics:
            topic = known_topic(image, name)
            check_led(topic, range(len(topic.partitions)))
            found[name] = [-1] * len(topic.partitions)
            mine: dict[int, list[ListOffsetsPartition]] = {}
            for number, state in enumerate(topic.partitions):
                mine.setdefault(state.leader, []).append(
                    ListOffsetsPartition(
                        partition_index=number, current_leader_epoch=state.leader_epoch, timestamp=_LATEST
                    )
                )
            for leader, partitions in mine.items():
                by_leader.setdefault(leader, []).append(ListOffsetsTopic(name=name, partitions=partitions))
        answers = await asyncio.gather(*(self._ask(leader, asked) for leader, asked in sorted(by_leader.items())))
        for answer in answers:
            for told in answer.topics:
                for one in told.partitions:
                    if one.error_code:
                        raise ApiError(ErrorCode(one.error_code), f"the leader of {told.name}-{one.partition_index}")
                    found[told.name][one.partition_index] = one.offset
        return found

    def close(self) -> None:
        self._links.close()

    async def _ask(self, broker_id: int, topics: list[ListOffsetsTopic]) -> ListOffsetsResponse:
        try:
            return await self._links.ask(broker_id, ListOffsetsRequest(topics=topics), ListOffsetsResponse)
        except PeerError as error:
            raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {broker_id} does not answer: {error}") from error
