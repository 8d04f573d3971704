"""Admins that create, grow, delete and configure topics all the while, and write down what they were told.

Every topic has one owner. An owner whose change may or may not have happened leaves that topic alone from then on.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from bifrost.protocol.messages.configs import DescribeConfigsRequest, DescribeConfigsResource
from tests.faults.checkers import ConfigChanged, ConfigSeen, judge
from tests.faults.journal import Journal
from tests.faults.realm import BROKERS, Realm
from tests.integration.wire import Wire
from tests.sim.history import TopicChanged, TopicsListed, TopicState
from tests.waiting import eventually

CONFIG = "retention.ms"
_ATTEMPT_S = 8.0
_CERTAIN = {KafkaError.INVALID_REPLICATION_FACTOR, KafkaError.INVALID_CONFIG}
_UNKNOWN = {
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.NOT_CONTROLLER,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.LEADER_NOT_AVAILABLE,
    # An answer was lost, and the client's own repetition finds what its first attempt has done.
    KafkaError.TOPIC_ALREADY_EXISTS,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.INVALID_PARTITIONS,
}


class Admin:
    """One owner of topics, in a thread of its own."""

    def __init__(self, name: str, realm: Realm, journal: Journal, seed: int) -> None:
        self.name = name
        self.done = 0
        """Changes that were acknowledged."""
        self.refused = 0
        """Changes that cannot have happened: asked for what nobody can have."""
        self._journal = journal
        self._random = random.Random(seed)
        self._client = AdminClient(
            {
                "bootstrap.servers": realm.bootstrap,
                "socket.timeout.ms": 4_000,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        self._mine: dict[str, TopicState] = {}
        self._made = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=journal.watched(name, self._run), name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._journal.join(self._thread)

    def _run(self) -> None:
        while not self._stop.wait(0.02):
            choice = self._random.random()
            if not self._mine or choice < 0.4:
                self._create()
            elif choice < 0.5:
                self._ask_the_impossible()
            elif choice < 0.6 and len(self._mine) > 3:
                self._delete()
            elif choice < 0.7:
                self._grow()
            else:
                self._configure()

    def _create(self) -> None:
        self._made += 1
        name, after = f"{self.name}-{self._made}", TopicState("", self._random.randint(1, 2))
        topic = NewTopic(name, after.partitions, self._random.randint(1, 3))
        outcome = self._attempt(lambda: self._client.create_topics([topic], request_timeout=_ATTEMPT_S))
        self._note(name, None, after, outcome)

    def _delete(self) -> None:
        name = self._random.choice(sorted(self._mine))
        before = self._mine[name]
        outcome = self._attempt(lambda: self._client.delete_topics([name], request_timeout=_ATTEMPT_S))
        self._note(name, before, None, outcome)

    def _grow(self) -> None:
        name = self._random.choice(sorted(self._mine))
        before = self._mine[name]
        after = TopicState("", before.partitions + 1)
        wanted = NewPartitions(name, after.partitions)
        outcome = self._attempt(lambda: self._client.create_partitions([wanted], request_timeout=_ATTEMPT_S))
        self._note(name, before, after, outcome)

    def _configure(self) -> None:
        name, value = self._random.choice(sorted(self._mine)), str(self._random.randint(1, 10**9) * 1000)
        entry = ConfigEntry(CONFIG, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
        outcome = self._attempt(lambda: self._client.incremental_alter_configs([resource], request_timeout=_ATTEMPT_S))
        self._journal.add(ConfigChanged(self._journal.now(), name, value, outcome))  # type: ignore[arg-type]
        if outcome != "done":
            del self._mine[name]

    def _ask_the_impossible(self) -> None:
        """Refused for certain: such a topic must never be seen by anybody."""
        topic = NewTopic(f"{self.name}-impossible-{self._made}-{self.refused}", 1, len(BROKERS) + 1)
        outcome = self._attempt(lambda: self._client.create_topics([topic], request_timeout=_ATTEMPT_S))
        self.refused += outcome == "refused"
        if outcome == "done":
            self._journal.complain("impossible topic", f"{topic.topic} was created")

    def _note(self, name: str, before: TopicState | None, after: TopicState | None, outcome: str) -> None:
        self._journal.add(TopicChanged(self._journal.now(), name, before, after, outcome))
        self._mine.pop(name, None)
        if outcome == "done" and after is not None:
            self._mine[name] = after

    def _attempt(self, call: Callable[[], Mapping[Any, Any]]) -> str:
        try:
            (future,) = call().values()
            future.result(2 * _ATTEMPT_S)
        except KafkaException as error:
            code = error.args[0].code()
            if code in _CERTAIN:
                return "refused"
            if code not in _UNKNOWN:
                self._journal.complain("unexpected answer", f"{self.name}: {error}")
            return "unknown"
        self.done += 1
        return "done"


class Admins:
    """Some of them, for the length of a `with` block; `finish` judges what they were told."""

    def __init__(self, realm: Realm, count: int = 2) -> None:
        self.realm = realm
        self.journal = Journal()
        self.admins = [Admin(f"admin-{number}", realm, self.journal, seed=number) for number in range(count)]

    @property
    def done(self) -> int:
        return sum(admin.done for admin in self.admins)

    def __enter__(self) -> Admins:
        for admin in self.admins:
            admin.start()
        self.work()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for admin in self.admins:
            admin._stop.set()

    def work(self, more: int = 5) -> None:
        """Wait until each of them has so many more changes acknowledged."""
        goals = [(admin, admin.done + more) for admin in self.admins]
        eventually(lambda: all(admin.done >= goal for admin, goal in goals), f"{more} more changes by each admin")

    def finish(self, expected: tuple[str, ...] = ()) -> str:
        """After the last fault: what every broker says about every topic, and whether that can be.

        `expected` are words of alarm that a node's log may have, because of what the test did to it.
        """
        for admin in self.admins:
            admin.stop()
        self.realm.settle()
        for broker in BROKERS:
            self._list(broker)
        for node in self.realm.ended():
            self.journal.complain("dead node", f"{node} ended by itself")
        for alarm in self.realm.alarms(expected):
            self.journal.complain("alarm", alarm)
        anomalies = judge(self.journal.history)
        assert not anomalies, "\n".join(map(str, anomalies[:8]))
        refused = sum(admin.refused for admin in self.admins)
        return f"{self.done} changes, {refused} refusals, {self.realm.faults} faults, {self.journal.now():.0f} s"

    def _list(self, broker: int) -> None:
        described = self.realm.describe(broker)
        topics = {name: TopicState("", len(parts)) for name, parts in described.items() if name.startswith("admin-")}
        self.journal.add(TopicsListed(self.journal.now(), topics))
        with Wire(self.realm.node(broker).address) as wire:
            for name in topics:
                asked = DescribeConfigsResource(resource_type=2, resource_name=name, configuration_keys=[CONFIG])
                (told,) = wire.call(4, DescribeConfigsRequest(resources=[asked])).results
                seen = ConfigSeen(self.journal.now(), broker, name, told.configs[0].value)
                self.journal.add(seen)  # type: ignore[arg-type]
