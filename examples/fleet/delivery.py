"""The fleet's reports through a topic and back: sent, acknowledged, read, and compared one by one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import bifrost
from examples.fleet.trucks import Report

POSITIONS = "truck-positions"
ALERTS = "truck-alerts"
PARTITIONS = 4


@dataclass(frozen=True)
class Proof:
    """What came back, compared with what was sent."""

    sent: int
    acknowledged: int
    read: int
    disordered: int
    """Trucks whose reports came back in another order, or incomplete."""
    scattered: int
    """Trucks in more than one partition."""

    @property
    def good(self) -> bool:
        return self.sent == self.acknowledged == self.read and not self.disordered and not self.scattered


def create_topics(bootstrap: str) -> None:
    with bifrost.Admin(bootstrap) as admin:
        for topic in (POSITIONS, ALERTS):
            admin.create_topic(topic, partitions=PARTITIONS)


def send(bootstrap: str, reports: Iterable[Report], sent: Callable[[int], None] = lambda _: None) -> int:
    """Keyed by truck, so that a truck's reports share a partition and keep their order; returns the acknowledged."""
    with bifrost.Producer(bootstrap, key="str", compression="lz4") as producer:
        for number, report in enumerate(reports, 1):
            producer.send(POSITIONS, report.value, key=report.truck)
            if number % 1000 == 0:
                sent(number)
    return producer.report().acknowledged


def read_back(bootstrap: str, reports: list[Report], acknowledged: int) -> Proof:
    """Everything in the topic, beside what was sent."""
    expected: dict[str, list[bytes]] = defaultdict(list)
    for report in reports:
        expected[report.truck].append(report.value)
    found: dict[str, list[bytes]] = defaultdict(list)
    places: dict[str, set[int]] = defaultdict(set)
    with bifrost.Consumer(POSITIONS, bootstrap=bootstrap, key="str", from_beginning=True, until_end=True) as consumer:
        for message in consumer:
            found[message.key].append(message.value)
            places[message.key].add(message.partition)
    return Proof(
        sent=len(reports),
        acknowledged=acknowledged,
        read=sum(map(len, found.values())),
        disordered=sum(found[truck] != values for truck, values in expected.items()),
        scattered=sum(len(partitions) > 1 for partitions in places.values()),
    )
