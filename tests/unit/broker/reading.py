"""A consumer that asks one node for partition 0 of "orders", whoever leads that."""

from __future__ import annotations

import asyncio
import random
from types import SimpleNamespace
from typing import Any

from bifrost.broker.connection import Buffers, Connection, Reply
from bifrost.broker.fetch_sessions import FetchSessions
from bifrost.broker.handlers.fetch import fetch
from bifrost.protocol.apis import ApiKey
from bifrost.protocol.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionFetchResult,
    TopicFetchResult,
    decode_response,
    encode_request,
)
from bifrost.protocol.frame import has_flexible_response_header, read_request_header, read_response_header
from bifrost.protocol.wire import ZERO_UUID
from tests.unit.broker.hosting import Hosting
from tests.unit.broker.other_leaders import ME, Leaders
from tests.unit.broker.stand_ins import Client, Script, no_quotas, turns


class Reading(Script):
    """The node, and the consumer."""

    def __init__(self, hosting: Hosting) -> None:
        super().__init__()
        self.leaders = Leaders()
        self.partition = hosting.partition("orders")
        self.broker: Any = SimpleNamespace(
            node_id=ME,
            image=hosting.image,
            forwarding=self.leaders.forwarding(hosting.image),
            loop=asyncio.get_running_loop(),
            metadata=hosting.metadata,
            replicas=hosting.replicas,
            on_storage_error=hosting.logs.take_offline,
            quotas=no_quotas(),
            sessions=FetchSessions(10, random.Random(1)),
            settings=hosting.settings,
            waiters=hosting.waiters,
        )
        self.client = Client(self)

    def dispatch(self, connection: Connection, frame: memoryview) -> Buffers | Reply | None:
        header, at = read_request_header(frame)
        return fetch(self.broker, connection, header, frame, at)

    async def read(
        self,
        offset: int,
        *,
        version: int = 12,
        client_id: str = "client",
        wait_ms: int = 0,
        min_bytes: int = 1,
        last_epoch: int = -1,
    ) -> None:
        wanted = FetchTopic("orders", ZERO_UUID, [FetchPartition(0, -1, offset, last_epoch, -1, 1 << 20)])
        self._version = version
        request = FetchRequest(wait_ms, min_bytes, 1 << 20, [wanted])
        self.client.sends(encode_request(version, 1, client_id, request))
        await turns(8)

    @property
    def told(self) -> PartitionFetchResult:
        (frame,) = self.client.peer.answers()
        flexible = has_flexible_response_header(ApiKey.FETCH, self._version)
        _, at = read_response_header(frame, 0, flexible)
        return decode_response(frame, at, self._version).topics[0].partitions[0]

    @property
    def is_passed_on(self) -> bool:
        return bool(self.leaders.links)

    @property
    def asked(self) -> list[FetchRequest]:
        """What the other leader was asked, so far."""
        (link,) = self.leaders.links
        return [request for _, request in link.asked if isinstance(request, FetchRequest)]

    async def leader_says(self, result: PartitionFetchResult) -> None:
        (link,) = self.leaders.links
        link.answer_fetch(FetchResponse([TopicFetchResult("orders", ZERO_UUID, [result])]))
        await turns(8)
