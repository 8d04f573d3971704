"""All groups of one partition of `__consumer_offsets`: each request goes to the protocol that its group speaks.

Here is also what needs both protocols and the offsets at once: listing, describing and deleting groups, replaying the
log, moving an empty group from one protocol to the other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from bifrost.coordinator.core.classic.describe import describe_group
from bifrost.coordinator.core.classic.group import ClassicGroup, ClassicState
from bifrost.coordinator.core.classic.groups import ClassicGroups
from bifrost.coordinator.core.committed import CommittedOffsets
from bifrost.coordinator.core.consumer.group import ConsumerGroup
from bifrost.coordinator.core.consumer.groups import ConsumerGroups
from bifrost.coordinator.core.environment import Client, Environment, LogRecord, Respond
from bifrost.coordinator.core.groups import group_type, protocol_type
from bifrost.coordinator.core.offsets import Offsets
from bifrost.coordinator.core.records import GroupMetadataKey, GroupMetadataValue, read_key, read_value
from bifrost.coordinator.core.retention import Retention
from bifrost.coordinator.core.settings import GroupSettings
from bifrost.errors import ApiError, ErrorCode
from bifrost.protocol.messages.group_admin import DescribedGroup, ListedGroup
from bifrost.protocol.messages.groups import JoinGroupRequest, JoinGroupResponse

_OFFSET_TYPES = (b"\x00\x00", b"\x00\x01")
_BATCH_BYTES_MAX = 256 << 10  # of keys and values: far below the largest batch that a topic takes


@dataclass(frozen=True, slots=True)
class OffsetSettings:
    """What of the broker's settings concerns committed offsets."""

    metadata_max: int = 4_096
    retention_ms: int = 604_800_000
    retention_check_interval_ms: int = 600_000


class GroupShard:
    """Groups and offsets of one partition. `classic`, `consumer` and `offsets` take the requests."""

    def __init__(self, env: Environment, settings: GroupSettings, offset_settings: OffsetSettings) -> None:
        self.env = env
        self.groups: dict[str, Any] = {}  # of `Group`
        self.committed = CommittedOffsets()
        self.classic = ClassicGroups(env, self.groups, settings)
        self.consumer = ConsumerGroups(env, self.groups, settings, self.classic.delete)
        self.offsets = Offsets(
            env,
            self.groups,
            self.committed,
            classic=self.classic,
            consumer=self.consumer,
            metadata_max=offset_settings.metadata_max,
        )
        self._retention = Retention(
            env,
            self.groups,
            self.committed,
            write=self._write_in_parts,
            delete=self._delete_records,
            retention_ms=offset_settings.retention_ms,
            interval_ms=offset_settings.retention_check_interval_ms,
        )

    def replay(self, records: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Take in records of the log; `UnreadableRecordError` if one is ours and makes no sense."""
        replay_offset = self.committed.replay
        for key, value in records:
            if key[:2] in _OFFSET_TYPES:
                replay_offset(key, value)
            else:
                self._replay_group(key, value)

    def _replay_group(self, key: bytes, value: bytes | None) -> None:
        parsed = read_key(key)
        if parsed is None:
            return
        content = None if value is None else read_value(parsed, value)
        if isinstance(parsed, GroupMetadataKey):
            self.classic.replay(parsed, cast("GroupMetadataValue | None", content))
        else:
            self.consumer.replay(parsed, content)

    def loaded(self, *, retention_delay_ms: int = 0) -> None:
        """All of the log has been replayed: time starts to run."""
        self.committed.loaded()
        self.classic.loaded()
        self.consumer.loaded()
        self._retention.start(retention_delay_ms)

    def unload(self) -> None:
        """Another node leads from now on: everybody who waits is told so."""
        self.classic.unload()
        self.consumer.unload()

    def join(
        self, request: JoinGroupRequest, *, version: int, client: Client, respond: Respond[JoinGroupResponse]
    ) -> None:
        """A group of the newer protocol that has no members any more becomes a classic one."""
        group = self.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup) and group.is_empty and not request.member_id:
            self._write_in_parts(self._delete_records(request.group_id))
        self.classic.join(request, version=version, client=client, respond=respond)

    def list_groups(self, states: Collection[str], types: Collection[str]) -> list[ListedGroup]:
        """Filters ignore case; an empty one lets everything through (KIP-518, KIP-848)."""
        wanted_states = {state.strip().lower() for state in states}
        wanted_types = {kind.strip().lower() for kind in types}
        return [
            listed
            for listed in self._listed()
            if (not wanted_states or listed.group_state.lower() in wanted_states)
            and (not wanted_types or listed.group_type.lower() in wanted_types)
        ]

    def describe(self, group_id: str, version: int) -> DescribedGroup:
        """As DescribeGroups shows it."""
        if self._is_simple(group_id):
            return describe_group(ClassicGroup(group_id, state_since_ms=None))
        return self.classic.describe(group_id, version)

    def delete(self, group_id: str) -> None:
        """An empty group with its offsets; those first, so that what is left after a failure can be deleted again."""
        if group_id not in self.groups and group_id not in self.committed:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {group_id}")
        last = self._delete_records(group_id)
        self._write_in_parts([*self.committed.tombstones(group_id), *last])

    def topics_deleted(self, names: Collection[str]) -> None:
        """Offsets in topics that are gone mean nothing in a later topic of the same name."""
        for group_id in self.committed.groups_in(names):
            self._write_in_parts(list(self.committed.tombstones(group_id, names)))

    def _write_in_parts(self, records: Sequence[LogRecord]) -> None:
        """Append and replay; each part is written whole or not at all."""
        part: list[LogRecord] = []
        size = 0
        for record in records:
            part.append(record)
            size += len(record.key) + len(record.value or b"")
            if size >= _BATCH_BYTES_MAX:
                self._write(part)
                part, size = [], 0
        self._write(part)

    def _write(self, records: Sequence[LogRecord]) -> None:
        if records:
            self.env.journal.append(records)
            self.replay(records)

    def _listed(self) -> Iterator[ListedGroup]:
        for group_id, group in self.groups.items():
            yield ListedGroup(
                group_id=group_id,
                protocol_type=protocol_type(group),
                group_state=group.state.value,
                group_type=group_type(group),
            )
        for group_id in self.committed.group_ids():
            if group_id not in self.groups:
                yield ListedGroup(
                    group_id=group_id,
                    protocol_type=protocol_type(None),
                    group_state=ClassicState.EMPTY.value,
                    group_type=group_type(None),
                )

    def _is_simple(self, group_id: str) -> bool:
        return group_id not in self.groups and group_id in self.committed

    def _delete_records(self, group_id: str) -> list[LogRecord]:
        """What takes the group itself out of the log; `ApiError` if it has members."""
        group = self.groups.get(group_id)
        if isinstance(group, ClassicGroup):
            return self.classic.delete(group)
        if isinstance(group, ConsumerGroup):
            return self.consumer.delete(group)
        return []
