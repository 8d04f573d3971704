"""Thirty members come and go at random while a producer writes: nothing is lost, skipped, swapped or read too often.

Ten seconds in an ordinary run, half of that for Kafka; `CHURN_SECONDS=60` for a full minute, `CHURN_SEED` for another
course of events. What the members told is judged by `members.history`.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import KafkaError, Message, Producer

from tests.compat import wire
from tests.compat.cache import Unavailable
from tests.compat.conftest import skip_without, unique_name
from tests.compat.groups import Group
from tests.compat.members.flavours import FLAVOURS, Flavour
from tests.compat.members.history import History, anomalies
from tests.compat.members.host import Host, Member, wait_for
from tests.compat.members.spec import Spec
from tests.compat.servers import Server

SECONDS = {"kafka": 5.0, "bifrost": 10.0, "foreign": 10.0}
if "CHURN_SECONDS" in os.environ:
    SECONDS = dict.fromkeys(SECONDS, float(os.environ["CHURN_SECONDS"]))
SEED = int(os.environ.get("CHURN_SEED", "4"))
MEMBERS = 30
PARTITIONS = 12
RECORDS_PER_SECOND = 400
PAUSE_S = (0.05, 0.5)
PATIENCE_S = 70.0
"""A client that was thrown out while thirty others had the cores may take its time to leave, also Kafka."""
KILLED = 0.1
"""Of ten that go, one host is killed with all that are in it; the others leave in order."""


class Writer(threading.Thread):
    """Writes numbers round the partitions until it is told to stop; knows then where each partition ends."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(daemon=True)
        self._producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 5})
        self._topic = topic
        self._enough = threading.Event()
        self.ends: dict[tuple[str, int], int] = {}
        self.errors: list[KafkaError] = []

    def run(self) -> None:
        number = 0
        while not self._enough.wait(0.02):
            for _ in range(int(RECORDS_PER_SECOND * 0.02)):
                self._producer.produce(
                    self._topic, str(number).encode(), partition=number % PARTITIONS, on_delivery=self._delivered
                )
                number += 1
            self._producer.poll(0)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.errors.append(error)
            return
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        place = (self._topic, partition)
        self.ends[place] = max(self.ends.get(place, 0), offset + 1)

    def finish(self) -> None:
        self._enough.set()
        self.join()
        assert self._producer.flush(20) == 0
        assert not self.errors, self.errors


class Crowd:
    """Hosts of several clients and the members in them."""

    def __init__(self, bootstrap: str, topic: str, flavours: list[Flavour], chance: random.Random) -> None:
        self._chance = chance
        self._flavours = flavours
        self._hosts: list[tuple[Flavour, Host]] = []
        self._spec = {"bootstrap": bootstrap, "group": unique_name("churn"), "topics": (topic,)}
        self.group = str(self._spec["group"])
        self.everybody: list[Member] = []
        self._leaving: list[Member] = []

    @property
    def present(self) -> list[Member]:
        return [member for member in self.everybody if member.is_in]

    def add_host(self, flavour: Flavour) -> None:
        self._hosts.append((flavour, flavour.make_host()))

    def join(self) -> None:
        """Into the host with the fewest members."""
        flavour, host = min(self._hosts, key=lambda each: sum(member.is_in for member in each[1].members.values()))
        assignor = "range" if flavour.protocol == "classic" else None
        extra = {"protocol": flavour.protocol, "assignor": assignor, "commit": "always", "slow_rebalances": True}
        self.everybody.append(host.join(Spec(**self._spec, **extra)))  # type: ignore[arg-type]

    def leave(self) -> None:
        """A member in order; or a host is killed, and a new one of its kind comes."""
        if self._chance.random() < KILLED:
            number = self._chance.randrange(len(self._hosts))
            flavour, host = self._hosts.pop(number)
            host.kill()
            self.add_host(flavour)
            return
        staying = [member for member in self.present if member not in self._leaving]
        if staying:
            member = self._chance.choice(staying)
            self._leaving.append(member)
            member.leave(wait=False)

    def churn(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            gone = MEMBERS - len(self.present)
            self.join() if self._chance.random() < 0.25 + gone / MEMBERS else self.leave()
            time.sleep(self._chance.uniform(*PAUSE_S))

    def stop(self) -> None:
        for _, host in self._hosts:
            host.stop()


@contextmanager
def crowd_of(bootstrap: str, topic: str, names: list[str], chance: random.Random) -> Iterator[Crowd]:
    flavours = [FLAVOURS[name] for name in names]
    crowd = Crowd(bootstrap, topic, flavours, chance)
    try:
        for number in range(8):
            crowd.add_host(flavours[number % len(flavours)])
        yield crowd
    except Unavailable as error:
        skip_without(error)
    finally:
        crowd.stop()


MIXTURES = {
    "classic": ["confluent", "kafka-python", "aiokafka", "franz-go"],
    "consumer": ["confluent-848", "franz-go-848"],
}


@pytest.mark.alone
@pytest.mark.timeout(max(SECONDS.values()) + 170)
@pytest.mark.parametrize("protocol", MIXTURES)
def test_thirty_members_come_and_go(protocol: str, broker: Server, coordinators: None) -> None:
    seconds = SECONDS[broker.name]
    topic = unique_name()
    wire.create_topic(broker.bootstrap, topic, PARTITIONS)
    writer = Writer(broker.bootstrap, topic)
    with crowd_of(broker.bootstrap, topic, MIXTURES[protocol], random.Random(SEED)) as crowd:
        for _ in range(MEMBERS):
            crowd.join()
        writer.start()
        crowd.churn(seconds)
        writer.finish()
        _drain(crowd, writer)
        for member in crowd.present:
            member.leave(wait=False)
        wait_for(lambda: not crowd.present, "all leave", *crowd.everybody, timeout_s=PATIENCE_S)
    assert sum(writer.ends.values()) > seconds * RECORDS_PER_SECOND / 2, "the producer was hardly running"
    assert len(crowd.everybody) > MEMBERS + seconds / 2, "hardly anybody came or went"
    events = [event for member in crowd.everybody for event in member.events]
    committed = Group.committed_by(broker.bootstrap, crowd.group)
    assert anomalies(History(events, writer.ends, committed)) == []
    assert committed == writer.ends, "who reads all commits all"


def _drain(crowd: Crowd, writer: Writer) -> None:
    """The rest settles: every partition has an owner, who has read it to its end."""
    while len(crowd.present) < 3:
        crowd.join()

    def done() -> bool:
        owned = [place for member in crowd.present for place in member.owned]
        seen: dict[tuple[str, int], int] = {}
        for member in crowd.everybody:
            for record in member.records[-2000:]:
                place = (record.topic, record.partition)
                seen[place] = max(seen.get(place, 0), record.offset + 1)
        return sorted(owned) == sorted(writer.ends) and seen == writer.ends

    wait_for(done, "every partition is owned and read to its end", *crowd.present, timeout_s=60)
