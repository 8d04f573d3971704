"""Consumer groups of KIP-848 as an administrator sees them."""

# ruff: noqa: RUF012 - an empty list as default is not shared: msgspec makes a new one for every message

from typing import Annotated
from uuid import UUID

from bifrost.protocol.apis import ApiKey
from bifrost.protocol.messages import AUTHORIZED_OPERATIONS_OMITTED
from bifrost.protocol.schema import I8, I16, I32, Message, Struct, since


class ConsumerGroupDescribeRequest(Message, api=ApiKey.CONSUMER_GROUP_DESCRIBE, versions=range(2), flexible=0):
    group_ids: list[str]
    include_authorized_operations: bool = False


class TopicPartitions(Struct):
    topic_id: UUID
    topic_name: str
    partitions: list[I32]


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = []


class Member(Struct):
    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    member_epoch: I32
    client_id: str
    client_host: str
    subscribed_topic_names: list[str] = []
    subscribed_topic_regex: str | None = None
    assignment: Assignment
    target_assignment: Assignment
    # 0 speaks the classic protocol, 1 this one (KIP-1099).
    member_type: Annotated[I8, since(1)] = -1


class DescribedGroup(Struct):
    error_code: I16 = 0
    error_message: str | None = None
    group_id: str
    group_state: str = ""
    group_epoch: I32 = 0
    assignment_epoch: I32 = 0
    assignor_name: str = ""
    members: list[Member] = []
    authorized_operations: I32 = AUTHORIZED_OPERATIONS_OMITTED


class ConsumerGroupDescribeResponse(Message, api=ApiKey.CONSUMER_GROUP_DESCRIBE, versions=range(2), flexible=0):
    throttle_time_ms: I32 = 0
    groups: list[DescribedGroup]
