"""Finding a coordinator, and the life of a classic group's member: join, sync, heartbeat, leave."""

# ruff: noqa: RUF012 - an empty list as default is not shared: msgspec makes a new one for every message

from typing import Annotated

from bifrost.protocol.apis import ApiKey
from bifrost.protocol.schema import I8, I16, I32, Message, Struct, before, nullable_since, since


class FindCoordinatorRequest(Message, api=ApiKey.FIND_COORDINATOR, versions=range(7), flexible=3):
    """v4 asks for many coordinators at once (KIP-699). Key types: 0 group, 1 transaction, 2 share (v6, KIP-932)."""

    key: Annotated[str, before(4)] = ""
    key_type: Annotated[I8, since(1)] = 0
    coordinator_keys: Annotated[list[str], since(4)] = []


class Coordinator(Struct):
    key: str
    node_id: I32 = -1
    host: str = ""
    port: I32 = -1
    error_code: I16 = 0
    error_message: str | None = None


class FindCoordinatorResponse(Message, api=ApiKey.FIND_COORDINATOR, versions=range(7), flexible=3):
    throttle_time_ms: Annotated[I32, since(1)] = 0
    error_code: Annotated[I16, before(4)] = 0
    error_message: Annotated[str | None, since(1), before(4)] = None
    node_id: Annotated[I32, before(4)] = -1
    host: Annotated[str, before(4)] = ""
    port: Annotated[I32, before(4)] = -1
    coordinators: Annotated[list[Coordinator], since(4)] = []


class JoinGroupRequestProtocol(Struct):
    name: str
    metadata: bytes


class JoinGroupRequest(Message, api=ApiKey.JOIN_GROUP, versions=range(10), flexible=6):
    """v4 sends a new member back with an id of its own (KIP-394), v5 adds static members (KIP-345)."""

    group_id: str
    session_timeout_ms: I32
    # -1, as v0 leaves it: the session timeout counts for this too.
    rebalance_timeout_ms: Annotated[I32, since(1)] = -1
    member_id: str
    group_instance_id: Annotated[str | None, since(5)] = None
    protocol_type: str
    protocols: list[JoinGroupRequestProtocol]
    # Why the member joins, for the broker's log (KIP-800).
    reason: Annotated[str | None, since(8)] = None


class JoinGroupResponseMember(Struct):
    member_id: str
    group_instance_id: Annotated[str | None, since(5)] = None
    metadata: bytes


class JoinGroupResponse(Message, api=ApiKey.JOIN_GROUP, versions=range(10), flexible=6):
    throttle_time_ms: Annotated[I32, since(2)] = 0
    error_code: I16 = 0
    generation_id: I32 = -1
    protocol_type: Annotated[str | None, since(7)] = None
    protocol_name: Annotated[str | None, nullable_since(7)] = None
    leader: str = ""
    # A returning static leader must not assign again (KIP-814).
    skip_assignment: Annotated[bool, since(9)] = False
    member_id: str
    members: list[JoinGroupResponseMember] = []


class SyncGroupRequestAssignment(Struct):
    member_id: str
    assignment: bytes


class SyncGroupRequest(Message, api=ApiKey.SYNC_GROUP, versions=range(6), flexible=4):
    group_id: str
    generation_id: I32
    member_id: str
    group_instance_id: Annotated[str | None, since(3)] = None
    # What the member believes the group to have agreed on (KIP-559).
    protocol_type: Annotated[str | None, since(5)] = None
    protocol_name: Annotated[str | None, since(5)] = None
    assignments: list[SyncGroupRequestAssignment] = []


class SyncGroupResponse(Message, api=ApiKey.SYNC_GROUP, versions=range(6), flexible=4):
    throttle_time_ms: Annotated[I32, since(1)] = 0
    error_code: I16 = 0
    protocol_type: Annotated[str | None, since(5)] = None
    protocol_name: Annotated[str | None, since(5)] = None
    assignment: bytes = b""


class HeartbeatRequest(Message, api=ApiKey.HEARTBEAT, versions=range(5), flexible=4):
    group_id: str
    generation_id: I32
    member_id: str
    group_instance_id: Annotated[str | None, since(3)] = None


class HeartbeatResponse(Message, api=ApiKey.HEARTBEAT, versions=range(5), flexible=4):
    throttle_time_ms: Annotated[I32, since(1)] = 0
    error_code: I16 = 0


class MemberIdentity(Struct):
    member_id: str
    group_instance_id: str | None = None
    reason: Annotated[str | None, since(5)] = None


class LeaveGroupRequest(Message, api=ApiKey.LEAVE_GROUP, versions=range(6), flexible=4):
    """v3 removes many members at once, static ones by their instance id (KIP-345)."""

    group_id: str
    member_id: Annotated[str, before(3)] = ""
    members: Annotated[list[MemberIdentity], since(3)] = []


class MemberResponse(Struct):
    member_id: str
    group_instance_id: str | None = None
    error_code: I16 = 0


class LeaveGroupResponse(Message, api=ApiKey.LEAVE_GROUP, versions=range(6), flexible=4):
    throttle_time_ms: Annotated[I32, since(1)] = 0
    error_code: I16 = 0
    members: Annotated[list[MemberResponse], since(3)] = []
