"""Producer ids for this broker's clients, taken from the controller in blocks so that most cost nothing."""

from __future__ import annotations

import asyncio

from bifrost.controller.driver import Controller
from bifrost.types import NodeId


class ProducerIds:
    """Hands out ids; each is handed out once in the life of the cluster."""

    def __init__(self, controller: Controller, node_id: NodeId, broker_epoch: int) -> None:
        self._controller = controller
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._next = 0
        self._end = 0
        self._refill = asyncio.Lock()

    async def next_id(self) -> int:
        async with self._refill:
            if self._next == self._end:
                block = await self._controller.allocate_producer_ids(
                    broker_id=self._node_id, broker_epoch=self._broker_epoch
                )
                self._next, self._end = block.start, block.stop
            self._next += 1
            return self._next - 1
