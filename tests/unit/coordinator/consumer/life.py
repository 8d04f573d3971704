"""Members that join, dawdle, crash, lose answers and come back, on a coordinator that restarts: all from one seed.

A client here does what KIP-848 asks of one, and sometimes not in time. What it was told to give up it gives up when it
pleases; what it was given it owns once the answer has reached it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from bifrost.coordinator.core.consumer.group import ConsumerGroupState
from bifrost.errors import ApiError, ErrorCode
from bifrost.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest, TopicPartitions

from .invariants import Broken, Invariants, Partition, partitions_of
from .stand_ins import CLIENT, GROUP, Shard, Topics

SUBSCRIPTIONS: list[dict[str, Any]] = [
    {"subscribed_topic_names": ["orders"], "subscribed_topic_regex": ""},
    {"subscribed_topic_names": ["orders", "bills"], "subscribed_topic_regex": ""},
    {"subscribed_topic_names": ["bills", "later"], "subscribed_topic_regex": None},
    {"subscribed_topic_names": [], "subscribed_topic_regex": "b.*|later"},
]
REBALANCE_TIMEOUT_MS = 30_000


@dataclass
class Consumer:
    """A client, and what it believes."""

    member_id: str
    instance_id: str | None
    subscription: dict[str, Any]
    server_assignor: str | None = None
    epoch: int = 0
    owned: set[Partition] = field(default_factory=set)
    assigned: set[Partition] = field(default_factory=set)
    tells_all: bool = True
    """After an answer was lost, and when joining, it says everything again."""

    def give_up(self) -> None:
        """Reads no longer what it was told to give up, and from now on what it was given."""
        self.owned = set(self.assigned)

    def start_over(self) -> None:
        self.epoch, self.owned, self.assigned, self.tells_all = 0, set(), set(), True

    def request(self, *, tells_owned: bool) -> ConsumerGroupHeartbeatRequest:
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP, member_id=self.member_id, member_epoch=self.epoch, instance_id=self.instance_id
        )
        if self.tells_all:
            request.rebalance_timeout_ms = REBALANCE_TIMEOUT_MS
            request.subscribed_topic_names = self.subscription["subscribed_topic_names"]
            request.subscribed_topic_regex = self.subscription["subscribed_topic_regex"]
            request.server_assignor = self.server_assignor
        if self.tells_all or tells_owned:
            topics = {topic_id for topic_id, _ in self.owned}
            request.topic_partitions = [
                TopicPartitions(topic_id=topic_id, partitions=sorted(n for t, n in self.owned if t == topic_id))
                for topic_id in sorted(topics)
            ]
        return request


class Life:
    """One run. `step` does one thing that the seed chooses, and everything is checked after it."""

    def __init__(self, seed: int, interval_ms: int = 0) -> None:
        self.random = random.Random(seed)
        self.shard = Shard(Topics(orders=5, bills=3), consumer_assignment_interval_ms=interval_ms)
        self.consumers: list[Consumer] = []
        self.invariants = Invariants(self.shard)
        self._made = 0
        self._grown = 0

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.step()
        self.come_to_rest()

    def step(self) -> None:
        action = self.random.choices(
            [
                *(self.arrive, self.beat, self.dawdle, self.lose_answer, self.leave, self.pause, self.crash),
                *(self.resubscribe, self.pass_time, self.change_topics, self.restart, self.fail_for_a_moment),
            ],
            weights=[6, 60, 20, 8, 2, 3, 2, 3, 12, 2, 2, 2],
        )[0]
        action()
        self._check()

    def come_to_rest(self) -> None:
        """Without faults everybody soon has what it shall have."""
        if not self.consumers:
            self.arrive()
        for _ in range(8):
            self.shard.pass_ms(11_000)
            for consumer in self.consumers:
                self._heartbeat(consumer)
                self._check()
                consumer.give_up()
                self._heartbeat(consumer)
                self._check()
        group = self.shard.group
        if group.state is not ConsumerGroupState.STABLE:
            raise Broken(f"the group comes to rest: it is {group.state}")
        believed = {consumer.member_id: consumer.owned for consumer in self.consumers}
        known = {member.member_id: set(member.holdings()) for member in group.members.values()}
        if any(known[member_id] != owned for member_id, owned in believed.items()):
            raise Broken("the group comes to rest: members believe something else")

    def arrive(self) -> None:
        if len(self.consumers) >= 6:
            return
        self._made += 1
        free = {"i", "j"} - {consumer.instance_id for consumer in self.consumers}
        instance_id = self.random.choice([None, None, *sorted(free)])
        consumer = Consumer(f"m{self._made}", instance_id, self.random.choice(SUBSCRIPTIONS))
        consumer.server_assignor = self.random.choice([None, None, "uniform", "range"])
        self.consumers.append(consumer)
        self._heartbeat(consumer)

    def beat(self) -> None:
        if self.consumers:
            consumer = self.random.choice(self.consumers)
            consumer.give_up()
            self._heartbeat(consumer, tells_owned=True)

    def dawdle(self) -> None:
        """Lives, but has not given up yet; and need not say what it has."""
        if self.consumers:
            self._heartbeat(self.random.choice(self.consumers), tells_owned=self.random.random() < 0.5)

    def lose_answer(self) -> None:
        if self.consumers:
            consumer = self.random.choice(self.consumers)
            self._ask(consumer, tells_owned=True)
            consumer.tells_all = True

    def leave(self) -> None:
        self._go(-1)

    def pause(self) -> None:
        """A static member restarts, under a new id; a dynamic one leaves and comes as somebody else."""
        consumer = self._go(-2)
        if consumer is not None:
            self._made += 1
            consumer.member_id = f"m{self._made}"
            consumer.start_over()
            self.consumers.append(consumer)
            self._check()
            self._heartbeat(consumer)

    def crash(self) -> None:
        if self.consumers:
            self.consumers.remove(self.random.choice(self.consumers))

    def resubscribe(self) -> None:
        if self.consumers:
            consumer = self.random.choice(self.consumers)
            consumer.subscription = self.random.choice(SUBSCRIPTIONS)
            consumer.tells_all = True
            self._heartbeat(consumer)

    def pass_time(self) -> None:
        self.shard.pass_ms(self.random.choice([1, 500, 1_000, 5_000, 20_000]))

    def change_topics(self) -> None:
        topics = self.shard.topics
        name = self.random.choice(["orders", "bills", "later"])
        if topics.partitions(name) is None:
            topics.make(name, 2)
        elif self.random.random() < 0.3:
            topics.delete(name)
        elif self._grown < 6:
            self._grown += 1
            topics.make(name, (topics.partitions(name) or 0) + 1)
        self.shard.core.on_topics_changed([name])

    def restart(self) -> None:
        self.shard.restart()

    def fail_for_a_moment(self) -> None:
        self.shard.journal.failing = True
        self.dawdle()
        self.shard.pass_ms(100)
        self.shard.journal.failing = False

    def _go(self, epoch: int) -> Consumer | None:
        if not self.consumers:
            return None
        consumer = self.random.choice(self.consumers)
        request = consumer.request(tells_owned=False)
        request.member_epoch = epoch if consumer.instance_id else -1
        self.consumers.remove(consumer)
        self._send(request)
        return consumer

    def _heartbeat(self, consumer: Consumer, *, tells_owned: bool = True) -> None:
        """Asks, and does what it is told as far as it must do it at once."""
        answer = self._ask(consumer, tells_owned=tells_owned)
        if answer is None:
            return
        consumer.epoch, consumer.tells_all = answer.member_epoch, False
        if answer.assignment is not None:
            consumer.assigned = partitions_of(answer.assignment.topic_partitions)
            if consumer.owned <= consumer.assigned:
                consumer.give_up()

    def _ask(self, consumer: Consumer, *, tells_owned: bool) -> Any:
        answer = self._send(consumer.request(tells_owned=tells_owned))
        if isinstance(answer, ErrorCode):
            if answer is not ErrorCode.NOT_ENOUGH_REPLICAS and answer is not ErrorCode.UNRELEASED_INSTANCE_ID:
                consumer.start_over()
            return None
        return answer

    def _send(self, request: ConsumerGroupHeartbeatRequest) -> Any:
        answers: list[Any] = []
        try:
            self.shard.core.heartbeat(request, version=1, client=CLIENT, respond=answers.append)
        except ApiError as error:
            return error.code
        (answer,) = answers
        return answer

    def _check(self) -> None:
        self.invariants.check({consumer.member_id: consumer.owned for consumer in self.consumers})
        group = self.shard.groups.get(GROUP)
        if group is not None and group.owners:
            partition = self.random.choice(sorted(group.owners))
            member_id = self.random.choice([*group.members, "nobody"])
            self.invariants.commits_of_the_past_are_refused(
                member_id, self.random.randint(0, group.group_epoch + 1), partition
            )
