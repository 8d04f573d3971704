"""The leader of one partition: how far is a write safe, and who may see it? Hot path 7/9. Pure.

A record is committed once every in-sync replica holds it durably. The leader counts as a replica like any other: under
`flush.policy=ack` what it wrote but has not synced does not count, so nothing is acknowledged, or shown to a consumer,
that a power cut could take back.

Must never: move the high watermark down, or past what every in-sync replica holds.
"""

from __future__ import annotations

from dataclasses import dataclass

from bifrost.errors import ApiError, ErrorCode
from bifrost.types import NodeId


@dataclass(slots=True)
class Effects:
    """What the driver must do: wake whoever waits for offsets below `high_watermark`."""

    high_watermark: int | None = None


_NOTHING = Effects()


class PartitionLeader:
    """Decides for one leadership, that is, for one leader epoch."""

    __slots__ = ("_me", "durable_offset", "epoch", "high_watermark", "isr", "log_end_offset")

    def __init__(
        self,
        me: NodeId,
        *,
        epoch: int,
        isr: frozenset[NodeId],
        high_watermark: int,
        log_end_offset: int,
        durable_offset: int,
    ) -> None:
        assert me in isr, f"leader {me} is not in sync with itself: {sorted(isr)}"
        assert 0 <= high_watermark <= log_end_offset
        self._me = me
        self.epoch = epoch
        self.isr = isr
        self.high_watermark = high_watermark
        self.log_end_offset = log_end_offset
        self.durable_offset = durable_offset

    def check_replicas(self, min_insync_replicas: int, replicas: int) -> None:
        """An acks=all write is refused before it is appended when too few replicas would hold it."""
        needed = min(min_insync_replicas, replicas)
        if len(self.isr) < needed:
            raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS, f"{len(self.isr)} in sync, {needed} needed")

    def on_append(self, log_end_offset: int, durable_offset: int) -> Effects:
        assert log_end_offset >= self.log_end_offset
        self.log_end_offset = log_end_offset
        return self.on_durable(durable_offset)

    def on_durable(self, offset: int) -> Effects:
        """Everything below `offset` would survive a power cut of this node."""
        assert offset <= self.log_end_offset, f"durable to {offset}, written to {self.log_end_offset}"
        self.durable_offset = offset
        if offset <= self.high_watermark:
            return _NOTHING
        self.high_watermark = offset
        return Effects(high_watermark=offset)
