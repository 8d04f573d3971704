"""Judges what only real clients show, beside the checkers of the simulator: one pure function per anomaly.

Of Jepsen's anomalies of Kafka without transactions these are here or there: lost write (`lost_writes`, and
`missing_writes` where no offset was told), unseen (`unseen_writes`), duplicate (`duplicates`), inconsistent offsets
(`divergent_offsets`), skipped and non-monotonic polls (`skipped_polls`, `nonmonotone_polls`), skipped and non-monotonic
sends (`skipped_sends`, `reordered`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import NamedTuple

from bifrost.types import TopicPartition
from tests.sim import checkers as shared
from tests.sim.anomaly import Anomaly
from tests.sim.crowd.events import OffsetCommitted, OffsetSeen
from tests.sim.history import History, Place, Polled, Value
from tests.sim.topic_checkers import lost_metadata


class ReadToEnd(NamedTuple):
    """Whoever these readers are together (one alone, or the members of a group), they have read all that there is."""

    at: float
    name: str
    readers: frozenset[str]


class StoredSomewhere(NamedTuple):
    """A client was told that its write is stored, and not where: librdkafka concludes so much from a later answer."""

    at: float
    place: Place
    value: Value


class ConfigChanged(NamedTuple):
    """Its only owner changed a config of a topic. `outcome` is "done" or "unknown"."""

    at: float
    topic: str
    value: str
    outcome: str


class ConfigSeen(NamedTuple):
    """A broker told what the config is, when everything was over."""

    at: float
    broker: int
    topic: str
    value: str


def unseen_writes(history: History) -> list[Anomaly]:
    """An acknowledged write that was delivered to nobody of those who have read to the end."""
    read: dict[str, set[tuple[Place, Value]]] = defaultdict(set)
    for event in history.of(Polled):
        read[event.reader].update((event.place, value) for _, value in event.records)
    found = []
    for end in history.of(ReadToEnd):  # type: ignore[type-var]
        seen = set().union(*(read[reader] for reader in end.readers))
        found += [
            Anomaly("unseen write", str(write.place), f"{write}, and {end.name} has read to the end without it")
            for write in history.acknowledged()
            if (write.place, write.value) not in seen
        ]
    return found


def missing_writes(history: History) -> list[Anomaly]:
    """A write that was acknowledged without its offset, and is nowhere in its partition in the end."""
    stored = {place: set(records.values()) for place, records in history.final().items()}
    return [
        Anomaly("missing write", str(event.place), f"{event.value} acknowledged at {event.at:.3f} is nowhere")
        for event in history.of(StoredSomewhere)  # type: ignore[type-var]
        if event.place in stored and event.value not in stored[event.place]
    ]


def skipped_sends(history: History) -> list[Anomaly]:
    """A value of an idempotent producer that is missing, though a later one of the same line is there.

    A producer that was told of a failure may go on without it: such a value is a complaint of its own.
    """
    stored: dict[tuple[Place, str, int], set[int]] = defaultdict(set)
    for place, records in history.final().items():
        for value in records.values():
            stored[place, value.producer, value.line].add(value.number)
    found = []
    for (place, producer, line), numbers in stored.items():
        missing = set(range(max(numbers))) - numbers
        if missing:
            detail = f"{producer}.{line}: {sorted(missing)[:5]} are missing, {max(numbers)} is there"
            found.append(Anomaly("skipped send", str(place), detail))
    return found


def commits_went_back(history: History) -> list[Anomaly]:
    """A group that was told an offset below one whose commit had been acknowledged before the question.

    Unless somebody did commit the lower one, later or nobody knows when: clients keep commits while their coordinator
    is gone, and send them when the group may have moved on.
    """
    commits: dict[tuple[str, TopicPartition], list[OffsetCommitted]] = defaultdict(list)
    for event in history.of(OffsetCommitted):
        commits[event.group, event.partition].append(event)
    found = []
    for seen in history.of(OffsetSeen):
        known = commits[seen.group, seen.partition]
        done = [one for one in known if one.outcome == "done" and one.at <= seen.asked_at]
        highest = max(done, key=lambda one: one.offset, default=None)
        if highest is None or seen.offset >= highest.offset:
            continue
        if not any(one.offset == seen.offset and (one.outcome != "done" or one.at > highest.at) for one in known):
            told = ", ".join(map(str, known[-5:]))
            detail = (
                f"{seen.partition}: {seen.reader} was told {seen.offset} at {seen.at:.3f}, after {highest} ({told})"
            )
            found.append(Anomaly("commit went back", seen.group, detail))
    return found


def lost_configs(history: History) -> list[Anomaly]:
    """A config that is neither the last acknowledged value nor one that was under way since."""
    possible: dict[str, list[str]] = {}
    for change in history.of(ConfigChanged):  # type: ignore[type-var]
        if change.outcome == "done":
            possible[change.topic] = [change.value]
        elif change.topic in possible:  # else it may also have what it was made with
            possible[change.topic].append(change.value)
    return [
        Anomaly("lost config", seen.topic, f"broker {seen.broker} says {seen.value}, possible is {known}")
        for seen in history.of(ConfigSeen)  # type: ignore[type-var]
        if seen.value not in (known := possible.get(seen.topic, [seen.value]))
    ]


CHECKERS: tuple[Callable[[History], list[Anomaly]], ...] = (
    shared.complaints,
    shared.lost_writes,
    shared.vanished_reads,
    shared.divergent_offsets,
    shared.duplicates,
    shared.reordered,
    shared.garbage,
    shared.nonmonotone_polls,
    shared.skipped_polls,
    shared.unstable_ends,
    lost_metadata,
    missing_writes,
    unseen_writes,
    skipped_sends,
    commits_went_back,
    lost_configs,
)


def judge(history: History) -> list[Anomaly]:
    """Everything that is wrong with a history of real clients."""
    return [anomaly for check in CHECKERS for anomaly in check(history)]
