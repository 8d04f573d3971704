"""The leader of one partition: how far is a write safe, who may see it, and who is in sync? Hot path 7/9. Pure.

A record is committed once every in-sync replica holds it durably. The leader counts as a replica like any other: under
`flush.policy=ack` what it wrote but has not synced does not count, so nothing is acknowledged, or shown to a consumer,
that a power cut could take back. A follower counts by its fetches: the offset that it asks for is what it holds.

Who is in sync is for the controller to say, because the next leader comes from there. This leader proposes; until it
hears the answer it counts everybody who is, or may already be, in the committed ISR. One proposal is under way at a
time. Kafka: Partition, PartitionState.

Must never: move the high watermark down, or past what any replica holds that may be elected.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from bifrost.errors import ApiError, ErrorCode
from bifrost.types import NodeId


class Member(NamedTuple):
    """A broker in a proposed ISR, and the start of it that is meant (KIP-903)."""

    broker_id: NodeId
    broker_epoch: int


@dataclass(slots=True)
class Effects:
    """What the driver owes: tell those who wait for offsets below `high_watermark`, ask the controller for an ISR, tell
    those who wait until followers have deleted records."""

    high_watermark: int | None = None
    propose_isr: tuple[Member, ...] | None = None
    start_moved: bool = False


_NOTHING = Effects()
_UNKNOWN = -1


class Follower:
    """What the leader knows of another replica in this leader epoch."""

    __slots__ = (
        "asked_at_ms",
        "behind_since_ms",
        "broker_epoch",
        "broker_id",
        "end_offset",
        "is_joining",
        "leader_end",
        "start_offset",
    )

    def __init__(self, broker_id: NodeId) -> None:
        self.broker_id = broker_id
        self.broker_epoch = _UNKNOWN
        self.end_offset = _UNKNOWN
        """It holds everything below; unknown until it has fetched."""
        self.start_offset = _UNKNOWN
        """Where its log begins, and will after a crash."""
        self.asked_at_ms = -inf
        self.leader_end = _UNKNOWN
        """Where the log ended when it last asked: whoever gets there was in step at that moment."""
        self.behind_since_ms: float | None = None
        """When it was last in step; None while it is, or until somebody looks."""
        self.is_joining = False
        """Out of the ISR, but in step: writes wait for it too, or it would never catch up with a busy leader."""


class PartitionLeader:
    """Decides for one leadership, that is, for one leader epoch.

    `live` are the epochs of the brokers that may be in an ISR; the driver keeps it up to date.
    """

    __slots__ = (
        "_counted",
        "_live",
        "_me",
        "_pending",
        "durable_offset",
        "epoch",
        "epoch_start",
        "followers",
        "high_watermark",
        "isr",
        "log_end_offset",
        "min_insync_replicas",
        "partition_epoch",
        "waits_for",
    )

    def __init__(
        self,
        me: NodeId,
        *,
        epoch: int,
        partition_epoch: int = 0,
        replicas: Collection[NodeId] = (),
        isr: frozenset[NodeId],
        live: Mapping[NodeId, int] | None = None,
        min_insync_replicas: int = 1,
        high_watermark: int,
        log_end_offset: int,
        durable_offset: int,
    ) -> None:
        assert me in isr, f"leader {me} is not in sync with itself: {sorted(isr)}"
        assert 0 <= high_watermark <= log_end_offset
        self.epoch = epoch
        self.epoch_start = log_end_offset
        self.partition_epoch = partition_epoch
        self.isr = isr
        """As the controller has it."""
        self.min_insync_replicas = min_insync_replicas
        self.high_watermark = high_watermark
        self.log_end_offset = log_end_offset
        self.durable_offset = durable_offset
        self.followers = {broker: Follower(broker) for broker in replicas if broker != me}
        self._me = me
        self._live = {} if live is None else live
        self._pending: frozenset[NodeId] | None = None
        self._counted: tuple[Follower, ...] = ()
        self.waits_for: frozenset[NodeId] = frozenset()
        """The followers that must hold a write before it is committed."""
        self._recount()

    # Questions

    @property
    def needed_replicas(self) -> int:
        """How many must be in sync for acks=all; a partition cannot ask for more replicas than it has (KIP-966)."""
        return min(self.min_insync_replicas, len(self.followers) + 1)

    @property
    def is_under_min_isr(self) -> bool:
        return len(self.isr) < self.needed_replicas

    def check_replicas(self) -> None:
        """An acks=all write is refused before it is appended when too few replicas would hold it."""
        if self.is_under_min_isr:
            raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS, f"{len(self.isr)} in sync, {self.needed_replicas} needed")

    def low_watermark(self, start_offset: int) -> int:
        """No replica that lives shows anything before it; `start_offset` is where this one begins. Unknown while one of
        them has not been heard of. Kafka: Partition.lowWatermarkIfLeader."""
        starts = [one.start_offset for broker, one in self.followers.items() if broker in self._live]
        return min(starts, default=start_offset) if not starts or min(starts) < start_offset else start_offset

    # What the log tells

    def on_append(self, log_end_offset: int, durable_offset: int) -> Effects:
        assert log_end_offset >= self.log_end_offset
        self.log_end_offset = log_end_offset
        return self.on_durable(durable_offset)

    def on_durable(self, offset: int) -> Effects:
        """Everything below `offset` would survive a power cut of this node."""
        assert offset <= self.log_end_offset, f"durable to {offset}, written to {self.log_end_offset}"
        self.durable_offset = offset
        return self._advance()

    # What followers tell

    def on_fetch(
        self, broker_id: NodeId, broker_epoch: int, offset: int, now_ms: float, start_offset: int = _UNKNOWN
    ) -> Effects:
        """A follower asks for what comes at `offset`: it holds all before, from `start_offset` on. ApiError if it is
        none, or not any more, or if its log is not the beginning of this one."""
        follower = self.followers.get(broker_id)
        if follower is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"broker {broker_id} is not a replica")
        if broker_epoch < follower.broker_epoch:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"broker {broker_id} has been started again since")
        if offset > self.log_end_offset:  # it holds something else, and would count for what is written there later
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, f"broker {broker_id} asks for {offset}, beyond the end")
        if offset >= self.log_end_offset:
            follower.behind_since_ms = None
            in_step = True
        elif follower.leader_end != _UNKNOWN and offset >= follower.leader_end:
            follower.behind_since_ms = follower.asked_at_ms
            in_step = True
        else:
            in_step = False
        follower.broker_epoch = broker_epoch
        follower.end_offset = offset
        follower.asked_at_ms = now_ms
        follower.leader_end = self.log_end_offset
        effects = self._advance() if broker_id in self.isr else self._on_outsider_fetch(follower, in_step=in_step)
        if follower.start_offset != start_offset:
            follower.start_offset = start_offset
            return Effects(effects.high_watermark, effects.propose_isr, start_moved=True)
        return effects

    def _on_outsider_fetch(self, follower: Follower, *, in_step: bool) -> Effects:
        """A replica that is not in sync yet may become so."""
        if in_step and self._is_eligible(follower) and not follower.is_joining:
            follower.is_joining = True
            self._recount()
        return self._let_in(self._advance())

    def on_tick(self, now_ms: float, lag_max_ms: float) -> Effects:
        """Time has passed: whoever has been behind for too long is not in sync any more."""
        late = set()
        for follower in self.followers.values():
            if follower.end_offset >= self.log_end_offset:
                continue
            if follower.behind_since_ms is None:
                follower.behind_since_ms = now_ms
            elif now_ms - follower.behind_since_ms > lag_max_ms:
                follower.is_joining = False
                late.add(follower.broker_id)
        self._recount()
        effects = self._advance()
        return self._propose(self.isr - late, effects) if late & self.isr else self._let_in(effects)

    def on_brokers_changed(self) -> Effects:
        """Somebody who might have joined may be gone, or be welcome now."""
        for follower in self.followers.values():
            if follower.is_joining and not self._is_eligible(follower):
                follower.is_joining = False
        self._recount()
        return self._let_in(self._advance())

    def on_min_insync_replicas(self, count: int) -> Effects:
        self.min_insync_replicas = count
        return self._advance()

    # What the controller tells

    def on_partition(self, replicas: Collection[NodeId], isr: frozenset[NodeId], partition_epoch: int) -> Effects:
        """The controller has a new state for this partition, whether this leader asked for it or not."""
        if partition_epoch <= self.partition_epoch:
            return _NOTHING
        assert self._me in isr, f"leader {self._me} is not in sync with itself: {sorted(isr)}"
        self.partition_epoch = partition_epoch
        self.isr = isr
        self._pending = None
        known = self.followers
        self.followers = {broker: known.get(broker) or Follower(broker) for broker in replicas if broker != self._me}
        for broker, follower in self.followers.items():
            follower.is_joining &= broker not in isr
        self._recount()
        return self._let_in(self._advance())

    def on_proposal_refused(self) -> None:
        """The controller has said no, so nothing has changed."""
        self._pending = None
        self._recount()

    def proposed_isr(self) -> tuple[Member, ...] | None:
        """What is under way. If the answer is lost it may have been accepted: it counts, and is repeated."""
        return None if self._pending is None else self._members(self._pending)

    # Rules

    def _is_eligible(self, follower: Follower) -> bool:
        """Whether the controller would take it: it lives, and as the very start that has fetched (KIP-903)."""
        return follower.broker_epoch != _UNKNOWN and self._live.get(follower.broker_id) == follower.broker_epoch

    def _advance(self) -> Effects:
        """What all who count hold is committed; nothing is while too few are in sync (KIP-966)."""
        safe = self.durable_offset
        for follower in self._counted:
            safe = min(safe, follower.end_offset)
        if safe <= self.high_watermark or self.is_under_min_isr:
            return _NOTHING
        self.high_watermark = safe
        return Effects(high_watermark=safe)

    def _let_in(self, effects: Effects) -> Effects:
        """Propose whoever holds all that is committed, and all that came before this leader."""
        needed = max(self.high_watermark, self.epoch_start)
        ready = {
            broker
            for broker, follower in self.followers.items()
            if broker not in self.isr and follower.end_offset >= needed and self._is_eligible(follower)
        }
        return self._propose(self.isr | ready, effects) if ready else effects

    def _propose(self, isr: frozenset[NodeId], effects: Effects) -> Effects:
        if self._pending is not None:
            return effects
        self._pending = isr
        self._recount()
        return Effects(effects.high_watermark, self._members(isr))

    def _members(self, isr: frozenset[NodeId]) -> tuple[Member, ...]:
        """This leader first, whose own epoch the driver knows."""
        others = [Member(one.broker_id, one.broker_epoch) for one in self.followers.values() if one.broker_id in isr]
        return (Member(self._me, _UNKNOWN), *others)

    def _recount(self) -> None:
        counted = self.isr if self._pending is None else self.isr | self._pending
        self._counted = tuple(
            follower for broker, follower in self.followers.items() if broker in counted or follower.is_joining
        )
        self.waits_for = frozenset(follower.broker_id for follower in self._counted)
