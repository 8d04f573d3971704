"""A group under test: members of any flavours, a topic with records to read, and what is judged when it ends."""

from __future__ import annotations

import time
from typing import Any

from tests.compat import wire
from tests.compat.clients.base import Record
from tests.compat.clients.confluent import Confluent
from tests.compat.conftest import unique_name
from tests.compat.members.flavours import Flavour
from tests.compat.members.history import History, read_without_owning, two_owners
from tests.compat.members.host import Event, Host, Member, Place, wait_for
from tests.compat.members.spec import Spec

PARTITIONS = 4
KILLED_AFTER_MS = 1_500


class Group:
    """Members by the flavour a test is about, or by others."""

    def __init__(self, bootstrap: str, flavour: Flavour) -> None:
        self.bootstrap = bootstrap
        self.flavour = flavour
        self.name = unique_name("group")
        self.topic = unique_name()
        self.members: list[Member] = []
        self.is_judged = "exact-times" not in flavour.lacks
        """Whether its members are believed about what they own: not those that were asleep when it was taken away."""
        self._written: dict[int, int] = {}
        wire.create_topic(bootstrap, self.topic, PARTITIONS)

    @property
    def places(self) -> set[Place]:
        return {(self.topic, partition) for partition in range(PARTITIONS)}

    def write(self, count: int = 40, partitions: tuple[int, ...] = (0, 1, 2, 3)) -> None:
        """Spread evenly; a record's value is its partition and its offset."""
        records = []
        for number in range(count):
            partition = partitions[number % len(partitions)]
            offset = self._written.get(partition, 0)
            self._written[partition] = offset + 1
            records.append(Record(f"{partition}/{offset}".encode(), partition=partition))
        Confluent(self.bootstrap).produce(self.topic, records)

    @property
    def ends(self) -> dict[Place, int]:
        return {(self.topic, partition): end for partition, end in self._written.items()}

    def join(self, host: Host | None = None, flavour: Flavour | None = None, **changed: Any) -> Member:
        flavour = flavour or self.flavour
        commit = "auto" if "manual-commit" in flavour.lacks else "manual"
        fields = {"topics": (self.topic,), "protocol": flavour.protocol, "commit": commit, **changed}
        member = (host or flavour.shared_host()).join(Spec(bootstrap=self.bootstrap, group=self.name, **fields))
        self.members.append(member)
        return member

    def wait_until_shared(self, *members: Member) -> None:
        """Every partition has an owner among these, and each of these has its fair share."""
        least = PARTITIONS // len(members)

        def shared() -> bool:
            owned = [set(member.owned) for member in members]
            fair = all(least <= len(each) <= least + (PARTITIONS % len(members) > 0) for each in owned)
            return fair and set().union(*owned) == self.places and sum(map(len, owned)) == PARTITIONS

        wait_for(shared, f"{len(members)} members share the topic", *members)

    def wait_until_read(self, count: int, *members: Member) -> None:
        wait_for(lambda: sum(len(member.records) for member in members) >= count, f"{count} records", *members)

    def committed(self) -> dict[Place, int]:
        return self.committed_by(self.bootstrap, self.name)

    @staticmethod
    def committed_by(bootstrap: str, group: str) -> dict[Place, int]:
        """What the broker says that a group has committed."""
        with wire.Wire(bootstrap) as connection:
            answer = connection.ask("offset_fetch", 8, groups=[{"group_id": group, "topics": None}])
        return {
            (topic["name"], partition["partition_index"]): partition["committed_offset"]
            for topic in answer["groups"][0]["topics"]
            for partition in topic["partitions"]
        }

    def wait_until_committed(self, offsets: dict[Place, int]) -> None:
        wait_for(lambda: self.committed() == offsets, f"commit of {offsets}", *self.members)

    @property
    def events(self) -> list[Event]:
        return [event for member in self.members for event in member.events]

    def close(self) -> None:
        """All leave; whatever was tested, no partition may have had two owners."""
        for member in self.members:
            if member.is_in:
                member.leave(wait=False)
        wait_for(lambda: not any(member.is_in for member in self.members), "all leave", *self.members)
        if self.is_judged:
            history = History(self.events, {})
            assert two_owners(history) + read_without_owning(history) == []


def values(member: Member) -> list[str]:
    return sorted(record.value for record in member.records)


def quiet(members: list[Member], seconds: float) -> bool:
    """Whether nothing happened to these members' partitions for so long: the one wait that no condition can end."""
    before = [len(member.events) for member in members]
    time.sleep(seconds)
    news = [event for member, seen in zip(members, before) for event in member.events[seen:]]
    return not any(event.kind in ("assigned", "revoked", "lost") and event.places for event in news)
