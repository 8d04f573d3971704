"""Judges what admins of a cluster were told: acknowledged changes are there in the end, on every broker."""

from __future__ import annotations

from tests.sim.anomaly import Anomaly
from tests.sim.cluster.admins import Changed, Listed, Shape
from tests.sim.history import History


def lost_changes(history: History) -> list[Anomaly]:
    """An acknowledged topic is gone, a deleted one is back, or one is not what it was made."""
    possible: dict[str, list[Shape | None]] = {}
    found = []
    for event in list(history.events):
        if isinstance(event, Changed):
            possible[event.name] = [event.after] if event.outcome != "unknown" else [event.before, event.after]
        elif isinstance(event, Listed):
            for name in sorted({*possible, *event.topics}):
                states, now = possible.get(name, [None]), event.topics.get(name)
                if now not in states:
                    detail = f"{event.broker} lists {now} at {event.at:.3f}, possible is {states}"
                    found.append(Anomaly("lost change", name, detail))
    return found
