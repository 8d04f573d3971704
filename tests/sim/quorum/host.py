"""One machine of the quorum: its disk, the core that runs on it while it lives, and what its driver has under way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from bifrost.raft.core.messages import ElectionState
from bifrost.raft.core.node import RaftNode
from bifrost.raft.core.roles import Role
from bifrost.types import NodeId
from tests.unit.raft.members import ListLog

NEVER = float("inf")


@dataclass(slots=True, eq=False)
class Host:
    me: NodeId
    peers: tuple[NodeId, ...]
    """The voters, without itself."""
    log: ListLog = field(default_factory=ListLog)
    stored: ElectionState = field(default_factory=ElectionState)
    disk: int = 0
    """Which one it is: a disk that was replaced has forgotten everything."""
    core: RaftNode | None = None
    life: int = 0
    """How often it was started or has died. What an earlier life had under way means nothing to this one."""
    role: Role | None = None
    """As it was when it was last looked at."""
    watermark: int = 0
    content_since_ms: float = NEVER
    """Since when it has heard from a leader, or been one, without a doubt."""
    asking_since_ms: float = NEVER
    """Since when it has asked whether it could be elected."""
    heard_ms: dict[NodeId, float] = field(default_factory=dict)
    """When each voter last fetched from it, while it leads."""
    tick_at_ms: float = NEVER
    fetch: int = 0
    """The number of the fetch under way; its answer is taken once."""
    poll: int = 0
    """The number of the next look at whether it has to fetch."""
    speech: int = 0
    """The number of the next look at whether it has something to say."""
    is_syncing: bool = False
    sync_to: int = 0
    """How far the sync under way will get."""
    disk_ms: float = 0
    """How long a sync takes, at most."""
    dies: str | None = None
    """It dies the next time it has to keep something: `before` or `after`."""
    repaired_at_ms: float = 0
    """A machine with a new disk is not started before."""


def drawn_hosts(size: int, observer: NodeId) -> dict[NodeId, Host]:
    """So many voters, numbered from 1, and one that only follows."""
    voters = tuple(NodeId(number) for number in range(1, size + 1))

    def machines() -> Iterator[Host]:
        for me in (*voters, observer):
            yield Host(me, tuple(voter for voter in voters if voter != me))

    return {host.me: host for host in machines()}
