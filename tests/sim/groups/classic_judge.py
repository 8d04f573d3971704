"""What must hold in a classic group at every step, told from what its members were answered.

Each rule keeps just the facts it needs, and says what it saw when it was broken.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from bifrost.coordinator.core.classic.group import ClassicGroup, ClassicState
from bifrost.coordinator.core.classic.persistence import group_from_record
from bifrost.coordinator.core.environment import LogRecord
from bifrost.coordinator.core.records import GroupMetadataKey, GroupMetadataValue, read_key, read_value
from tests.sim.anomaly import Anomaly
from tests.sim.groups.classic_client import REBALANCE_MS

ANSWER_MS_MAX = REBALANCE_MS + 1_000
"""Whoever joins or syncs waits for the slowest member, and nobody may be slower than its rebalance timeout."""


@dataclass(slots=True)
class Asked:
    """A request to a node that lives: sooner or later it has one answer."""

    what: str
    sent_ms: int
    answers: int = 0
    lost: bool = False
    """Its node died."""


@dataclass(slots=True)
class Judge:
    """Hears everything that happens to one group."""

    partitions: int
    only: str | None = None
    """The kind of anomaly that is looked for; all of them if None."""
    anomalies: list[Anomaly] = field(default_factory=list)
    synced_generation: int = 0
    """The last one that a member was given an assignment of."""
    _owners: dict[int, dict[int, str]] = field(default_factory=lambda: defaultdict(dict))
    _given: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    """Of the members of that generation, the ids under which they were given something, and what that was."""
    _successors: dict[str, str] = field(default_factory=dict)  # member id of a static member -> the one after it
    _asked: list[Asked] = field(default_factory=list)
    _replayed: tuple[int, int, int] | None = None
    """What the log and the members said when they were compared last."""

    def ask(self, what: str, now_ms: int) -> Asked:
        asked = Asked(what, now_ms)
        self._asked.append(asked)
        return asked

    def answer(self, asked: Asked) -> None:
        """The core answered; whether that reaches anybody is another matter."""
        asked.answers += 1
        if asked.answers > 1:
            self._report("answered twice", asked.what)

    def late(self, now_ms: int) -> None:
        """No request waits longer than anything can take."""
        for asked in self._asked:
            if not asked.answers and not asked.lost and now_ms - asked.sent_ms > ANSWER_MS_MAX:
                self._report("never answered", f"{asked.what}, asked at {asked.sent_ms} ms, now {now_ms} ms")
                asked.lost = True
        self._asked = [asked for asked in self._asked if not asked.answers and not asked.lost]

    def unloaded(self) -> None:
        """The node gave its groups away: everybody was told."""
        for asked in self._asked:
            if not asked.answers and not asked.lost:
                self._report("never answered", f"{asked.what}, when the group moved away")

    def crash(self) -> None:
        for asked in self._asked:
            asked.lost = True

    def synced(self, *, owner: str, member_id: str, generation: int, assignment: bytes) -> None:
        """A member got its assignment: nobody else has the same partition in the same generation."""
        if generation > self.synced_generation:
            self.synced_generation = generation
            self._given.clear()
        if generation == self.synced_generation:
            self._given[owner] = (member_id, assignment)
        owners = self._owners[generation]
        for partition in assignment:
            other = owners.setdefault(partition, owner)
            if other != owner:
                self._report("two owners", f"{partition} is of {other} and of {owner} in generation {generation}")

    def replaced(self, old: str, new: str) -> None:
        """A static member got an assignment under a new id: from now on the old one is nobody."""
        if old != new:
            self._successors[old] = new

    def committed(self, *, member_id: str, generation: int) -> None:
        """A commit was accepted."""
        if generation < self.synced_generation:
            last = self.synced_generation
            self._report("stale commit", f"{member_id} of generation {generation} after {last} was given out")
        if member_id in self._successors:
            self._report("fenced commit", f"{member_id} after {self._successors[member_id]} took its place")

    def state(self, group: ClassicGroup | None, clocks: int) -> None:
        """A stable group has an owner for every partition, and the parts of any group agree with each other."""
        if group is None:
            return
        if clocks > len(group.members) + len(group.pending_joins) + 1:  # their sessions, and the joining or syncing
            self._report("clocks left", f"{clocks} with {len(group.members)} members")
        if group.state is ClassicState.STABLE:
            owned = sorted(partition for member in group.members.values() for partition in member.assignment)
            if owned != list(range(self.partitions)):
                self._report("not all owned", f"generation {group.generation} owns {owned}")
        joined = sum(member.joining is not None for member in group.members.values())
        static = {member.instance_id: member.member_id for member in group.members.values() if member.is_static}
        if joined != group.joined or static != group.static_members or group.pending_joins & set(group.members):
            self._report("parts disagree", f"{group.joined} joined, {group.static_members}, {group.pending_joins}")
        if group.members and group.leader not in group.members:
            self._report("no leader", f"{group.leader} is not in generation {group.generation}")

    def replay(self, group_id: str, records: Sequence[LogRecord], safe: int) -> None:
        """Whoever reads the log, as far as it is safe, finds what members were told."""
        now = (safe, self.synced_generation, len(self._given))
        if now == self._replayed or not self.synced_generation:
            return
        self._replayed = now
        group = _replay(group_id, records[:safe])
        if group is None or group.generation < self.synced_generation:
            found = "no group" if group is None else f"generation {group.generation}"
            self._report("forgotten", f"{found} in the log after {self.synced_generation} was given out")
        elif group.generation == self.synced_generation:
            kept = {member.instance_id or member.member_id: member for member in group.members.values()}
            for owner, (member_id, assignment) in self._given.items():
                member = kept.get(owner)
                if member is None or member.assignment != assignment or _age(member.member_id) < _age(member_id):
                    found = member and (member.member_id, member.assignment)
                    self._report("forgotten", f"{member_id} was given {assignment!r}, the log says {found}")

    def calm(self, group: ClassicGroup | None, living: dict[str, bytes | None]) -> None:
        """Long after the last disturbance everybody who lives is in and at work, and nobody else is."""
        found = {} if group is None else {member_id: member.assignment for member_id, member in group.members.items()}
        if found != living or group is None or group.state is not ClassicState.STABLE or group.pending_joins:
            self._report("not healed", f"{group and group.state}: members {found}, alive {living}")

    def _report(self, kind: str, evidence: str) -> None:
        if self.only in (None, kind):
            self.anomalies.append(Anomaly(kind, "group", evidence))


def _age(member_id: str) -> int:
    """Ids end in numbers that only grow here: a static member's new id is found in the log before it is heard of."""
    return int(member_id.rpartition("-")[2])


def _replay(group_id: str, records: Sequence[LogRecord]) -> ClassicGroup | None:
    group = None
    for record in records:
        key = read_key(record.key)
        assert isinstance(key, GroupMetadataKey)
        assert key.group == group_id
        if record.value is None:
            group = None
            continue
        value = read_value(key, record.value)
        assert isinstance(value, GroupMetadataValue)
        group = group_from_record(key, value)
    return group
