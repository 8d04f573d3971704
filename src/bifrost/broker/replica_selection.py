"""Which replica a consumer should read from: one in its own rack, where there is one (KIP-392). Pure.

Reading from the leader costs traffic between racks, reading from a follower a little delay: it learns with its next
fetch what is committed. Kafka: RackAwareReplicaSelector.
"""

from __future__ import annotations

from collections.abc import Callable

from bifrost.replication.core.leader import PartitionLeader
from bifrost.types import NodeId

RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def replica_in_rack(
    leader: PartitionLeader, me: NodeId, rack: str, offset: int, rack_of: Callable[[NodeId], str | None]
) -> NodeId | None:
    """The follower in this rack that has most; None if the leader is in it too, or nobody is.

    Only one that is in sync and holds the offset, so that the consumer is not sent away again.
    """
    if rack_of(me) == rack:
        return None
    near = [
        follower
        for broker, follower in leader.followers.items()
        if broker in leader.isr and follower.end_offset >= offset and rack_of(broker) == rack
    ]
    return max(near, key=lambda one: (one.end_offset, -one.broker_id)).broker_id if near else None
