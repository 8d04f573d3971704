"""Connections to the voters: one for what is said, one for fetches, each opened when it is needed and kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from bifrost.peers.connection import PeerConnection, connect
from bifrost.peers.transport import Transport
from bifrost.types import NodeId

_ANSWER_BYTES_MAX: Final = 64 << 20


class VoterAddress(NamedTuple):
    """Where a controller listens for other controllers and for brokers."""

    host: str
    port: int


class Links:
    """The connections of one purpose, by voter."""

    def __init__(
        self, transport: Transport, addresses: Mapping[NodeId, VoterAddress], client_id: str, *, timeout_s: float
    ) -> None:
        self.addresses = dict(addresses)
        self._transport = transport
        self.client_id = client_id
        self._timeout_s = timeout_s
        self._open: dict[NodeId, PeerConnection] = {}

    async def to(self, voter: NodeId) -> PeerConnection:
        """A connection that is open, or PeerError. One task at a time may ask for one voter."""
        known = self._open.get(voter)
        if known is not None and known.is_open:
            return known
        address = self.addresses[voter]
        fresh = PeerConnection(self.client_id, answer_bytes_max=_ANSWER_BYTES_MAX)
        await connect(self._transport, address.host, address.port, fresh, timeout_s=self._timeout_s)
        self._open[voter] = fresh
        return fresh

    def close(self) -> None:
        for connection in self._open.values():
            connection.close()
        self._open.clear()
