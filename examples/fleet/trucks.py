"""Truck positions: a seeded day on the road, so that every run tells the same story.

Trucks drive from city to city, stop now and then, and some hurry. Each reports every ten seconds. A truck in a tunnel
cannot send: its reports come later, all at once. Now and then a receiver sends nonsense.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import Final, NamedTuple

CITIES: Final = {
    "Oslo": (59.91, 10.75),
    "Bergen": (60.39, 5.32),
    "Trondheim": (63.43, 10.40),
    "Kristiansand": (58.15, 8.00),
    "Ålesund": (62.47, 6.15),
}
EVERY_S: Final = 10
START_MS: Final = 1_767_596_400_000  # 5 January 2026, 7:00 UTC
_KM_PER_DEGREE: Final = 111.0


class Report(NamedTuple):
    """What a truck says, when it happened and when it is sent."""

    truck: str
    value: bytes
    at_ms: int
    sent_ms: int


@dataclass(slots=True)
class Truck:
    """One truck, where it is, where it goes, and what it does for how long."""

    name: str
    latitude: float
    longitude: float
    goal: tuple[float, float]
    cruise_kmh: int
    speed_kmh: int = 0
    stands_for: int = 0
    hurries_for: int = 0
    sequence: int = 0

    def drive(self, rng: random.Random) -> None:
        """Ten seconds on the road."""
        self._change_its_mind(rng)
        if self.stands_for:
            self.stands_for -= 1
            self.speed_kmh = 0
            return
        self.hurries_for = max(0, self.hurries_for - 1)
        wanted = rng.randrange(98, 118) if self.hurries_for else self.cruise_kmh + rng.randrange(-6, 7)
        self.speed_kmh = max(1, wanted)
        north, east = self.goal[0] - self.latitude, self.goal[1] - self.longitude
        distance = max(1e-9, (north**2 + (east / 2) ** 2) ** 0.5)  # a degree of longitude is half as long up here
        step = min(1.0, self.speed_kmh * EVERY_S / 3600 / _KM_PER_DEGREE / distance)
        self.latitude += north * step
        self.longitude += east * step
        if step == 1.0:
            self.stands_for = 60
            self.goal = rng.choice([place for place in CITIES.values() if place != self.goal])

    def _change_its_mind(self, rng: random.Random) -> None:
        draw = rng.random()
        if draw < 0.002:
            self.stands_for = max(self.stands_for, rng.randrange(12, 90))
        elif draw < 0.004:
            self.hurries_for = rng.randrange(6, 40)

    def report(self, at_ms: int, rng: random.Random) -> bytes:
        """JSON, but for one in five hundred; and one in two hundred is from a place that is not on Earth."""
        self.sequence += 1
        latitude = self.latitude if rng.random() > 0.005 else 900.0 + self.latitude
        said = {
            "truck": self.name,
            "seq": self.sequence,
            "at_ms": at_ms,
            "lat": round(latitude, 5),
            "lon": round(self.longitude, 5),
            "speed_kmh": self.speed_kmh,
        }
        text = json.dumps(said).encode()
        return text if rng.random() > 0.002 else text[: len(text) // 2]


def fleet(size: int, rng: random.Random) -> list[Truck]:
    places = list(CITIES.values())
    trucks = []
    for number in range(1, size + 1):
        start, goal = rng.sample(places, 2)
        trucks.append(Truck(f"truck-{number:02d}", *start, goal, rng.randrange(62, 88)))
    return trucks


def day(trucks: list[Truck], hours: float, rng: random.Random) -> list[Report]:
    """Everything that the fleet sends, in the order in which it is sent."""
    reports = []
    for truck in trucks:
        offset_ms, tunnel_until_ms = rng.randrange(EVERY_S * 1000), 0
        for number in range(int(hours * 3600 / EVERY_S)):
            at_ms = START_MS + offset_ms + number * EVERY_S * 1000
            truck.drive(rng)
            if at_ms >= tunnel_until_ms and rng.random() < 0.004:
                tunnel_until_ms = at_ms + rng.randrange(60, 2400) * 1000
            sent_ms = max(at_ms + rng.randrange(200, 3000), tunnel_until_ms)
            reports.append(Report(truck.name, truck.report(at_ms, rng), at_ms, sent_ms))
    return sorted(reports, key=lambda report: report.sent_ms)
