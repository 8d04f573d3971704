"""Members of groups in the simulated world: what those of both protocols share.

A member holds what it was told to hold. It may be slow, it commits, also late and under the name of an epoch that is
over, and it ends in good order (`leaves`) or in the middle of anything (its task is cancelled).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from bifrost.errors import ErrorCode
from tests.sim.client import TROUBLE, Topic, Wire
from tests.sim.crowd.events import Holding, Holds
from tests.sim.crowd.group_client import GroupClient, Identity
from tests.sim.crowd.settings import BEAT_S, SESSION_S
from tests.sim.history import History
from tests.sim.network import SimNetwork

NOTHING: Holding = frozenset()


class Retired(Exception):
    """The member has ended: it left, or somebody else has its place."""


class Member(GroupClient):
    """One process."""

    commit_versions = range(2, 11)
    no_epoch = -1

    def __init__(
        self,
        name: str,
        network: SimNetwork,
        history: History,
        seed: str,
        topics: Sequence[Topic],
        offsets: Iterator[int],
        *,
        group: str,
        instance_id: str | None = None,
    ) -> None:
        super().__init__(name, network, history, seed, topics, offsets)
        self.group = group
        self.instance_id = instance_id
        self.member_id = ""
        self.epoch = self.no_epoch
        self.held = NOTHING
        self.held_since = self.held_until = 0.0
        self.leaves = False
        """Set from outside: it is to leave the group in good order."""
        self.is_calm = False
        """Set from outside: it is to be quick."""
        self._slowness = self.rng.choice((0.0, 0.02, 0.1))
        self._commits = self.rng.choice((0.1, 0.5))
        self._past: list[tuple[Identity, Holding]] = []

    @property
    def owner(self) -> str:
        """Who holds: of a static member, all incarnations are one."""
        return self.instance_id or self.name

    @property
    def identity(self) -> Identity:
        return Identity(self.member_id, self.epoch, self.instance_id)

    async def run(self) -> None:
        """Until it has left or is cancelled."""
        try:
            while True:
                try:
                    wire = await self.connect()
                except TROUBLE:
                    await self.rest()
                    continue
                try:
                    if await self.find_coordinator(wire, self.group):
                        await self.live(wire)
                except TROUBLE:
                    pass
                finally:
                    wire.close()
                await self.rest()
        except Retired:
            pass
        finally:
            self.give_up()

    async def live(self, wire: Wire) -> None:
        """Be a member for as long as the connection lasts."""
        raise NotImplementedError

    async def pause(self) -> None:
        """Until the next heartbeat, or until long after it should have come."""
        slow = not self.is_calm and self.rng.random() < self._slowness
        await asyncio.sleep(self.rng.uniform(1.0, 2 * SESSION_S) if slow else self.rng.uniform(0.5, 1.0) * BEAT_S)

    def hold(self, partitions: Holding, *, since: float, until: float) -> None:
        if self.held - partitions:
            self._past.append((self.identity, self.held - partitions))
        self.held, self.held_since, self.held_until = partitions, since, until
        now = self.loop.time()
        epoch = self._epoch(self.identity)
        self.history.add(Holds(since, now, until, self.group, self.owner, epoch, partitions))

    def give_up(self) -> None:
        """All of it."""
        if self.held:
            self.hold(NOTHING, since=self.loop.time(), until=self.loop.time())

    async def commit_some(self, wire: Wire) -> ErrorCode:
        """What it holds, or, late, what it held in an epoch that is over; the answer to the former.

        While its epoch is not over a member may commit whatever it likes, in Kafka and here: only itself keeps it
        from committing what it has given up.
        """
        over = [past for past in self._past[-3:] if past[0] != self.identity]
        if over and self.rng.random() < 0.3:
            identity, partitions = self.rng.choice(over)
            await self.commit(wire, self.group, partitions, identity, self._versions(identity))
        if self.held and self.rng.random() < self._commits:
            return await self.commit(wire, self.group, self.held, self.identity, self._versions(self.identity))
        return ErrorCode.NONE

    def _versions(self, identity: Identity) -> range:
        lowest = self.commit_versions[0]
        return range(max(lowest, 7) if identity.instance_id else lowest, 11)
