"""What groups have committed, kept as small as it can be: millions of offsets live here, and few are ever read.

An offset is the value of its record, as bytes, and is decoded when somebody asks for it. The key is not kept: groups,
topics and partitions are nested dictionaries. Changes come from the log and from nowhere else (`replay`), so what runs
and what is loaded cannot differ.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import cast

from bifrost.coordinator.core.environment import LogRecord
from bifrost.coordinator.core.records import OffsetCommitKey, OffsetCommitValue, read_key, read_value, record

_PARTITION_BYTES = 4

Partitions = dict[int, bytes]
Topics = dict[str, Partitions]


class CommittedOffsets:
    """By group, topic and partition."""

    __slots__ = ("_groups", "_places")

    def __init__(self) -> None:
        self._groups: dict[str, Topics] = {}
        self._places: dict[bytes, Partitions] | None = {}  # by what a key says of group and topic, until `loaded`

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Take in one record of a committed offset. The same group and topic come again and again: see `_places`."""
        place = key[2:-_PARTITION_BYTES]
        if self._places is not None and value is not None and place in self._places:
            self._places[place][int.from_bytes(key[-_PARTITION_BYTES:], "big", signed=True)] = value
            return
        parsed = cast("OffsetCommitKey", read_key(key))
        if value is None:
            self._forget(parsed, place)
            return
        partitions = self._groups.setdefault(parsed.group, {}).setdefault(parsed.topic, {})
        partitions[parsed.partition] = value
        if self._places is not None:
            self._places[place] = partitions

    def loaded(self) -> None:
        """From now on records come one by one: what made loading them in bulk quick takes memory."""
        self._places = None

    def group_ids(self) -> Iterable[str]:
        return self._groups.keys()

    def groups_in(self, topics: Collection[str]) -> list[str]:
        """The groups that have committed something in any of these topics."""
        return [group_id for group_id, known in self._groups.items() if not known.keys().isdisjoint(topics)]

    def of(self, group_id: str) -> Mapping[str, Mapping[int, bytes]]:
        """The group's offsets by topic and partition; see `read`."""
        return self._groups.get(group_id, _NOTHING)

    def get(self, group_id: str, topic: str, partition: int) -> OffsetCommitValue | None:
        value = self._groups.get(group_id, _NOTHING).get(topic, _NO_PARTITIONS).get(partition)
        return None if value is None else read(value)

    def tombstones(self, group_id: str, topics: Iterable[str] | None = None) -> Iterator[LogRecord]:
        """What takes back everything that the group committed, or what it committed for some topics."""
        known = self.of(group_id)
        for topic in list(known) if topics is None else topics:
            for partition in list(known.get(topic, ())):
                yield tombstone(group_id, topic, partition)

    def __contains__(self, group_id: object) -> bool:
        return group_id in self._groups

    def __len__(self) -> int:
        return sum(len(partitions) for topics in self._groups.values() for partitions in topics.values())

    def _forget(self, key: OffsetCommitKey, place: bytes) -> None:
        topics = self._groups.get(key.group)
        partitions = None if topics is None else topics.get(key.topic)
        if topics is None or partitions is None or partitions.pop(key.partition, None) is None:
            return
        if not partitions:
            del topics[key.topic]
            if self._places is not None:
                self._places.pop(place, None)
        if not topics:
            del self._groups[key.group]


_NO_PARTITIONS: Partitions = {}
_NOTHING: Topics = {}
_ANY = OffsetCommitKey(group="", topic="", partition=0)


def read(value: bytes) -> OffsetCommitValue:
    """A stored offset."""
    return cast("OffsetCommitValue", read_value(_ANY, value))


def tombstone(group_id: str, topic: str, partition: int) -> LogRecord:
    return record(OffsetCommitKey(group=group_id, topic=topic, partition=partition), None)
