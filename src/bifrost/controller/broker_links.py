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
            if broker is None or not broker.endpoints:
                raise PeerError("nobody knows where it is")
            known = self._links.get(broker_id)
            if known is not None and known.connection.is_open and known.epoch == broker.epoch:
                return known.connection
            if known is not None:
                known.connection.close()
            epoch, fresh = broker.epoch, await self._connected(broker.endpoints)
            self._links[broker_id] = _Link(epoch, fresh)
            return fresh

    async def _connected(self, endpoints: Sequence[Endpoint]) -> PeerConnection:
        """At the listener that brokers use among themselves, where this node knows its name, or else at the first of
        them that can be reached: some may be for others only."""
        failures = []
        for one in sorted(endpoints, key=lambda one: one.listener != self._listener):
            fresh = PeerConnection(self._client_id, answer_bytes_max=_ANSWER_BYTES_MAX)
            try:
                return await connect(self._transport, one.host, one.port, fresh, timeout_s=self._timeout_s)
            except PeerError as error:
                failures.append(str(error))
        raise PeerError("; ".join(failures), unsent=True)
