"""What must hold of topics that are compacted. Every record says by its value who wrote it, and so which key it has."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict

from tests.sim.anomaly import Anomaly
from tests.sim.compacted.keys import key_of
from tests.sim.history import Acknowledged, CompactedEnd, Crashed, History, Place, Polled, Value


def lost_keys(history: History) -> list[Anomaly]:
    """A key whose last acknowledged value is not there in the end, nor a later one, though no retention took it."""
    losses = history.losses()
    last_loss = losses[-1] if losses else -1.0
    final = {event.place: event for event in history.of(CompactedEnd)}
    found = []
    for event in history.of(Acknowledged):
        end = final.get(event.place)
        if end is None or event.asked_at < last_loss:
            continue
        for offset, value in enumerate(event.values, event.base_offset):
            if offset < end.start_offset or _is_there(end, offset, value):
                continue
            detail = f"{value} was acknowledged at offset {offset}, {key_of(value)!r} has nothing from there on"
            found.append(Anomaly("lost key", str(event.place), detail))
    return found


def _is_there(end: CompactedEnd, offset: int, value: Value) -> bool:
    """Itself, or what has replaced it."""
    first = bisect_left(end.records, (offset,))
    return any(there == value if at == offset else key_of(there) == key_of(value) for at, there in end.records[first:])


def returned_records(history: History) -> list[Anomaly]:
    """A record that was gone, and is back. A loss of power may undo the last renames of files, and nothing else."""
    power = [event.at for event in history.of(Crashed) if event.power]
    gone: dict[tuple[Place, int], dict[int, float]] = defaultdict(dict)  # by loss of power: when it was missed
    found = []
    compacted = {event.place for event in history.of(CompactedEnd)}
    for event in history.of(Polled):
        if event.place not in compacted or not event.records:
            continue
        era = bisect_left(power, event.asked_at)
        if era != bisect_left(power, event.at):
            continue
        missed = gone[event.place, era]
        there = {offset for offset, _ in event.records}
        for offset, value in event.records:
            if missed.get(offset, event.at) < event.asked_at:
                detail = f"{value} at offset {offset} was gone at {missed[offset]:.3f}, {event.reader} got it again"
                found.append(Anomaly("returned record", str(event.place), detail))
        for offset in range(event.fetch_offset, event.records[-1][0]):
            if offset not in there:
                missed.setdefault(offset, event.at)
    return found


def unstable_ends(history: History) -> list[Anomaly]:
    """A partition that was read twice in the end, and has records the second time that were not there before."""
    first: dict[Place, CompactedEnd] = {}
    found = []
    for event in history.of(CompactedEnd):
        known = first.setdefault(event.place, event)
        new = set(event.records) - set(known.records)
        if new:
            found.append(Anomaly("unstable end", str(event.place), f"{sorted(new)[:3]} were not there before"))
    return found


COMPACTED_CHECKERS = (lost_keys, returned_records, unstable_ends)
