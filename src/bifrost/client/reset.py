"""Decides where a group goes on after a reset. Asks nobody: everything it needs to know is passed in.

An offset that a partition does not hold becomes the nearest one that it does, with a note, as in Kafka's
ConsumerGroupCommand: a group that starts outside would fall back on `auto.offset.reset`, which is rarely meant.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Literal

from bifrost.client.descriptions import OffsetChange, Offsets
from bifrost.client.errors import BifrostError, InvalidRequestError
from bifrost.types import TopicPartition

Target = Literal["earliest", "latest"] | int | datetime | timedelta | Mapping[TopicPartition, int]


def changes_of(
    wanted: Mapping[str, list[int]],
    committed: Mapping[TopicPartition, int],
    held: Mapping[str, Mapping[int, Offsets]],
    *,
    to: Target | None,
    shift_by: int | None,
    at: Mapping[str, Mapping[int, int]],
) -> tuple[OffsetChange, ...]:
    """A change for every partition in `wanted`; `at` are the offsets of a datetime in `to`."""
    if (to is None) == (shift_by is None):
        raise InvalidRequestError("a reset needs one target", "Give `to` or `shift_by`, and not both.")
    changes = []
    for topic, partitions in wanted.items():
        for partition in partitions:
            place = TopicPartition(topic, partition)
            offsets = held[topic].get(partition)
            if offsets is None:
                raise BifrostError(
                    f"partition {partition} of topic {topic} has no leader", "Wait until it has, or leave it out."
                )
            current = committed.get(place)
            new, note = _clamped(_asked(place, offsets, current, to, shift_by, at), offsets)
            changes.append(OffsetChange(topic, partition, current, new, note))
    return tuple(changes)


def _asked(
    place: TopicPartition,
    offsets: Offsets,
    current: int | None,
    to: Target | None,
    shift_by: int | None,
    at: Mapping[str, Mapping[int, int]],
) -> int:
    if shift_by is not None:
        if current is None:
            raise InvalidRequestError(
                f"the group has committed nothing in {place.topic}:{place.partition} that could be shifted",
                "Leave this partition out, or set it to an offset.",
            )
        return current + shift_by
    if to == "earliest":
        return offsets.start
    if to == "latest":
        return offsets.end
    if isinstance(to, datetime):
        return at[place.topic][place.partition]
    if isinstance(to, Mapping):
        return to[place]
    if isinstance(to, int):
        return to
    raise InvalidRequestError(f"{to!r} is no place to go to", "Say earliest, latest, an offset or a time.")


def _clamped(asked: int, offsets: Offsets) -> tuple[int, str]:
    if asked < offsets.start:
        return offsets.start, f"{asked} is before the first offset"
    if asked > offsets.end:
        return offsets.end, f"{asked} is after the end"
    return asked, ""
