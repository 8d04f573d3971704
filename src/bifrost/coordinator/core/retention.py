"""When committed offsets are outdated (KIP-211). Kafka: OffsetMetadataManager.cleanupExpiredOffsets.

The clock runs from the moment when the last member left; for a group that never had members, and for topics that nobody
in a living group reads any more, from the commit itself. A group whose last offset goes, goes with it unless it has
members.

A shard may hold a million offsets, so it is looked through in small steps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from bifrost.coordinator.core.classic.group import ClassicGroup, ClassicState
from bifrost.coordinator.core.committed import CommittedOffsets, read, tombstone
from bifrost.coordinator.core.environment import Environment, LogRecord
from bifrost.coordinator.core.groups import Group, Groups, is_subscribed
from bifrost.errors import ApiError

_OFFSETS_PER_STEP = 500
_BETWEEN_STEPS_MS = 1
_NAME = ("retention",)


class Retention:
    """Looks through the groups of one shard at intervals. `delete` takes an empty group out of the log."""

    def __init__(
        self,
        env: Environment,
        groups: Groups,
        committed: CommittedOffsets,
        *,
        write: Callable[[list[LogRecord]], None],
        delete: Callable[[str], list[LogRecord]],
        retention_ms: int,
        interval_ms: int,
    ) -> None:
        self._env = env
        self._groups = groups
        self._committed = committed
        self._write = write
        self._delete = delete
        self._retention_ms = retention_ms
        self._interval_ms = interval_ms
        self._to_do: deque[str] = deque()

    def start(self, delay_ms: int) -> None:
        """Look first after an interval and `delay_ms`: shards that start together need not look together."""
        self._wait(self._interval_ms + delay_ms)

    def _wait(self, duration_ms: int) -> None:
        self._env.deadlines.set(_NAME, self._env.monotonic_ms() + duration_ms, self._step)

    def _step(self) -> None:
        """A few groups, and then a pause: others want the loop too."""
        if not self._to_do:
            self._to_do.extend(dict.fromkeys((*self._committed.group_ids(), *self._groups)))
        looked_at = 0
        while self._to_do and looked_at < _OFFSETS_PER_STEP:
            looked_at += 1 + self._clean(self._to_do.popleft())
        self._wait(_BETWEEN_STEPS_MS if self._to_do else self._interval_ms)

    def _clean(self, group_id: str) -> int:
        """Take back what is outdated; how many offsets were looked at."""
        group = self._groups.get(group_id)
        outdated = self._outdated(group_id, group)
        count = sum(map(len, self._committed.of(group_id).values()))
        try:
            self._write(outdated)
            if count == len(outdated) and group is not None and group.is_empty:
                self._write(self._delete(group_id))
        except ApiError:
            pass  # it could not be written; the next round tries again
        return count

    def _outdated(self, group_id: str, group: Group | None) -> list[LogRecord]:
        if not _may_expire(group):
            return []
        now_ms, since_ms = self._env.now_ms(), _since(group)
        return [
            tombstone(group_id, topic, partition)
            for topic, partitions in self._committed.of(group_id).items()
            if not is_subscribed(group, topic)
            for partition, value in partitions.items()
            if self._is_outdated(value, since_ms, now_ms)
        ]

    def _is_outdated(self, value: bytes, since_ms: int | None, now_ms: int) -> bool:
        committed = read(value)
        if committed.expire_timestamp != -1:  # the client named a time, as it could before KIP-211
            return now_ms >= committed.expire_timestamp
        return now_ms - (committed.commit_timestamp if since_ms is None else since_ms) >= self._retention_ms


def _may_expire(group: Group | None) -> bool:
    """While a classic group rebalances nobody knows what it reads."""
    if isinstance(group, ClassicGroup) and not group.is_empty:
        return group.state is ClassicState.STABLE and group.subscribed_topics() is not None
    return True


def _since(group: Group | None) -> int | None:
    """When the group lost its last member; None if each offset counts from its own commit."""
    if isinstance(group, ClassicGroup) and group.protocol_type is not None:
        return group.empty_since_ms
    return None
