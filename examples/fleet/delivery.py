"""The fleet's reports through a topic and back: sent, acknowledged, read, and compared one by one."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

import bifrost
from bifrost.client.delivery import Delivery
from examples.fleet.trucks import Report

POSITIONS: Final = "truck-positions"
ALERTS: Final = "truck-alerts"
PARTITIONS: Final = 4
REPLICAS: Final = 3
IN_SYNC_MIN: Final = 2
"""So many brokers must have a write on disk before it is acknowledged, or it is refused."""
_AHEAD_S: Final = 0.01
_TOLD_EVERY: Final = 250


class Acknowledged(NamedTuple):
    """One report that the cluster has: when it was sent, when that was heard, and where it is."""

    sent_s: float
    heard_s: float
    partition: int


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


def create_topics(bootstrap: str, replicas: int = REPLICAS) -> None:
    safe = {"min.insync.replicas": min(IN_SYNC_MIN, replicas)}
    with bifrost.Admin(bootstrap) as admin:
        for topic in (POSITIONS, ALERTS):
            admin.create_topic(topic, PARTITIONS, replicas, config=safe)


class Stream:
    """Reports on their way to the topic. What is acknowledged is written down, for whoever wants to know when."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self.acknowledged: list[Acknowledged] = []
        """Grows while reports are sent; in the order in which that was heard."""
        self.is_over = False

    def send(self, reports: list[Report], seconds: float = 0, told: Callable[[int], object] = lambda _: None) -> None:
        """Everything, spread over so many seconds; returns when all of it is acknowledged, and raises if it is not.

        Keyed by truck, so that a truck's reports share a partition and keep their order.
        """
        began_s = time.perf_counter()
        try:
            with bifrost.Producer(self._bootstrap, key="str", compression="lz4", acks="all") as producer:
                for number, report in enumerate(reports):
                    now_s = time.perf_counter()
                    ahead_s = began_s + seconds * number / len(reports) - now_s
                    if ahead_s > _AHEAD_S:
                        told(len(self.acknowledged))
                        time.sleep(ahead_s)
                    elif number % _TOLD_EVERY == 0:
                        told(len(self.acknowledged))
                    heard = partial(self._hear, time.perf_counter())
                    producer.send(POSITIONS, report.value, key=report.truck, on_delivery=heard)
        finally:
            self.is_over = True
        told(len(self.acknowledged))

    def _hear(self, sent_s: float, delivery: Delivery) -> None:
        if delivery.exception(0) is None:  # else the producer says so at the end
            self.acknowledged.append(Acknowledged(sent_s, time.perf_counter(), delivery.result(0).partition))


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
