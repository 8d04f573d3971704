"""One partition that this node hosts: checks, appends, reads. Hot path 3/9.

The log stores, `core.leader` decides how far a write is safe, and this file joins the two. It is the only place that
carries out the leader's effects.

Must never: look inside a batch, or answer for a partition that another node leads.
"""

from __future__ import annotations

from collections.abc import Callable

from bifrost.errors import ApiError, DiskFullError, ErrorCode
from bifrost.log.config import LOG_APPEND_TIME
from bifrost.log.epochs import UNDEFINED_EPOCH
from bifrost.log.partition_log import AppendResult, LogSlice, PartitionLog
from bifrost.protocol.batch import accept_produced, read_header
from bifrost.replication.core.leader import Effects, PartitionLeader
from bifrost.types import NodeId, TopicPartition

Wake = Callable[["Partition"], None]


class Partition:
    """A replica on this node, and the leader's duties when this node leads."""

    __slots__ = ("_leader", "_me", "_wake", "log", "min_insync_replicas", "replicas", "tp")

    def __init__(
        self, tp: TopicPartition, log: PartitionLog, *, min_insync_replicas: int, me: NodeId, wake: Wake
    ) -> None:
        self.tp = tp
        self.log = log
        self.min_insync_replicas = min_insync_replicas
        self.replicas: tuple[NodeId, ...] = ()
        self._me = me
        self._wake = wake
        self._leader: PartitionLeader | None = None
        log.on_durable = self._on_durable

    def lead(self, epoch: int, replicas: tuple[NodeId, ...], isr: frozenset[NodeId], high_watermark: int) -> None:
        """This node leads from now on. The epoch's start is recorded even before its first write (KIP-101)."""
        if self._leader is not None and epoch == self._leader.epoch:
            self._leader.isr = isr
            return
        log = self.log
        log.assign_epoch(epoch)
        self.replicas = replicas
        leader = PartitionLeader(
            self._me,
            epoch=epoch,
            isr=isr,
            high_watermark=min(max(high_watermark, log.log_start_offset), log.durable_offset),
            log_end_offset=log.log_end_offset,
            durable_offset=log.durable_offset,
        )
        self._leader = leader
        self._run(leader.on_durable(log.durable_offset))

    def resign(self) -> None:
        """This node does not lead any more: whoever waits is told so."""
        self._leader = None
        self._wake(self)

    @property
    def is_leader(self) -> bool:
        return self._leader is not None

    @property
    def leader(self) -> PartitionLeader:
        if self._leader is None:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, str(self.tp))
        return self._leader

    @property
    def high_watermark(self) -> int:
        return self.leader.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """Where a read_committed consumer must stop; no transaction can be open yet."""
        return self.leader.high_watermark

    def check_epoch(self, current_leader_epoch: int) -> None:
        """Refuse a client or replica that lives in another leader epoch (KIP-320); -1 asks for no check."""
        if current_leader_epoch == -1:
            return
        epoch = self.leader.epoch
        if current_leader_epoch < epoch:
            raise ApiError(ErrorCode.FENCED_LEADER_EPOCH, f"epoch {current_leader_epoch}, current is {epoch}")
        if current_leader_epoch > epoch:
            raise ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH, f"epoch {current_leader_epoch}, current is {epoch}")

    def append(
        self, records: memoryview, *, acks: int, api_version: int, transactional_id: str | None, now_ms: int
    ) -> AppendResult:
        """Store one produced batch; the answer is owed once `is_acknowledged` says so."""
        leader, log = self.leader, self.log
        config = log.config
        if acks == -1:
            leader.check_replicas(self.min_insync_replicas, len(self.replicas))
        header = accept_produced(
            records,
            max_bytes=config.max_message_bytes,
            api_version=api_version,
            compacted=config.compacted,
            append_time=config.message_timestamp_type == LOG_APPEND_TIME,
        )
        if header.is_transactional:
            raise _no_transaction(transactional_id)
        if header.size_bytes < len(records):
            records = records[: header.size_bytes]
        try:
            result = log.append(records, header, leader_epoch=leader.epoch, now_ms=now_ms)
        except DiskFullError:
            log.producers.expect_again(header)
            raise
        if not result.duplicate:
            self._run(leader.on_append(log.log_end_offset, log.durable_offset))
        return result

    def append_own(self, batch: bytearray, *, now_ms: int) -> int:
        """Store a batch of the broker's own making, as safely as acks=all would; the offset after it.

        Nobody is woken, for the caller is in the midst of a decision: it owes a `wake` once it is through.
        """
        leader, log = self.leader, self.log
        leader.check_replicas(self.min_insync_replicas, len(self.replicas))
        if len(batch) > log.config.max_message_bytes:
            detail = f"{len(batch)} bytes, {log.config.max_message_bytes} are allowed"
            raise ApiError(ErrorCode.MESSAGE_TOO_LARGE, detail)
        log.append(memoryview(batch), read_header(batch), leader_epoch=leader.epoch, now_ms=now_ms)
        leader.on_append(log.log_end_offset, log.durable_offset)
        return log.log_end_offset

    def wake(self) -> None:
        """Tell whoever waits on this partition to look again."""
        self._wake(self)

    def is_acknowledged(self, next_offset: int) -> bool:
        """Whether everything below `next_offset` may be acknowledged; raises when this node lost the leadership."""
        return self.leader.high_watermark >= next_offset

    def epoch_end(self, leader_epoch: int) -> tuple[int, int]:
        """Where `leader_epoch` ended, as far as consumers may know: not past the high watermark."""
        epoch, end = self.log.epoch_end(leader_epoch)
        return epoch, min(end, self.high_watermark)

    def epoch_at(self, offset: int) -> int:
        """The leader epoch that wrote `offset`; the current one for the log's end, -1 where it is not known."""
        return self.log.epochs.epoch_at(offset)

    def diverging_epoch(self, last_fetched_epoch: int, fetch_offset: int) -> tuple[int, int] | None:
        """Where the reader's history leaves ours, if it does (KIP-595): the epoch and its end here."""
        epoch, end = self.log.epoch_end(last_fetched_epoch)
        if epoch == UNDEFINED_EPOCH:
            detail = f"epoch {last_fetched_epoch} is not known here"
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, detail)
        if epoch < last_fetched_epoch or end < fetch_offset:
            return epoch, end
        return None

    def read(self, offset: int, max_bytes: int, *, committed_only: bool, min_one_batch: bool) -> LogSlice | None:
        """What a consumer may read at `offset`; None where there is nothing yet."""
        end = self.last_stable_offset if committed_only else self.high_watermark
        return self.log.read(offset, max_bytes, end_offset=end, min_one_batch=min_one_batch)

    def _on_durable(self, offset: int) -> None:
        if self._leader is not None:
            self._run(self._leader.on_durable(offset))

    def _run(self, effects: Effects) -> None:
        if effects.high_watermark is not None:
            self._wake(self)


def _no_transaction(transactional_id: str | None) -> ApiError:
    """Why a transactional batch is refused; no transaction can be open yet."""
    if transactional_id is None:
        detail = "a transactional batch needs a transactional id"
        return ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, detail)
    return ApiError(ErrorCode.INVALID_TXN_STATE, f"{transactional_id} has no open transaction")
