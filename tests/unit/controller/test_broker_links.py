"""Where a controller looks for a broker that it wants to ask something."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.controller.stand_ins import cluster_of, commit, registration

from bifrost.controller.broker_links import BrokerLinks
from bifrost.controller.core.brokers import register_broker
from bifrost.controller.core.records import Endpoint
from bifrost.peers.connection import PeerError
from bifrost.peers.transport import TcpTransport
from bifrost.protocol.messages.log_offsets import ListOffsetsRequest, ListOffsetsResponse


class Inside(TcpTransport):
    """The network of a controller, from which only some doors are reached; nobody behind them says anything."""

    def __init__(self, *reached: str) -> None:
        super().__init__()
        self.reached, self.tried = reached, list[str]()

    async def connect(self, host: str, port: int, protocol: Any) -> asyncio.Transport:
        self.tried.append(host)
        if host not in self.reached:
            raise ConnectionRefusedError
        protocol.connection_lost(None)
        return None  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("listener", "reached", "tried"),
    [
        (None, ["inside"], ["outside", "inside"]),
        ("INTERNAL", ["inside", "outside"], ["inside"]),
        ("INTERNAL", ["outside"], ["inside", "outside"]),
        (None, [], ["outside", "inside"]),
    ],
)
def test_a_broker_is_looked_for_at_each_of_its_listeners(
    listener: str | None, reached: list[str], tried: list[str]
) -> None:
    """A controller need not know which one is for it, and the first may be for clients elsewhere."""
    image = cluster_of(1)
    where = (Endpoint("EXTERNAL", "outside", 1), Endpoint("INTERNAL", "inside", 2))
    commit(image, register_broker(image, replace(registration(1, start=2), endpoints=where)))

    async def story() -> None:
        network = Inside(*reached)
        links = BrokerLinks(lambda: image, network, "links", listener=listener, timeout_s=1)
        with pytest.raises(PeerError, match="is closed" if reached else "outside:1.*inside:2"):
            await links.ask(1, ListOffsetsRequest(topics=[]), ListOffsetsResponse)
        assert network.tried == tried

    asyncio.run(story())
