"""A cluster of production nodes: machines of their own, a network between them, and a judge who sees everything."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

from bifrost.broker.odin import Odin
from bifrost.raft.election_file import ELECTION_FILE, decode_election
from tests.sim.cluster.copies import CopyJudge
from tests.sim.cluster.fencing import FencingJudge
from tests.sim.cluster.judge import Judge
from tests.sim.cluster.layout import METADATA_LOG, Seat, Timing, drawn_seats, settings_of
from tests.sim.machine import Machine
from tests.sim.storage import SimDisk
from tests.sim.world import World


class ClusterMachine(Machine):
    """A machine that knows its place."""

    seat: Seat

    @property
    def odin(self) -> Odin | None:
        """That of the node that lives there now."""
        return None if self.node is None else self.node._odin

    @property
    def leads(self) -> bool:
        return self.odin is not None and self.odin.member.core.leads

    @property
    def is_newborn(self) -> bool:
        """Whether its disk has no past that it could vote by."""
        stored = self.disk.durable_file(f"{METADATA_LOG}/{ELECTION_FILE}")
        return stored is None or decode_election(stored).is_newborn


class ClusterWorld(World):
    def __init__(self, seed: str, layout: str | None = None, tell: Callable[[str], object] | None = None) -> None:
        super().__init__(seed, leaders_move=True, tell=tell)
        rng = self.rng
        self.seats = drawn_seats(rng, layout)
        self.timing = Timing.drawn(rng)
        drifts, skews = rng.random() < 0.5, rng.random() < 0.5
        self.cluster: list[ClusterMachine] = []
        for seat in self.seats:
            machine = ClusterMachine(
                self,
                seat.host,
                settings_of(seat, self.seats, self.timing, rng),
                SimDisk(self.loop.hands, Random(f"{seed} {seat.host} disk"), self.trace),
                host=seat.host,
                clock_rate=rng.choice((0.9, 0.99, 1.0, 1.01, 1.1)) if drifts else 1.0,
                clock_skew_s=rng.choice((-600.0, 0.0, 0.5, 600.0)) if skews else 0.0,
                is_off_without_power=True,
            )
            machine.seat = seat
            machine.draw_disk(rng)
            self.cluster.append(machine)
        self.machines = [*self.cluster]
        self.judge = Judge([seat.node_id for seat in self.seats if seat.is_voter], self._on_broken)
        self.copies = CopyJudge(self._on_broken, self.is_alive)
        self.fencing = FencingJudge(self._on_broken, self.copies.held)
        self.run: asyncio.Task[Any] | None = None
        """What is given up as soon as a promise is broken: what comes after that says nothing."""

    @property
    def voters(self) -> list[ClusterMachine]:
        return [machine for machine in self.cluster if machine.seat.is_voter]

    @property
    def brokers(self) -> list[ClusterMachine]:
        return [machine for machine in self.cluster if machine.seat.is_broker]

    def unconverged(self) -> str:
        """What is missing for a sound cluster; nothing, if nothing is."""
        for machine in self.cluster:
            life = machine.living
            if life is None or not life.serving.done() or machine.odin is None:
                return f"{machine.name} does not serve"
            if machine.node is None or machine.node._stopping.done():
                return f"{machine.name} stops"
        odins = {machine.seat.node_id: machine.odin for machine in self.cluster if machine.odin is not None}
        active = [node_id for node_id, odin in odins.items() if odin.controller.is_active]
        if len(active) != 1:
            return f"active controllers: {active}"
        leader = odins[active[0]]
        for node_id, odin in odins.items():
            if odin.member.core.leader != active[0]:
                return f"{node_id} follows {odin.member.core.leader}, {active[0]} leads"
            if odin.replica.next_offset != leader.member.end_offset:
                return f"{node_id} has come to {odin.replica.next_offset} of {leader.member.end_offset}"
        brokers = leader.replica.image.brokers
        for machine in self.brokers:
            known = brokers.get(machine.seat.node_id)
            if known is None or not known.active:
                return f"{machine.name} takes no part: {known}"
        for topic in leader.replica.image.topics.values():
            for index, partition in enumerate(topic.partitions):
                if not partition.has_leader or partition.is_moving or {*partition.isr} != {*partition.replicas}:
                    return f"{topic.name}-{index} is not in sync: {partition}"
        return ""

    def is_alive(self, life: str) -> bool:
        return any(one.living is not None and one.living.process.name == life for one in self.cluster)

    def _on_broken(self, kind: str, detail: str) -> None:
        self.complain(kind, detail)
        if self.run is not None:
            self.loop.call_outside(0, self.run.cancel)
