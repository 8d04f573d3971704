"""Which brokers hold the replicas of a partition.

In rotation: partition p starts at the p-th broker and goes round, so that for three brokers and three replicas p0 is on
0,1,2, p1 on 1,2,0 and p2 on 2,0,1. The first of each leads. A topic starts where the one before it ended, which spreads
small topics too. After every round of the brokers the followers are turned by one more, so that the leaderships of a
broker that dies do not all fall to its neighbour (Kafka: StripedReplicaPlacer).
"""

from __future__ import annotations

from collections.abc import Sequence


def place(
    brokers: Sequence[int], *, replication_factor: int, start: int, first_partition: int, end_partition: int
) -> list[tuple[int, ...]]:
    """The replicas of each partition from `first_partition` to `end_partition`; `start` is where partition 0 stands."""
    assert 0 < replication_factor <= len(brokers), "the caller counts the brokers"
    count = len(brokers)
    placed = []
    for partition in range(first_partition, end_partition):
        leader = (start + partition) % count
        turn = partition // count
        followers = [
            brokers[(leader + 1 + (turn + step) % (count - 1)) % count] for step in range(replication_factor - 1)
        ]
        placed.append((brokers[leader], *followers))
    return placed
