"""One partition that this node hosts: checks, appends, reads. Hot path 3/9.

The log stores, the cores decide how far a write is safe and where logs part, and this file joins them. It is the only
place that carries out the leader's effects.

Must never: look inside a batch, take a client's write for a partition that another node leads, or show anybody but a
replica what is not committed.
"""

from __future__ import annotations

from collections.abc import Collection

from bifrost.errors import ApiError, DiskFullError, ErrorCode
from bifrost.log.config import LOG_APPEND_TIME
from bifrost.log.epochs import UNDEFINED_EPOCH
from bifrost.log.partition_log import PartitionLog
from bifrost.log.producers import ForgottenBatchError
from bifrost.log.slices import AppendResult, LogSlice
from bifrost.protocol.batch import accept_produced, read_header, read_producer
from bifrost.protocol.inspection import UnopenedError
from bifrost.replication.core.leader import Effects, PartitionLeader
from bifrost.replication.surroundings import Surroundings, Watcher
from bifrost.types import NodeId, TopicPartition

ACKS_ALL = -1
UP_TO_HIGH_WATERMARK = -1


class Partition:
    """A replica on this node, and the leader's duties when this node leads."""

    __slots__ = (
        "_around",
        "_high_watermark",
        "_leader",
        "_min_insync_replicas",
        "leader_epoch",
        "leader_id",
        "log",
        "replicas",
        "topic_id",
        "tp",
        "watchers",
    )

    def __init__(
        self,
        tp: TopicPartition,
        log: PartitionLog,
        around: Surroundings,
        *,
        min_insync_replicas: int,
        high_watermark: int = 0,
        topic_id: bytes = b"",
    ) -> None:
        self.tp = tp
        self.topic_id = topic_id
        self.log = log
        self.replicas: tuple[NodeId, ...] = ()
        self.leader_id: NodeId | None = None
        self.leader_epoch = UNDEFINED_EPOCH
        self.watchers: dict[Watcher, None] = {}
        self._around = around
        self._min_insync_replicas = min_insync_replicas
        self._high_watermark = min(max(high_watermark, log.log_start_offset), log.durable_offset)
        self._leader: PartitionLeader | None = None
        log.on_durable = self._on_durable
        log.on_start_stored = self._on_start_stored

    # Who leads

    def lead(self, epoch: int, replicas: tuple[NodeId, ...], isr: frozenset[NodeId], partition_epoch: int = 0) -> None:
        """This node leads from now on. The epoch's start is recorded even before its first write (KIP-101)."""
        self.replicas = replicas
        if self._leader is not None and epoch == self._leader.epoch:
            self._run(self._leader.on_partition(replicas, isr, partition_epoch))
            return
        log = self.log
        log.assign_epoch(epoch)
        self.leader_id, self.leader_epoch = self._around.me, epoch
        self._leader = leader = PartitionLeader(
            self._around.me,
            epoch=epoch,
            partition_epoch=partition_epoch,
            replicas=replicas,
            isr=isr,
            live=self._around.live,
            min_insync_replicas=self._min_insync_replicas,
            high_watermark=self.high_watermark,
            log_end_offset=log.log_end_offset,
            durable_offset=log.durable_offset,
        )
        self._tell_watchers()
        self._run(leader.on_durable(log.durable_offset))

    def follow(self, leader_id: NodeId | None, epoch: int, replicas: tuple[NodeId, ...]) -> None:
        """Another node leads from now on, or nobody: whoever waits here is told so."""
        self.replicas = replicas
        self.leader_id, self.leader_epoch = leader_id, epoch
        self.resign()

    def resign(self) -> None:
        """This node does not lead any more."""
        if self._leader is not None:
            self._high_watermark = self._leader.high_watermark
            self._leader = None
        self._tell_watchers()
        self._around.wake(self)

    @property
    def is_leader(self) -> bool:
        return self._leader is not None

    @property
    def leading(self) -> PartitionLeader | None:
        """The leader's state, while this node leads."""
        return self._leader

    @property
    def leader(self) -> PartitionLeader:
        if self._leader is None:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, str(self.tp))
        return self._leader

    @property
    def high_watermark(self) -> int:
        """Everything below is committed, as far as this replica knows."""
        return self._high_watermark if self._leader is None else self._leader.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """Where a read_committed consumer must stop; no transaction can be open yet."""
        return self.high_watermark

    @property
    def min_insync_replicas(self) -> int:
        return self._min_insync_replicas

    @min_insync_replicas.setter
    def min_insync_replicas(self, count: int) -> None:
        self._min_insync_replicas = count
        if self._leader is not None:
            self._run(self._leader.on_min_insync_replicas(count))

    def check_epoch(self, current_leader_epoch: int) -> None:
        """Refuse a client or replica that lives in another leader epoch (KIP-320); -1 asks for no check."""
        if current_leader_epoch == -1:
            return
        epoch = self.leader_epoch
        if current_leader_epoch < epoch:
            raise ApiError(ErrorCode.FENCED_LEADER_EPOCH, f"epoch {current_leader_epoch}, current is {epoch}")
        if current_leader_epoch > epoch:
            raise ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH, f"epoch {current_leader_epoch}, current is {epoch}")

    def check_leader(self, current_leader_epoch: int) -> PartitionLeader:
        """Refuse whoever lives in another leader epoch, or should ask another node."""
        self.check_epoch(current_leader_epoch)
        return self.leader

    # As a leader

    def append(
        self,
        records: memoryview,
        *,
        acks: int,
        api_version: int,
        transactional_id: str | None,
        now_ms: int,
        opened: bool = False,
    ) -> AppendResult:
        """Store one produced batch; the answer is owed once `is_acknowledged` says so. `UnopenedError`: not before
        somebody has looked inside."""
        leader, log = self.leader, self.log
        config = log.config
        if acks == ACKS_ALL and leader.is_under_min_isr:
            self._expect_again(records, ErrorCode.NOT_ENOUGH_REPLICAS)
            leader.check_replicas()
        header = accept_produced(
            records,
            max_bytes=config.max_message_bytes,
            api_version=api_version,
            append_time=config.message_timestamp_type == LOG_APPEND_TIME,
        )
        if header.is_transactional:
            raise _no_transaction(transactional_id)
        if not opened and (rules := config.inspection(header, now_ms)) is not None:
            raise UnopenedError(rules)
        if header.size_bytes < len(records):
            records = records[: header.size_bytes]
        try:
            result = log.append(records, header, leader_epoch=leader.epoch, now_ms=now_ms)
        except DiskFullError:
            self._expect_again(records, ErrorCode.KAFKA_STORAGE_ERROR)
            raise
        except ForgottenBatchError as stored:
            if leader.high_watermark < stored.end_offset:
                raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, stored.detail) from stored
            raise
        if not result.duplicate:
            self._tell_watchers()
            self._run(leader.on_append(log.log_end_offset, log.durable_offset))
        return result

    def _expect_again(self, records: memoryview, reason: ErrorCode) -> None:
        mark = read_producer(records)
        if mark is not None:
            self.log.producers.expect_again(mark, reason)

    def append_own(self, batch: bytearray, *, now_ms: int) -> int:
        """Store a batch of the broker's own making, as safely as acks=all would; the offset after it.

        Nobody is woken, for the caller is in the midst of a decision: it owes a `wake` once it is through.
        """
        leader, log = self.leader, self.log
        leader.check_replicas()
        if len(batch) > log.config.max_message_bytes:
            detail = f"{len(batch)} bytes, {log.config.max_message_bytes} are allowed"
            raise ApiError(ErrorCode.MESSAGE_TOO_LARGE, detail)
        log.append(memoryview(batch), read_header(batch), leader_epoch=leader.epoch, now_ms=now_ms)
        leader.on_append(log.log_end_offset, log.durable_offset)
        self._tell_watchers()
        return log.log_end_offset

    def wake(self) -> None:
        """Tell whoever waits on this partition to look again."""
        self._around.wake(self)

    def is_committed(self, next_offset: int) -> bool:
        """Whether everything below `next_offset` is; raises when this node lost the leadership."""
        return self.leader.high_watermark >= next_offset

    def is_acknowledged(self, next_offset: int, acks: int = ACKS_ALL) -> bool:
        """Whether everything below `next_offset` is as safe as was asked for; raises when this node lost the
        leadership, or when meanwhile too few replicas are in sync to call it safe."""
        leader = self.leader
        if acks != ACKS_ALL:
            return leader.durable_offset >= next_offset
        if leader.high_watermark < next_offset:
            return False
        if leader.is_under_min_isr:
            raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, f"{len(leader.isr)} in sync")
        return True

    def on_replica_fetch(
        self, broker_id: NodeId, broker_epoch: int, offset: int, now_ms: float, start_offset: int = -1
    ) -> bool:
        """A follower holds everything below `offset`, and shows nothing before `start_offset`. Whether writes wait for
        it."""
        leader = self.leader
        self._run(leader.on_fetch(broker_id, broker_epoch, offset, now_ms, start_offset))
        return broker_id in leader.waits_for

    def delete_records(self, offset: int) -> int:
        """Records before `offset` are gone from now on; which that is. Kafka: Partition.deleteRecordsOnLeader."""
        committed = self.leader.high_watermark
        if self.log.config.compacted and not self.log.config.deletes:  # with an empty policy they may go
            raise ApiError(ErrorCode.POLICY_VIOLATION, f"{self.tp}: cleanup.policy does not delete")
        wanted = committed if offset == UP_TO_HIGH_WATERMARK else offset
        if not 0 <= wanted <= committed:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{self.tp}: {wanted} is not in 0..{committed}")
        self.begin_at(wanted)
        return wanted

    @property
    def low_watermark(self) -> int:
        """Nobody shows anything before it, and nobody will after a crash."""
        return self.leader.low_watermark(self.log.stored_start_offset)

    def read_as_replica(self, offset: int, max_bytes: int, *, min_one_batch: bool) -> LogSlice | None:
        """What a follower may read: also what is not committed, for it becomes so by being fetched."""
        end = self.log.log_end_offset
        return self.log.read(offset, max_bytes, end_offset=end, min_one_batch=min_one_batch, whole_batches=True)

    def on_tick(self, now_ms: float, lag_max_ms: float) -> None:
        """Time has passed."""
        if self._leader is not None:
            self._run(self._leader.on_tick(now_ms, lag_max_ms))

    def on_brokers_changed(self) -> None:
        if self._leader is not None:
            self._run(self._leader.on_brokers_changed())
            if self.log.log_start_offset > 0:
                self._around.nudge(self)  # somebody may wait for a broker to delete records that is gone now

    def on_proposal_accepted(self, isr: Collection[int], leader_epoch: int, partition_epoch: int) -> None:
        """The controller has answered; the metadata will say the same."""
        if self._leader is not None and self._leader.epoch == leader_epoch:
            members = frozenset(map(NodeId, isr))
            self._run(self._leader.on_partition(self.replicas, members, partition_epoch))

    # As a follower

    def append_fetched(self, batches: memoryview, leader_epoch: int, now_ms: int) -> None:
        """Store batches as the leader of `leader_epoch` wrote them; an answer from another epoch is dropped."""
        if self._leader is None and leader_epoch == self.leader_epoch:
            self.log.append_replicated(batches, now_ms)

    def believe(self, leader_high_watermark: int, leader_start: int, leader_epoch: int) -> None:
        """What the leader of `leader_epoch` says is committed, and where its log begins."""
        if self._leader is not None or leader_epoch != self.leader_epoch:
            return
        log = self.log
        committed = min(leader_high_watermark, log.log_end_offset)
        if committed > self._high_watermark:
            self._high_watermark = committed
            self._around.wake(self)
        self.begin_at(min(leader_start, self._high_watermark))

    def truncate_to(self, offset: int, leader_epoch: int, now_ms: int) -> None:
        """The leader's history leaves this one here."""
        if self._leader is None and leader_epoch == self.leader_epoch:
            self.log.truncate_to(offset, now_ms)
            self._high_watermark = min(self._high_watermark, self.log.log_end_offset)

    def restart_at(self, offset: int, leader_epoch: int, now_ms: int) -> None:
        """Nothing here continues what the leader has."""
        if self._leader is None and leader_epoch == self.leader_epoch:
            self.log.truncate_fully_and_start_at(offset, now_ms)
            self._high_watermark = offset

    @property
    def is_synced(self) -> bool:
        return self.log.durable_offset >= self.log.log_end_offset

    # For anybody

    def begin_at(self, offset: int) -> None:
        """What lies before `offset` is served no more."""
        log = self.log
        if offset > log.log_start_offset:
            assert offset <= self.high_watermark, f"{self.tp}: {offset} is beyond {self.high_watermark}"
            log.advance_log_start(offset)
            for watcher in self.watchers:
                watcher.on_start_moved(self)

    def epoch_end(self, leader_epoch: int) -> tuple[int, int]:
        """Where `leader_epoch` ended in this log. A new leader's high watermark may still be below what its predecessor
        has shown: a consumer that was told to end there would take its own position for a loss (Kafka: Partition)."""
        return self.log.epoch_end(leader_epoch)

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
        if self._leader is None:
            self._around.on_synced(self)
        elif self._run(self._leader.on_durable(offset)):
            self._around.nudge(self)  # some wait for this disk alone

    def _on_start_stored(self) -> None:
        if self._leader is None:
            self._around.on_start_stored(self)
        else:
            self._around.nudge(self)  # somebody may wait for that

    def _tell_watchers(self) -> None:
        for watcher in self.watchers:
            watcher.on_append(self)

    def _run(self, effects: Effects) -> bool:
        """Whether nobody was woken."""
        if effects.propose_isr is not None:
            self._around.propose(self, effects.propose_isr)
        if effects.high_watermark is None:
            if effects.start_moved:
                self._around.nudge(self)
            return True
        for watcher in self.watchers:
            watcher.on_committed(self)
        self._around.wake(self)
        return False


def _no_transaction(transactional_id: str | None) -> ApiError:
    """Why a transactional batch is refused; no transaction can be open yet."""
    if transactional_id is None:
        detail = "a transactional batch needs a transactional id"
        return ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, detail)
    return ApiError(ErrorCode.INVALID_TXN_STATE, f"{transactional_id} has no open transaction")
