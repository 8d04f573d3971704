"""How patient groups are in the simulated world: everything is quick, and not the same in every run."""

from __future__ import annotations

from random import Random

SESSION_S = 2.0
REBALANCE_S = 3.0
LEASE_S = min(SESSION_S, REBALANCE_S)
"""A member that was heard of is not replaced sooner than this, whatever happens."""
BEAT_S = 0.4


def group_settings(seed: str) -> dict[str, str]:
    """Of the broker."""
    rng = Random(f"{seed} group settings")
    return {
        "offsets.topic.num.partitions": str(rng.choice((1, 2, 3))),
        "offsets.commit.timeout.ms": str(rng.choice((300, 5000))),
        "offsets.load.buffer.size": str(rng.choice((200, 5 << 20))),
        "group.min.session.timeout.ms": "1000",
        "group.initial.rebalance.delay.ms": str(rng.choice((0, 300))),
        "group.consumer.session.timeout.ms": str(int(SESSION_S * 1000)),
        "group.consumer.assignment.interval.ms": str(rng.choice((0, 200, 1000))),
    }
