"""One classic group through a bad day: `simulate(seed)` plays it in virtual time and returns what was wrong.

The core is the real one. Around it: consumers that come, go, die, stall and change their minds, a log that is slow or
refuses, a node that dies and is followed by another that knows the log only. Everything that is chosen comes from the
seed.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from functools import partial
from itertools import count
from random import Random
from typing import Any

from bifrost.coordinator.core.classic.group import ClassicGroup, ClassicState
from bifrost.coordinator.core.classic.groups import ClassicGroups
from bifrost.coordinator.core.deadlines import Deadlines
from bifrost.coordinator.core.environment import Client, Environment, LogRecord
from bifrost.coordinator.core.records import GroupMetadataKey, GroupMetadataValue, read_key, read_value
from bifrost.coordinator.core.settings import GroupSettings
from bifrost.errors import ApiError
from bifrost.protocol.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from tests.sim.anomaly import Anomaly
from tests.sim.groups.classic_client import GROUP, REBALANCE_MS, SESSION_MS, Consumer
from tests.sim.groups.classic_judge import Judge
from tests.sim.groups.journal import SlowJournal
from tests.unit.coordinator.classic.stand_ins import NoTopics

CHAOS_MS = 300_000
CALM_MS = 10 * (SESSION_MS + REBALANCE_MS)
SETTINGS = GroupSettings(initial_rebalance_delay_ms=500, new_member_join_timeout_ms=60_000)


class Node:
    """A coordinator that lives until it is killed."""

    def __init__(self, world: ClassicWorld, records: list[LogRecord]) -> None:
        self.alive = True
        self.journal = SlowJournal(records, lambda: world.after(world.rng.randint(0, 20), self._flush))
        self.deadlines = Deadlines()
        self.groups: dict[str, ClassicGroup] = {}
        env = Environment(
            journal=self.journal,
            deadlines=self.deadlines,
            topics=NoTopics(),
            monotonic_ms=lambda: world.now_ms,
            now_ms=lambda: world.now_ms,
            new_id=lambda: str(next(world.ids)),
        )
        self.core = ClassicGroups(env, self.groups, SETTINGS)
        for record in records:
            key = read_key(record.key)
            assert isinstance(key, GroupMetadataKey)
            value = None if record.value is None else read_value(key, record.value)
            assert value is None or isinstance(value, GroupMetadataValue)
            self.core.replay(key, value)
        self.core.loaded()

    def _flush(self) -> None:
        if self.alive:
            self.journal.flush()


class ClassicWorld:
    """Time, the node, the consumers, and what happens to them."""

    def __init__(self, seed: int, only: str | None = None) -> None:
        self.rng = Random(seed)
        self.now_ms = 0
        self.ids = count(1)
        self.partitions = self.rng.randint(1, 6)
        self.judge = Judge(self.partitions, only)
        self.consumers: list[Consumer] = []
        self.past: list[tuple[Consumer, str, int]] = []
        """Who was in which generation under which id: commits that come too late are made of these."""
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()
        self._names = count(1)
        self.node: Node | None = Node(self, [])
        self._survivors: list[LogRecord] = []

    # What consumers reach

    def after(self, delay_ms: int, action: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now_ms + delay_ms, next(self._order), action))

    def join(self, request: JoinGroupRequest, version: int, client: Client, receive: Callable[[Any], None]) -> None:
        node = self.node
        if node is not None:
            respond = self._expect(node, f"join of {request.member_id or client.client_id}", receive)
            node.core.join(request, version=version, client=client, respond=respond)

    def sync(self, request: SyncGroupRequest, receive: Callable[[Any], None]) -> None:
        node = self.node
        if node is not None:
            respond = self._expect(node, f"sync of {request.member_id}", receive)
            node.core.sync(request, version=5, respond=respond)

    def heartbeat(self, request: HeartbeatRequest, receive: Callable[[Any], None]) -> None:
        node = self.node
        if node is not None:
            self._expect(node, f"heartbeat of {request.member_id}", receive)(node.core.heartbeat(request))

    def leave(self, request: LeaveGroupRequest) -> None:
        if self.node is not None:
            self.node.core.leave(request, 5)

    def commit(self, consumer: Consumer, generation: int, member_id: str | None = None) -> None:
        """Answered at once: a commit that is refused changes nothing, and one that is accepted is the driver's."""
        member_id = consumer.member_id if member_id is None else member_id
        group = self.group
        if self.node is None or group is None:
            return
        try:
            self.node.core.check_commit(
                group, member_id=member_id, instance_id=consumer.instance_id, generation=generation
            )
        except ApiError:
            return
        self.judge.committed(member_id=member_id, generation=generation)

    def got_assignment(self, consumer: Consumer) -> None:
        assert consumer.assignment is not None
        self.judge.synced(
            owner=consumer.owner,
            member_id=consumer.member_id,
            generation=consumer.generation,
            assignment=consumer.assignment,
        )
        for other, member_id, _ in self.past:
            if other.instance_id is not None and other.instance_id == consumer.instance_id:
                self.judge.replaced(member_id, consumer.member_id)
        self.past.append((consumer, consumer.member_id, consumer.generation))

    @property
    def group(self) -> ClassicGroup | None:
        return None if self.node is None else self.node.groups.get(GROUP)

    # What happens

    def play(self) -> list[Anomaly]:
        for _ in range(self.rng.randint(1, 5)):
            self._come()
        self._run(CHAOS_MS, self._disturb)
        if self.node is None:
            self._revive()
        assert self.node is not None
        self.node.journal.refuses = False
        for consumer in [consumer for consumer in self.consumers if consumer.is_working][:1]:
            consumer.die()
        if not any(consumer.alive for consumer in self.consumers):
            self._come()
        self._run(CALM_MS, None)
        if not self.judge.anomalies:
            living = {consumer.member_id: consumer.assignment for consumer in self.consumers if consumer.alive}
            self.judge.calm(self.group, living)
        return self.judge.anomalies

    def _run(self, length_ms: int, disturb: Callable[[], None] | None) -> None:
        end_ms = self.now_ms + length_ms
        if disturb is not None:
            self.after(0, disturb)
        while not self.judge.anomalies:
            due_ms = self.node.deadlines.next_ms() if self.node is not None else None
            event_ms = self._events[0][0] if self._events else end_ms
            next_ms = event_ms if due_ms is None else min(event_ms, due_ms)
            if next_ms >= end_ms:
                break
            self.now_ms = max(self.now_ms, next_ms)
            if self.node is not None and due_ms == next_ms:
                self.node.deadlines.run(self.now_ms)
            else:
                heapq.heappop(self._events)[2]()
            self.judge.late(self.now_ms)
            if self.node is not None:
                self.judge.state(self.group, len(self.node.deadlines))
                self.judge.replay(GROUP, self.node.journal.records, self.node.journal.safe)
        self.now_ms = end_ms

    def _disturb(self) -> None:
        if self.now_ms < CHAOS_MS:
            self.rng.choice(self._happenings())()
            pauses_ms = [0, 10, 200, 1_000, 1_000, 3_000, 8_000] if self.rng.random() < 0.97 else [30_000]
            self.after(self.rng.choice(pauses_ms), self._disturb)

    def _happenings(self) -> list[Callable[[], None]]:
        happenings = [self._come, self._come, self._come, self._toggle_journal]
        happenings += [self._kill_node] if self.node else [self._revive] * 5
        living = [consumer for consumer in self.consumers if consumer.alive]
        if living:
            one = self.rng.choice(living)
            stall_ms = self.rng.choice([500, SESSION_MS, REBALANCE_MS + 5_000, 4 * REBALANCE_MS])
            happenings += [one.die, one.leave, one.reconnect, one.want_something_else, one.want_something_else]
            happenings += [partial(one.stall, stall_ms), partial(self._take_over, one)] * 2
        if self.past:
            waiting_for_leader = self.group is not None and self.group.state is ClassicState.COMPLETING_REBALANCE
            happenings += [self._commit_late] * 2 + [self._sync_late] * (10 if waiting_for_leader else 1)
        return happenings

    def _come(self) -> None:
        if sum(consumer.alive for consumer in self.consumers) < 6:
            number = next(self._names)
            self._start(Consumer(self, f"c{number}", f"i{number}" if self.rng.random() < 0.4 else None))

    def _take_over(self, consumer: Consumer) -> None:
        """A static member is started anew; sometimes the old process still runs, and does not know."""
        if consumer.instance_id is not None:
            if self.rng.random() < 0.7:
                consumer.die()
            self._start(Consumer(self, f"c{next(self._names)}", consumer.instance_id))

    def _start(self, consumer: Consumer) -> None:
        self.consumers.append(consumer)
        consumer.start()

    def _commit_late(self) -> None:
        consumer, member_id, generation = self.rng.choice(self.past)
        self.commit(consumer, generation, member_id)

    def _sync_late(self) -> None:
        """What a member once thought, most likely the leader: that the topic has one partition less, all its own."""
        led = [one for one in self.past if self.group is not None and self.group.leader == one[1]]
        consumer, member_id, generation = self.rng.choice(led or self.past)
        thought = SyncGroupRequestAssignment(member_id=member_id, assignment=bytes(range(self.partitions - 1)))
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=consumer.instance_id,
            protocol_type="consumer",
            protocol_name=None if self.group is None else self.group.protocol,
            assignments=[thought],
        )
        self.sync(request, lambda response: None)

    def _toggle_journal(self) -> None:
        if self.node is not None:
            self.node.journal.refuses = not self.node.journal.refuses and self.rng.random() < 0.3

    def _kill_node(self) -> None:
        """It dies, or gives the group away as it should: then nobody is left waiting."""
        assert self.node is not None
        if self.rng.random() < 0.3:
            self.node.core.unload()
            self.judge.unloaded()
        self.node.alive = False
        self._survivors = self.node.journal.survivors(self.rng)
        self.node = None
        self.judge.crash()
        for consumer in self.consumers:
            if consumer.alive and consumer.assignment is None:
                consumer.reconnect()
        if self.rng.random() < 0.8:
            self._revive()

    def _revive(self) -> None:
        if self.node is None:
            self.node = Node(self, self._survivors)
            for consumer in self.consumers:
                if consumer.alive and consumer.assignment is None:
                    consumer.reconnect()

    def _expect(self, node: Node, what: str, receive: Callable[[Any], None]) -> Callable[[Any], None]:
        """The way of one answer: once from the core, then through the journal, then over the network."""
        asked = self.judge.ask(what, self.now_ms)

        def deliver(response: Any) -> None:
            if node.alive:
                self.after(self.rng.choice([0, 0, 1, 5]), lambda: receive(response))

        def respond(response: Any) -> None:
            self.judge.answer(asked)
            node.journal.hold(lambda: deliver(response))

        return respond


def simulate(seed: int, only: str | None = None) -> list[Anomaly]:
    """What went wrong, at the first step that showed it; of one kind, if that alone is looked for."""
    return ClassicWorld(seed, only).play()
