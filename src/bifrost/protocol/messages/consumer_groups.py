"""The life of a member of a consumer group in which the coordinator assigns the partitions (KIP-848)."""

from typing import Annotated
from uuid import UUID

from bifrost.protocol.apis import ApiKey
from bifrost.protocol.schema import I16, I32, Message, Struct, since


class TopicPartitions(Struct):
    topic_id: UUID
    partitions: list[I32]


class ConsumerGroupHeartbeatRequest(Message, api=ApiKey.CONSUMER_GROUP_HEARTBEAT, versions=range(2), flexible=0):
    """Joins (epoch 0), leaves (-1, or -2 for a static member that will be back) or tells that the member lives.

    Null, or -1 for the timeout, is what did not change. From v1 on members choose their own ids (KIP-1082).
    """

    group_id: str
    member_id: str
    member_epoch: I32
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: I32 = -1
    subscribed_topic_names: list[str] | None = None
    subscribed_topic_regex: Annotated[str | None, since(1)] = None
    server_assignor: str | None = None
    # What the member owns, and so also what it has given up.
    topic_partitions: list[TopicPartitions] | None = None


class Assignment(Struct):
    topic_partitions: list[TopicPartitions]


class ConsumerGroupHeartbeatResponse(Message, api=ApiKey.CONSUMER_GROUP_HEARTBEAT, versions=range(2), flexible=0):
    throttle_time_ms: I32 = 0
    error_code: I16 = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: I32 = 0
    heartbeat_interval_ms: I32 = 0
    # What the member may own from now on; null if that is what it was told before.
    assignment: Assignment | None = None
