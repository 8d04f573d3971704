"""Truck positions: a seeded random drive, so that every run tells the same story."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass

CITIES = {"Oslo": (59.91, 10.75), "Bergen": (60.39, 5.32), "Trondheim": (63.43, 10.40), "Tromsø": (69.65, 18.96)}


@dataclass(slots=True)
class Truck:
    """One truck and the number of its last report."""

    name: str
    latitude: float
    longitude: float
    sequence: int = 0

    def drive(self, rng: random.Random) -> bytes:
        """Move a little and report: the sequence number is what shows later that no report is missing."""
        self.latitude += rng.uniform(-0.01, 0.01)
        self.longitude += rng.uniform(-0.02, 0.02)
        self.sequence += 1
        report = {
            "truck": self.name,
            "seq": self.sequence,
            "lat": round(self.latitude, 5),
            "lon": round(self.longitude, 5),
            "speed_kmh": rng.randrange(0, 90),
        }
        return json.dumps(report).encode()


def fleet(size: int, rng: random.Random) -> list[Truck]:
    places = list(CITIES.values())
    return [Truck(f"truck-{number:02d}", *rng.choice(places)) for number in range(1, size + 1)]


def reports(trucks: list[Truck], count: int, rng: random.Random) -> Iterator[tuple[str, bytes]]:
    """`count` reports as (truck, value), in the order in which the fleet sends them."""
    for _ in range(count):
        truck = rng.choice(trucks)
        yield truck.name, truck.drive(rng)
