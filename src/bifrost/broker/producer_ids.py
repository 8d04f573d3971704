"""Producer ids for this broker's clients, taken from the controller in blocks so that most cost nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from bifrost.broker.controller_channel import ControllerChannel
from bifrost.protocol.messages.producers import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from bifrost.types import NodeId


class ProducerIds:
    """Hands out ids; each is handed out once in the life of the cluster."""

    def __init__(self, channel: ControllerChannel, node_id: NodeId, broker_epoch: Callable[[], int]) -> None:
        self._channel = channel
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._next = 0
        self._end = 0
        self._refill = asyncio.Lock()

    async def next_id(self) -> int:
        async with self._refill:
            if self._next == self._end:
                request = AllocateProducerIdsRequest(broker_id=self._node_id, broker_epoch=self._broker_epoch())
                block = await self._channel.ask(request, AllocateProducerIdsResponse)
                self._next = block.producer_id_start
                self._end = block.producer_id_start + block.producer_id_len
            self._next += 1
            return self._next - 1
