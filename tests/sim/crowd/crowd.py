"""The groups of one run: members that come and go at the seed's will, and those who commit from outside.

Some runs have no groups, for these have more time for everything else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import count
from random import Random

from tests.sim.client import Topic
from tests.sim.crowd.classic_members import ClassicMember
from tests.sim.crowd.committers import Committer, OffsetReader
from tests.sim.crowd.consumer_members import ConsumerMember
from tests.sim.crowd.events import Peace, Settled
from tests.sim.crowd.members import Member
from tests.sim.world import World

SHARE = 0.5
"""Of the runs, so many have groups."""
ROUND_S = 0.5
ROUNDS_MAX = 60
ROUNDS_SETTLED = 6
"""When it has not moved for so many rounds, longer than any session lasts, a group has come to rest."""
MEMBERS_MAX = 4
KINDS = ("classic", "consumer", "moving")
MOVE_SHARE = 0.2
EPOCHS_MAX = 1_000_000
SIMPLE = "simple"


class Group:
    """Its members that live, by name."""

    def __init__(self, name: str, kind: str) -> None:
        self.name = name
        self.kind: type[Member] = ConsumerMember if kind == "consumer" else ClassicMember
        self.moves = kind == "moving"
        """Whether it goes from one protocol to the other whenever it is empty."""
        self.members: dict[str, tuple[Member, asyncio.Task[None]]] = {}
        self.first_epoch = 0
        self.arrived = count()

    def living(self) -> list[Member]:
        self.members = {name: pair for name, pair in self.members.items() if not pair[1].done()}
        return [member for member, _ in self.members.values()]

    def crash(self, member: Member) -> None:
        """It ends in the middle of whatever it does, and will not be back."""
        self.members[member.name][1].cancel()

    def change(self) -> None:
        """Nobody is left: from now on the group speaks the other protocol."""
        self.kind = ConsumerMember if self.kind is ClassicMember else ClassicMember
        self.first_epoch += EPOCHS_MAX


class Crowd:
    """All of them."""

    def __init__(self, world: World, topics: Sequence[Topic], kinds: Sequence[str] | None = None) -> None:
        """`kinds` of groups, if it matters; if not, the seed decides whether there are groups, and which."""
        self._world = world
        self._rng = rng = Random(f"{world.seed} crowd")
        self._arguments = (*world.client_arguments(), topics, count(1))
        self._groups: list[Group] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._reader = OffsetReader("offset-reader", *self._arguments)
        self._is_calm = False
        if kinds is None:
            kinds = rng.choices(sorted(KINDS), k=rng.randint(1, 2)) if rng.random() < SHARE else ()
        if topics:
            self._groups = [Group(f"group{number}", kind) for number, kind in enumerate(kinds)]

    def start(self) -> None:
        """Everybody sets to work."""
        if not self._groups:
            return
        self._tasks = [asyncio.create_task(self._churn(group)) for group in self._groups]
        for number in range(self._rng.randint(1, 2)):
            committer = Committer(f"committer{number}", *self._arguments)
            self._tasks.append(asyncio.create_task(committer.run(SIMPLE)))
        names = [SIMPLE, *(group.name for group in self._groups)]
        self._tasks.append(asyncio.create_task(self._reader.run(names)))

    async def settle(self) -> None:
        """Nobody comes or goes or dawdles any more: after a while every partition has its reader, and only one."""
        if not self._groups:
            return
        if not self._is_calm:
            self._is_calm = True
            self._world.history.add(Peace(self._world.loop.time()))
        for group in self._groups:
            for member in group.living():
                member.is_calm, member.leaves = True, False
        rounds = 0
        for _ in range(ROUNDS_MAX):
            settled = [self._is_settled(group) for group in self._groups]
            rounds = rounds + 1 if all(settled) else 0
            if rounds == ROUNDS_SETTLED:
                break
            await asyncio.sleep(ROUND_S)
        for group in self._groups:
            self._world.history.add(self._view(group))

    async def leave(self) -> None:
        """Everybody goes home; what was committed stays, and is looked at once more."""
        tasks = [*self._tasks, *(task for group in self._groups for _, task in group.members.values())]
        for task in tasks:
            task.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(result, Exception):
                self._world.complain("unhandled", repr(result))

    async def look_back(self) -> None:
        """What every group has committed, when all is over."""
        for name in (SIMPLE, *(group.name for group in self._groups)) if self._groups else ():
            while not await self._reader.look(name):
                await self._reader.rest()

    async def _churn(self, group: Group) -> None:
        rng = self._rng
        pause_s = rng.choice((0.5, 1.5, 4.0))
        while not self._is_calm:
            members = group.living()
            if len(members) < rng.randint(1, MEMBERS_MAX):
                self._arrive(group)
            elif rng.random() < 0.5:
                rng.choice(members).leaves = True
            else:
                group.crash(rng.choice(members))
            if group.moves and rng.random() < MOVE_SHARE:
                await self._move(group)
            await asyncio.sleep(rng.expovariate(1 / pause_s))

    async def _move(self, group: Group) -> None:
        """All members go, one way or the other, and the next ones speak the other protocol."""
        for member in group.living():
            member.leaves = True
            if self._rng.random() < 0.5:
                group.crash(member)
        await asyncio.gather(*(task for _, task in group.members.values()), return_exceptions=True)
        group.change()

    def _arrive(self, group: Group) -> Member:
        name = f"{group.name}-{next(group.arrived)}"
        taken = {member.instance_id for member in group.living()}
        free = [f"{group.name}-static{number}" for number in range(2)]
        instance_id = self._rng.choice([None, None, *free])
        if instance_id in taken:
            instance_id = None
        member = group.kind(name, *self._arguments, group=group.name, instance_id=instance_id)
        member.first_epoch = group.first_epoch
        group.members[name] = member, asyncio.create_task(member.run())
        return member

    def _is_settled(self, group: Group) -> bool:
        if not group.living():  # the last one was on its way out
            self._arrive(group).is_calm = True
        view = self._view(group)
        return sorted(each for _, held in view.holders for each in held) == sorted(view.wanted)

    def _view(self, group: Group) -> Settled:
        members = group.living()
        wanted = self._reader.all_partitions
        holders = tuple((member.owner, member.held) for member in members)
        return Settled(self._world.loop.time(), group.name, wanted, holders)
