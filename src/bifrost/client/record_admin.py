"""The part of `Admin` that deletes records from the beginning of partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from datetime import datetime
from typing import TYPE_CHECKING, Any

from bifrost.client.descriptions import Deletion, Offsets
from bifrost.client.errors import BifrostError, InvalidRequestError, OffsetOutOfRangeError
from bifrost.client.topic_admin import TopicAdmin

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

Before = int | datetime | Mapping[int, int] | None
"""An offset, a time, an offset for each partition, or None for all that there is."""


class RecordAdmin(TopicAdmin):
    """Records: which would go, and letting them go."""

    def plan_delete_records(
        self, topic: str, before: Before = None, *, partitions: Iterable[int] | None = None
    ) -> tuple[Deletion, ...]:
        """What `delete_records` would delete, for each partition; changes nothing."""
        described = self._known(topic)
        wanted = _wanted([each.partition for each in described.partitions], before, partitions)
        self._check_partitions(described, wanted)
        held = self._offsets(described)
        at = self.offsets_at(topic, before) if isinstance(before, datetime) else {}
        return tuple(_deletion(topic, each, held.get(each), before, at) for each in wanted)

    def delete_records(
        self, topic: str, before: Before = None, *, partitions: Iterable[int] | None = None
    ) -> tuple[Deletion, ...]:
        """Delete the messages before an offset or a time, or all of them, in some partitions or in all.

        `before` may also give each partition an offset of its own. Returns where partitions begin now: not where they
        were told to, if they began later already. An offset beyond the end deletes nothing at all, nowhere.

        >>> admin.delete_records("readings", before=0)[0].count
        0
        """
        from confluent_kafka import TopicPartition as Place

        plan = self.plan_delete_records(topic, before, partitions=partitions)
        places = [Place(topic, each.partition, each.new_start) for each in plan if each.count]
        if not places:
            return plan

        def call(client: AdminClient) -> Mapping[Any, Future[Any]]:
            return client.delete_records(places, operation_timeout=self.timeout_s, **self._limits())

        found = self._ask_each(call, topic=topic)
        starts = {place.partition: done.low_watermark for place, done in found.items()}
        return tuple(
            Deletion(topic, each.partition, each.start, starts.get(each.partition, each.new_start), each.end)
            for each in plan
        )


def _wanted(there: list[int], before: Before, partitions: Iterable[int] | None) -> list[int]:
    if not isinstance(before, Mapping):
        return there if partitions is None else sorted(set(partitions))
    if partitions is not None:
        raise InvalidRequestError("partitions are named twice", "The offsets say already which partitions are meant.")
    return sorted(before)


def _deletion(topic: str, partition: int, held: Offsets | None, before: Before, at: Mapping[int, int]) -> Deletion:
    if held is None:
        raise BifrostError(
            f"partition {partition} of topic {topic} has no leader", "Wait until it has, or leave it out."
        )
    match before:
        case None:
            asked = held.end
        case int():
            asked = before
        case datetime():
            asked = at[partition]
        case _:
            asked = before[partition]
    if not 0 <= asked <= held.end:
        raise OffsetOutOfRangeError(topic, partition, asked, earliest=held.start, latest=held.end)
    return Deletion(topic, partition, held.start, max(asked, held.start), held.end)
