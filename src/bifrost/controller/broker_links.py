"""Connections on which a controller asks brokers something: one for each, opened when it is needed and kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

from bifrost.controller.core.image import MetadataImage
from bifrost.controller.core.records import Endpoint
from bifrost.peers.connection import PeerConnection, PeerError, connect
from bifrost.peers.transport import Transport
from bifrost.protocol.schema import Message

_ANSWER_BYTES_MAX: Final = 16 << 20

T = TypeVar("T")


class _Link(NamedTuple):
    epoch: int
    connection: PeerConnection


class BrokerLinks:
    """A broker that was started again is asked on a new connection."""

    def __init__(
        self,
        image: Callable[[], MetadataImage],
        transport: Transport,
        client_id: str,
        *,
        listener: str | None,
        timeout_s: float,
    ) -> None:
        self._image = image
        self._transport = transport
        self._client_id = client_id
        self._listener = listener
        self._timeout_s = timeout_s
        self._links: dict[int, _Link] = {}
        self._opening: dict[int, asyncio.Lock] = {}

    async def ask(self, broker_id: int, request: Message, kind: type[T]) -> T:
        """The broker's answer, or PeerError."""
        connection = await self._to(broker_id)
        return await connection.ask(request, kind, timeout_s=self._timeout_s)

    def close(self) -> None:
        for link in self._links.values():
            link.connection.close()
        self._links.clear()

    async def _to(self, broker_id: int) -> PeerConnection:
        async with self._opening.setdefault(broker_id, asyncio.Lock()):
            broker = self._image().brokers.get(broker_id)
            where = None if broker is None else self._endpoint(broker.endpoints)
            if broker is None or where is None:
                raise PeerError("nobody knows where it is")
            known = self._links.get(broker_id)
            if known is not None and known.connection.is_open and known.epoch == broker.epoch:
                return known.connection
            if known is not None:
                known.connection.close()
            fresh = PeerConnection(self._client_id, answer_bytes_max=_ANSWER_BYTES_MAX)
            await connect(self._transport, where.host, where.port, fresh, timeout_s=self._timeout_s)
            self._links[broker_id] = _Link(broker.epoch, fresh)
            return fresh

    def _endpoint(self, endpoints: Sequence[Endpoint]) -> Endpoint | None:
        """The listener that brokers use among themselves, where this node knows its name."""
        named = [one for one in endpoints if one.listener == self._listener]
        return next(iter(named or endpoints), None)
