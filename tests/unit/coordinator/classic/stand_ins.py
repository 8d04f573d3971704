"""A shard of classic groups without a node: its journal is a list, its clock moves when told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any
from uuid import UUID

from bifrost.coordinator.core.classic.group import ClassicGroup, ClassicState
from bifrost.coordinator.core.classic.groups import ClassicGroups
from bifrost.coordinator.core.deadlines import Deadlines
from bifrost.coordinator.core.environment import Client, Environment, LogRecord
from bifrost.coordinator.core.records import GroupMetadataKey, GroupMetadataValue, read_key, read_value
from bifrost.coordinator.core.settings import GroupSettings
from bifrost.errors import ApiError, ErrorCode
from bifrost.protocol.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

GROUP = "g"
CLIENT = Client("app", "/10.0.0.1")
SESSION_MS = 10_000
REBALANCE_MS = 60_000
DELAY_MS = 3_000
EPOCH_MS = 1_700_000_000_000
"""The wall clock's reading when the monotonic clock says 0."""
PROTOCOLS = (("range", b"m"),)


class ListJournal:
    """Takes what it is given, unless it was told to refuse."""

    def __init__(self, records: Iterable[LogRecord] = ()) -> None:
        self.records = list(records)
        self.refuse_with: ErrorCode | None = None

    def append(self, records: Sequence[LogRecord]) -> None:
        if self.refuse_with is not None:
            raise ApiError(self.refuse_with, "refused")
        self.records += records


class NoTopics:
    """Classic groups never ask."""

    def partitions(self, name: str) -> int | None:
        raise AssertionError(name)

    def topic_id(self, name: str) -> UUID | None:
        raise AssertionError(name)

    def name(self, topic_id: UUID) -> str | None:
        raise AssertionError(topic_id)

    def names(self) -> Iterable[str]:
        raise AssertionError


class Shard:
    """Classic groups, and short words for what clients send them."""

    def __init__(self, settings: GroupSettings | None = None, before: Shard | None = None) -> None:
        """`before` is the node that wrote the log, if there was one."""
        self.settings = settings or GroupSettings()
        self.now_ms = before.now_ms if before else 0
        self.journal = ListJournal(before.journal.records if before else ())
        self.ids: Iterator[int] = before.ids if before else count(1)
        self.deadlines = Deadlines()
        self.groups: dict[str, object] = {}
        env = Environment(
            journal=self.journal,
            deadlines=self.deadlines,
            topics=NoTopics(),
            monotonic_ms=lambda: self.now_ms,
            now_ms=lambda: EPOCH_MS + self.now_ms,
            new_id=lambda: f"id{next(self.ids)}",
        )
        self.core = ClassicGroups(env, self.groups, self.settings)
        for key, value in self.log():
            self.core.replay(key, value)
        self.core.loaded()

    def log(self) -> list[tuple[GroupMetadataKey, GroupMetadataValue | None]]:
        """What was written, in words."""
        words = []
        for one in self.journal.records:
            key = read_key(one.key)
            assert isinstance(key, GroupMetadataKey)
            value = None if one.value is None else read_value(key, one.value)
            assert value is None or isinstance(value, GroupMetadataValue)
            words.append((key, value))
        return words

    def restart(self, settings: GroupSettings | None = None) -> Shard:
        """The node dies, and another reads what was written."""
        return Shard(settings or self.settings, self)

    @property
    def group(self) -> ClassicGroup:
        group = self.groups[GROUP]
        assert isinstance(group, ClassicGroup)
        return group

    @property
    def state(self) -> ClassicState:
        return self.group.state

    def advance(self, delay_ms: int) -> None:
        """Time passes, and what is due happens in its moment."""
        end_ms = self.now_ms + delay_ms
        while (next_ms := self.deadlines.next_ms()) is not None and next_ms <= end_ms:
            self.now_ms = max(self.now_ms, next_ms)
            self.deadlines.run(self.now_ms)
        self.now_ms = end_ms

    def join(
        self,
        member_id: str = "",
        *,
        version: int = 9,
        instance_id: str | None = None,
        protocols: Iterable[tuple[str, bytes]] = PROTOCOLS,
        protocol_type: str = "consumer",
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        group_id: str = GROUP,
        client: Client = CLIENT,
    ) -> list[JoinGroupResponse]:
        """The list that the answer will be in: empty while the request waits."""
        answers: list[JoinGroupResponse] = []
        request = JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms if version >= 1 else -1,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in protocols],
        )
        self.core.join(request, version=version, client=client, respond=answers.append)
        return answers

    def enter(
        self, protocols: Iterable[tuple[str, bytes]] = PROTOCOLS, **options: Any
    ) -> tuple[str, list[JoinGroupResponse]]:
        """A new dynamic member as clients do it since v4: first the id, then the join that waits."""
        protocols = list(protocols)
        (answer,) = self.join(protocols=protocols, **options)
        assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
        return answer.member_id, self.join(answer.member_id, protocols=protocols, **options)

    def sync(
        self,
        member_id: str,
        generation: int | None = None,
        assignments: Mapping[str, bytes] | None = None,
        *,
        version: int = 5,
        instance_id: str | None = None,
        protocol_type: str | None = "consumer",
        protocol_name: str | None = "range",
        group_id: str = GROUP,
    ) -> list[SyncGroupResponse]:
        answers: list[SyncGroupResponse] = []
        request = SyncGroupRequest(
            group_id=group_id,
            generation_id=self.group.generation if generation is None else generation,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=one, assignment=assignment)
                for one, assignment in (assignments or {}).items()
            ],
        )
        self.core.sync(request, version=version, respond=answers.append)
        return answers

    def heartbeat(
        self, member_id: str, generation: int | None = None, *, instance_id: str | None = None, group_id: str = GROUP
    ) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=group_id,
            generation_id=self.group.generation if generation is None else generation,
            member_id=member_id,
            group_instance_id=instance_id,
        )
        return self.core.heartbeat(request)

    def leave(self, *member_ids: str, group_id: str = GROUP) -> LeaveGroupResponse:
        members = [MemberIdentity(member_id=member_id) for member_id in member_ids]
        return self.core.leave(LeaveGroupRequest(group_id=group_id, members=members), 5)

    def commit(self, member_id: str = "", generation: int = -1, *, instance_id: str | None = None) -> ErrorCode:
        """What a commit would be answered."""
        try:
            self.core.check_commit(self.group, member_id=member_id, instance_id=instance_id, generation=generation)
        except ApiError as error:
            return error.code
        return ErrorCode.NONE

    def stable(self, size: int = 1, protocols: Iterable[tuple[str, bytes]] = PROTOCOLS) -> list[str]:
        """A group of that many members at work; the first leads, and each was assigned its own id."""
        members = [self.enter(protocols)[0] for _ in range(size)]
        self.advance(self.settings.initial_rebalance_delay_ms * (2 if size > 1 else 1))
        self.settle(members)
        return members

    def settle(self, members: Sequence[str]) -> None:
        """Everybody syncs, the leader with an assignment."""
        given = {member_id: member_id.encode() for member_id in members}
        answers = [
            self.sync(
                member_id,
                assignments=given if self.group.leader == member_id else None,
                protocol_name=self.group.protocol,
            )
            for member_id in members
        ]
        assert [[one.assignment for one in answer] for answer in answers] == [[member.encode()] for member in members]
        assert self.state is ClassicState.STABLE


def codes(*answers: list[JoinGroupResponse] | list[SyncGroupResponse]) -> list[ErrorCode | None]:
    """Of each request its answer, None if it still waits; two answers to one are never right."""
    assert all(len(answer) <= 1 for answer in answers)
    return [ErrorCode(answer[0].error_code) if answer else None for answer in answers]
