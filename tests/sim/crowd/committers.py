"""In the simulated world: those who commit offsets without being a member, and those who only look at them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tests.sim.client import TROUBLE
from tests.sim.crowd.group_client import GroupClient


class Committer(GroupClient):
    """Keeps its place in a group that has no members, and looks it up now and then."""

    async def run(self, group: str) -> None:
        """Until cancelled."""
        partitions = sorted(self.all_partitions)
        while True:
            try:
                wire = await self.connect()
                try:
                    while await self.find_coordinator(wire, group):
                        for _ in range(self.rng.randint(1, 10)):
                            some = self.rng.sample(partitions, self.rng.randint(1, len(partitions)))
                            await self.commit(wire, group, some)
                            await self.rest(0.4)
                            if self.rng.random() < 0.3:
                                await self.read_offsets(wire, group, some)
                finally:
                    wire.close()
            except TROUBLE:
                pass
            await self.rest()


class OffsetReader(GroupClient):
    """Looks at what groups have committed."""

    async def run(self, groups: Sequence[str]) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(self.rng.uniform(0.1, 1.0))
            await self.look(self.rng.choice(groups))

    async def look(self, group: str) -> bool:
        """Whether there was an answer."""
        try:
            wire = await self.connect()
            try:
                return await self.read_offsets(wire, group, self.all_partitions)
            finally:
                wire.close()
        except TROUBLE:
            return False
