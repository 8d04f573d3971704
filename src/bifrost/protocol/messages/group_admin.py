"""Groups as an administrator sees them: list, describe, delete."""

# ruff: noqa: RUF012 - an empty list as default is not shared: msgspec makes a new one for every message

from typing import Annotated

from bifrost.protocol.apis import ApiKey
from bifrost.protocol.messages import AUTHORIZED_OPERATIONS_OMITTED
from bifrost.protocol.schema import I16, I32, Message, Struct, since


class DescribeGroupsRequest(Message, api=ApiKey.DESCRIBE_GROUPS, versions=range(7), flexible=5):
    groups: list[str]
    include_authorized_operations: Annotated[bool, since(3)] = False


class DescribedGroupMember(Struct):
    member_id: str
    group_instance_id: Annotated[str | None, since(4)] = None
    client_id: str
    client_host: str
    # Both are empty unless the group is stable.
    member_metadata: bytes = b""
    member_assignment: bytes = b""


class DescribedGroup(Struct):
    error_code: I16 = 0
    error_message: Annotated[str | None, since(6)] = None
    group_id: str
    group_state: str = ""
    protocol_type: str = ""
    # The chosen protocol, and empty unless the group is stable.
    protocol_data: str = ""
    members: list[DescribedGroupMember] = []
    authorized_operations: Annotated[I32, since(3)] = AUTHORIZED_OPERATIONS_OMITTED


class DescribeGroupsResponse(Message, api=ApiKey.DESCRIBE_GROUPS, versions=range(7), flexible=5):
    """A group that does not exist is a dead one, and from v6 on an error (KIP-1043)."""

    throttle_time_ms: Annotated[I32, since(1)] = 0
    groups: list[DescribedGroup]


class ListGroupsRequest(Message, api=ApiKey.LIST_GROUPS, versions=range(6), flexible=3):
    """An empty filter lets everything through (KIP-518, KIP-848)."""

    states_filter: Annotated[list[str], since(4)] = []
    types_filter: Annotated[list[str], since(5)] = []


class ListedGroup(Struct):
    group_id: str
    protocol_type: str
    group_state: Annotated[str, since(4)] = ""
    group_type: Annotated[str, since(5)] = ""


class ListGroupsResponse(Message, api=ApiKey.LIST_GROUPS, versions=range(6), flexible=3):
    throttle_time_ms: Annotated[I32, since(1)] = 0
    error_code: I16 = 0
    groups: list[ListedGroup] = []


class DeleteGroupsRequest(Message, api=ApiKey.DELETE_GROUPS, versions=range(3), flexible=2):
    groups_names: list[str]


class DeletableGroupResult(Struct):
    group_id: str
    error_code: I16 = 0


class DeleteGroupsResponse(Message, api=ApiKey.DELETE_GROUPS, versions=range(3), flexible=2):
    throttle_time_ms: I32 = 0
    results: list[DeletableGroupResult]
