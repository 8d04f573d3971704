"""What must hold of a consumer group after every single step, whatever its members and its coordinator go through.

Each check raises `Broken` with the name of the promise. They look at the coordinator from outside: at its journal, at
what it told members, and at what members believe; a second coordinator that only reads the journal serves as a mirror.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from bifrost.coordinator.core.consumer.group import ConsumerGroup, ConsumerGroupState
from bifrost.coordinator.core.consumer.member import Holdings
from bifrost.coordinator.core.consumer.target import existing
from bifrost.errors import ApiError

from .stand_ins import GROUP, Shard

Partition = tuple[UUID, int]


class Broken(AssertionError):
    """A promise that was not kept; `str` starts with its name."""


def require(condition: bool, promise: str, detail: object = "") -> None:
    if not condition:
        raise Broken(f"{promise}: {detail}")


class Invariants:
    """Watches one shard."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._mirror = Shard(shard.topics)
        self._read = 0
        self._epochs: dict[str, int] = {}
        self._held: dict[str, dict[Partition, int]] = {}
        self._paused: dict[str, dict[Partition, int]] = {}
        self._revoking: dict[str, set[Partition]] = {}

    def check(self, believed: Mapping[str, set[Partition]]) -> None:
        """`believed` is what each living client reads, under the id that it joined with."""
        self._follow()
        group = self._shard.groups.get(GROUP)
        if group is None:
            return
        self.one_owner(group)
        self.believes_no_more_than_it_owns(group, believed)
        self.stable_means_complete(group)
        self.epochs_never_go_back(group)
        self.the_journal_tells_all(group)

    def one_owner(self, group: ConsumerGroup) -> None:
        owners: dict[Partition, str] = {}
        for member in group.members.values():
            for partition in member.holdings():
                other = owners.setdefault(partition, member.member_id)
                require(other == member.member_id, "one owner", f"{partition}: {other} and {member.member_id}")
        require(owners == group.owners, "one owner", "the index of owners is wrong")

    def believes_no_more_than_it_owns(self, group: ConsumerGroup, believed: Mapping[str, set[Partition]]) -> None:
        """Only what a member itself gave up is given to another, as long as it is a member."""
        for member_id, partitions in believed.items():
            member = group.members.get(member_id)
            if member is not None and member.epoch > 0:
                lost = partitions - set(member.holdings())
                require(not lost, "give up before others get", f"{member_id} was not told to give up {lost}")

    def stable_means_complete(self, group: ConsumerGroup) -> None:
        if group.state is not ConsumerGroupState.STABLE or group.metadata_is_stale:
            return
        topics = existing(group.subscribed_topics(), self._shard.topics)
        wanted = {(topic_id, number) for topic_id, count in topics.items() for number in range(count)}
        require(group.owners.keys() == wanted, "none without an owner", wanted ^ group.owners.keys())

    def epochs_never_go_back(self, group: ConsumerGroup) -> None:
        seen = {"group": group.group_epoch, "assignment": group.assignment_epoch}
        seen |= {f"member {member.member_id}": member.epoch for member in group.members.values() if member.epoch > 0}
        for name, epoch in seen.items():
            require(epoch >= self._epochs.get(name, 0), "epochs never go back", f"{name}: {epoch}")
        self._epochs |= seen
        require(
            all(member.epoch <= group.group_epoch for member in group.members.values()),
            "epochs never go back",
            "a member is ahead of its group",
        )

    def the_journal_tells_all(self, group: ConsumerGroup) -> None:
        mirrored = self._mirror.groups.get(GROUP)
        require(mirrored is not None and lasting(mirrored) == lasting(group), "the journal tells all")

    def commits_of_the_past_are_refused(self, member_id: str, epoch: int, partition: Partition) -> None:
        """Accepted in the member's epoch, or in a past one since which it has held the partition without a break."""
        group = self._shard.group
        member = group.members.get(member_id)
        may = member is not None and (
            epoch == member.epoch
            or (epoch < member.epoch and self._held.get(member_id, {}).get(partition, 1 << 31) <= epoch)
        )
        try:
            self._shard.core.check_commit(group, member_id, epoch, 9, [partition])
        except ApiError:
            require(not may, "commits of the present are taken", f"{member_id} in {epoch}")
        else:
            require(may, "commits of the past are refused", f"{member_id} in {epoch}")

    def _note_holdings(self, group: ConsumerGroup) -> None:
        """Since when everybody has what. Who left for a while keeps it for whoever comes back, from the very start;
        what was given up and given back has been owned only since then."""
        now: dict[str, dict[Partition, int]] = {}
        for member in group.members.values():
            known = self._held.get(member.member_id)
            if known is None:
                known = self._paused.get(member.instance_id or "", {})
            if member.epoch == -2:
                known = dict.fromkeys(member.holdings(), 0)
            now[member.member_id] = {
                partition: member.epoch
                if partition in self._revoking.get(member.member_id, ()) and partition in _flat(member.assigned)
                else known.get(partition, member.epoch)
                for partition in member.holdings()
            }
        self._held = now
        self._revoking = {member.member_id: _flat(member.revoking) for member in group.members.values()}
        self._paused = {
            member.instance_id: now[member.member_id]
            for member in group.members.values()
            if member.instance_id is not None and member.epoch == -2
        }

    def _follow(self) -> None:
        for batch in self._shard.journal.batches[self._read :]:
            self._mirror.replay(batch)
            self._note_holdings(self._mirror.group)
        self._read = len(self._shard.journal.batches)


def _flat(holdings: Holdings) -> set[Partition]:
    return {(topic_id, partition) for topic_id, partitions in holdings.items() for partition in partitions}


def lasting(group: ConsumerGroup) -> dict[str, Any]:
    """All of a group that must survive its coordinator."""
    soft = {"metadata_is_stale", "regexes_tried_at"}
    return {name: value for name, value in vars(group).items() if name not in soft}


def partitions_of(assigned: Iterable[Any]) -> set[Partition]:
    """The partitions in an answer."""
    return {(topic.topic_id, number) for topic in assigned for number in topic.partitions}
