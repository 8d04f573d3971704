"""Requests between nodes that arrive once more, late and in any order, or only when nobody waits for them any more.

TCP gives that where nodes connect anew: who had no answer asks again on another connection, and what was under way on
the first one still arrives. So each connection that a node opens is preceded by its twin, on which nothing is said but
what is repeated. The twin is the older one, and is never taken for the one that the node has left it for. Nobody reads
its answers, and it outlives the node that it speaks for.
"""

from __future__ import annotations

import asyncio
from contextvars import Context
from functools import partial
from random import Random
from typing import Any, NamedTuple

from bifrost.protocol.apis import ApiKey
from tests.sim.client import Address
from tests.sim.network import Ear, SimNetwork, SimTransport

REPEATABLE = frozenset(
    {
        ApiKey.VOTE,
        ApiKey.BEGIN_QUORUM_EPOCH,
        ApiKey.END_QUORUM_EPOCH,
        ApiKey.FETCH,
        ApiKey.FETCH_SNAPSHOT,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.ALTER_PARTITION,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
    }
)
"""Each names the epoch that it is of, or only asks. What a client wants may be done twice if it comes twice; and so may
a registration, which is a start of its own."""
_KEPT_MAX = 200
"""Of each kind; later ones take the place of any."""


class Request(NamedTuple):
    source: str
    address: Address
    api: int
    frame: bytes


class Repeats:
    """Hears what nodes ask each other, and says it again."""

    def __init__(self, network: SimNetwork, rng: Random) -> None:
        self._network = network
        self._rng = rng
        self._twins: dict[tuple[str, Address, int], SimTransport] = {}  # where this kind was last asked
        self._heard: dict[int, list[Request]] = {}

    async def precede(self, source: str, address: Address) -> Ear:
        """A node is about to connect."""
        twin = self._network.connect(*address, _Deaf(), source)
        task = self._network.loop.create_task(twin, context=Context())  # its end is not the process's
        return partial(self._hear, source, address, await task)

    def some(self, host: str) -> list[Request]:
        """Of what was asked of a machine, or by it: of some kinds more than of others."""
        found: list[Request] = []
        for api in sorted(self._heard):
            near = [one for one in self._heard[api] if host in (one.source, one.address[0])]
            found += self._rng.sample(near, min(len(near), self._rng.choice((0, 1, 5))))
        self._rng.shuffle(found)
        return found

    def repeat(self, request: Request) -> None:
        """Let it arrive again, if there is still a connection for it."""
        twin = self._twins[request[:3]]
        if not twin.is_closing():
            self._network.trace.note("repeat", request.source, request.address[0], ApiKey(request.api).name)
            twin.write(request.frame)

    def _hear(self, source: str, address: Address, twin: SimTransport, data: Any) -> None:
        """Who asks writes whole requests."""
        api = int.from_bytes(data[4:6], "big")
        if api not in REPEATABLE or int.from_bytes(data[:4], "big") != len(data) - 4:
            return
        self._twins[source, address, api] = twin
        kept = self._heard.setdefault(api, [])
        request = Request(source, address, api, bytes(data))
        if len(kept) < _KEPT_MAX:
            kept.append(request)
        else:
            kept[self._rng.randrange(_KEPT_MAX)] = request


class _Deaf(asyncio.Protocol):
    """Nobody waits for the answers."""
