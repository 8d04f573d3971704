"""A partition on this node: who may write and read it, and what its leader's decisions do."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bifrost.errors import ApiError, DiskFullError, ErrorCode
from bifrost.log.config import FlushPolicy, LogConfig
from bifrost.log.memory_disk import MemoryDisk
from bifrost.log.partition_log import PartitionLog
from bifrost.protocol.batch import iter_headers
from bifrost.protocol.records import decode_batch, encode_batch
from bifrost.replication.manager import ReplicaManager
from bifrost.replication.partition import Partition
from bifrost.replication.surroundings import Surroundings
from bifrost.types import NodeId, TopicPartition
from tests.sim.disk import FaultyDisk

TP = TopicPartition("orders", 0)
ME = NodeId(1)
NOW = 1_700_000_000_000


class Hosted:
    """A partition on a log in memory, with the number of times that its waiters were woken."""

    def __init__(self, policy: FlushPolicy = FlushPolicy.ACK, disk: MemoryDisk | None = None) -> None:
        self.woken = self.nudged = 0
        self.log = PartitionLog.open(
            disk or MemoryDisk(), "/orders-0", TP, LogConfig(), clean=False, recovery_point=0, now_ms=NOW, policy=policy
        )
        around = Surroundings(me=ME, wake=self._wake, nudge=self._nudge)
        self.partition = Partition(TP, self.log, around, min_insync_replicas=1)
        self.partition_epoch = 0

    def _wake(self, partition: Partition) -> None:
        assert partition is self.partition
        self.woken += 1

    def _nudge(self, partition: Partition) -> None:
        assert partition is self.partition
        self.nudged += 1

    def lead(self, epoch: int = 0, isr: tuple[int, ...] = (1,), replicas: tuple[int, ...] = (1,)) -> None:
        self.partition_epoch += 1
        members = frozenset(map(NodeId, isr))
        self.partition.lead(epoch, tuple(map(NodeId, replicas)), members, self.partition_epoch)

    def append(self, *values: bytes, acks: int = -1, **fields: int) -> int:
        batch = memoryview(encode_batch([(NOW, None, value, ()) for value in values or (b"v",)], **fields))
        result = self.partition.append(batch, acks=acks, api_version=9, transactional_id=None, now_ms=NOW)
        return result.base_offset

    def read(self, offset: int) -> list[bytes | None]:
        piece = self.partition.read(offset, 1 << 20, committed_only=False, min_one_batch=True)
        if piece is None:
            return []
        data = memoryview(piece.file.read_at(piece.size, piece.position))
        return [
            record.value
            for position, header in iter_headers(data)
            for record in decode_batch(data[position : position + header.size_bytes])
            if record.offset >= offset
        ]


def led(policy: FlushPolicy = FlushPolicy.ACK) -> Hosted:
    hosted = Hosted(policy)
    hosted.lead()
    return hosted


def code_of(action: Callable[[], object]) -> ErrorCode:
    with pytest.raises(ApiError) as refused:
        action()
    return refused.value.code


def test_a_repetition_that_nobody_remembers_is_acknowledged_when_it_is_committed() -> None:
    """Not before: it is in this log, which may still lose it to another leader."""
    hosted = Hosted(FlushPolicy.OS)
    hosted.lead(isr=(1, 2), replicas=(1, 2))
    for sequence in range(7):
        hosted.append(producer_id=7, producer_epoch=0, base_sequence=sequence)
    for held, code in (
        (1, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND),
        (7, ErrorCode.DUPLICATE_SEQUENCE_NUMBER),
    ):
        hosted.partition.on_replica_fetch(NodeId(2), -1, held, NOW)
        assert code_of(lambda: hosted.append(producer_id=7, producer_epoch=0, base_sequence=0)) is code
    assert hosted.log.log_end_offset == 7


def test_a_partition_that_another_node_leads_takes_nothing_and_shows_nothing() -> None:
    hosted = Hosted()
    for action in (hosted.append, lambda: hosted.partition.check_leader(-1), lambda: hosted.partition.is_committed(0)):
        assert code_of(action) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_write_is_acknowledged_and_shown_once_it_is_synced() -> None:
    hosted = led()
    assert hosted.append(b"one") == 0
    assert not hosted.partition.is_acknowledged(1)
    assert hosted.read(0) == []
    hosted.log.flush()
    assert hosted.partition.is_acknowledged(1)
    assert hosted.read(0) == [b"one"]
    assert hosted.woken == 1


def test_what_is_synced_is_shown_and_what_follows_is_not() -> None:
    hosted = led()
    hosted.append(b"one")
    hosted.log.flush()
    hosted.append(b"two")
    assert hosted.read(0) == [b"one"]
    assert not hosted.partition.is_acknowledged(2)


@pytest.mark.parametrize("policy", [FlushPolicy.OS, FlushPolicy.MEMORY])
def test_where_nobody_waits_for_the_disk_a_write_is_shown_at_once(policy: FlushPolicy) -> None:
    hosted = led(policy)
    hosted.append(b"one")
    assert hosted.partition.is_acknowledged(1)
    assert hosted.read(0) == [b"one"]


def test_a_new_leadership_renews_the_epoch_even_before_its_first_write() -> None:
    """KIP-101."""
    hosted = led()
    hosted.append()
    hosted.log.flush()
    hosted.lead(epoch=4)
    assert hosted.log.epoch_end(0) == (0, 1)
    assert hosted.log.epochs.latest == 4
    hosted.append()
    assert hosted.partition.epoch_at(1) == 4


def test_the_same_epoch_again_changes_the_replicas_in_sync_and_nothing_else() -> None:
    hosted = led()
    hosted.append()
    hosted.log.flush()
    leader = hosted.partition.leader
    hosted.lead(epoch=0, isr=(1, 2))
    assert hosted.partition.leader is leader
    assert leader.isr == {1, 2}
    assert leader.high_watermark == 1


@pytest.mark.parametrize(("checkpoint", "expected"), [(0, 0), (2, 2), (3, 3), (9, 3)])
def test_a_replica_starts_with_what_the_checkpoint_says_if_it_holds_that(checkpoint: int, expected: int) -> None:
    hosted = led()
    for _ in range(3):
        hosted.append()
    hosted.log.flush()
    around = Surroundings(me=ME, wake=lambda _: None)
    again = Partition(TP, hosted.log, around, min_insync_replicas=1, high_watermark=checkpoint)
    assert again.high_watermark == expected
    again.lead(1, (ME,), frozenset({ME}), 1)
    assert again.high_watermark == 3, "alone in sync, what it holds is committed"


def test_who_waits_is_told_when_the_leadership_ends() -> None:
    hosted = led()
    hosted.append()
    hosted.partition.resign()
    assert hosted.woken == 1
    assert code_of(lambda: hosted.partition.is_acknowledged(1)) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_sync_that_ends_after_the_leadership_does_no_harm() -> None:
    hosted = led()
    hosted.append()
    job = hosted.log.begin_flush()
    hosted.partition.resign()
    job.run()
    hosted.log.finish_flush(job)
    hosted.lead(epoch=1)
    assert hosted.partition.high_watermark == 1


@pytest.mark.parametrize(
    ("asked", "code"), [(-1, None), (5, None), (4, ErrorCode.FENCED_LEADER_EPOCH), (6, ErrorCode.UNKNOWN_LEADER_EPOCH)]
)
def test_readers_of_another_epoch_are_refused(asked: int, code: ErrorCode | None) -> None:
    """KIP-320."""
    hosted = Hosted()
    hosted.lead(epoch=5)
    if code is None:
        hosted.partition.check_epoch(asked)
    else:
        assert code_of(lambda: hosted.partition.check_epoch(asked)) is code


def test_acks_all_is_refused_before_it_is_written_when_too_few_replicas_are_in_sync() -> None:
    hosted = Hosted()
    hosted.lead(isr=(1,), replicas=(1, 2, 3))
    hosted.partition.min_insync_replicas = 2
    assert code_of(hosted.append) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert hosted.log.log_end_offset == 0
    assert hosted.append(acks=1) == 0


def test_a_repeated_batch_is_not_written_again_and_waits_for_the_first() -> None:
    hosted = led()
    fields = {"producer_id": 9, "producer_epoch": 0, "base_sequence": 0}
    assert hosted.append(b"one", **fields) == 0
    assert hosted.append(b"one", **fields) == 0
    assert hosted.log.log_end_offset == 1
    assert not hosted.partition.is_acknowledged(1), "neither of them is safe yet"
    hosted.log.flush()
    assert hosted.partition.is_acknowledged(1)


def test_what_a_producer_sent_after_a_batch_without_room_does_not_overtake_it() -> None:
    disk = FaultyDisk(Random(1))
    hosted = Hosted(disk=disk)
    hosted.lead()
    first = {"producer_id": 9, "producer_epoch": 0, "base_sequence": 0}
    disk.space_left = 100
    with pytest.raises(DiskFullError):
        hosted.append(b"v" * 1000, **first)
    with pytest.raises(ApiError) as refused:
        hosted.append(b"v", **first | {"base_sequence": 1})
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    disk.space_left = None
    assert hosted.append(b"v" * 1000, **first) == 0
    assert hosted.append(b"v", **first | {"base_sequence": 1}) == 1


def test_where_an_epoch_ended_does_not_depend_on_what_a_new_leader_knows_to_be_committed() -> None:
    """A consumer has read to 3 from the old leader; the new one has the records, and has not heard of its follower."""
    hosted = Hosted()
    hosted.lead(epoch=0)
    hosted.append(b"a", b"b", b"c")
    hosted.lead(epoch=2, isr=(1, 2), replicas=(1, 2))
    assert hosted.partition.high_watermark < 3
    assert hosted.partition.epoch_end(0) == (0, 3)


def test_a_reader_whose_history_leaves_ours_is_told_where() -> None:
    """KIP-595."""
    hosted = led()
    for _ in range(3):
        hosted.append()
    hosted.log.flush()
    hosted.lead(epoch=2)
    hosted.append()
    hosted.log.flush()
    assert hosted.partition.diverging_epoch(0, 3) is None
    assert hosted.partition.diverging_epoch(0, 4) == (0, 3)
    assert hosted.partition.diverging_epoch(1, 3) == (0, 3)
    assert hosted.partition.diverging_epoch(2, 4) is None


def test_a_transactional_batch_has_no_transaction_to_belong_to() -> None:
    hosted = led()
    batch = encode_batch([(NOW, None, b"v", ())], producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)

    def append(transactional_id: str | None) -> object:
        return hosted.partition.append(
            memoryview(batch), acks=-1, api_version=9, transactional_id=transactional_id, now_ms=NOW
        )

    assert code_of(lambda: append("t")) is ErrorCode.INVALID_TXN_STATE
    assert code_of(lambda: append(None)) is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_the_manager_finds_a_partition_or_says_why_not() -> None:
    replicas = ReplicaManager()
    assert code_of(lambda: replicas.get(TP)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    hosted = led()
    replicas.add(hosted.partition)
    assert replicas.get(TP) is hosted.partition
    assert (TP in replicas, len(replicas), list(replicas)) == (True, 1, [hosted.partition])
    assert replicas.high_watermarks() == {TP: 0}
    replicas.mark_offline(TP)
    assert code_of(lambda: replicas.get(TP)) is ErrorCode.KAFKA_STORAGE_ERROR
    assert not hosted.partition.is_leader
    assert replicas.high_watermarks() == {}
    replicas.remove(TP)
    assert code_of(lambda: replicas.get(TP)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    replicas.exists = lambda tp: tp == TP
    assert code_of(lambda: replicas.get(TP)) is ErrorCode.NOT_LEADER_OR_FOLLOWER, "others have it"


STEPS = st.sampled_from(["append", "append", "begin", "finish", "renew", "resign"])


@settings(max_examples=60)
@given(steps=st.lists(STEPS, max_size=40))
def test_readers_see_a_growing_prefix_of_what_is_durable_through_any_change_of_leadership(steps: list[str]) -> None:
    hosted = led()
    epoch, written, shown = 0, 0, 0
    jobs: list[object] = []
    for step in steps:
        if step == "append" and hosted.partition.is_leader:
            assert hosted.append(b"%d" % written) == written
            written += 1
        elif step == "begin" and not jobs:
            jobs.append(hosted.log.begin_flush())
        elif step == "finish" and jobs:
            job = jobs.pop()
            job.run()  # type: ignore[attr-defined]
            hosted.log.finish_flush(job)  # type: ignore[arg-type]
        elif step == "renew":
            epoch += 1
            hosted.lead(epoch)
        elif step == "resign":
            hosted.partition.resign()
        if hosted.partition.is_leader:
            visible = hosted.read(0)
            assert visible == [b"%d" % number for number in range(len(visible))]
            assert shown <= len(visible) == hosted.partition.high_watermark <= hosted.log.durable_offset <= written
            shown = len(visible)


class TestTheBrokersOwnBatches:
    """Group and transaction state: as safe as acks=all, written by the broker itself."""

    def batch(self, *values: bytes) -> bytearray:
        return encode_batch([(NOW, b"key", value, ()) for value in values or (b"v",)])

    @pytest.mark.parametrize("policy", [FlushPolicy.ACK, FlushPolicy.OS])
    def test_they_are_stored_and_nobody_is_woken_in_the_midst_of_it(self, policy: FlushPolicy) -> None:
        hosted = Hosted(policy)
        hosted.lead(epoch=3)
        woken = hosted.woken
        assert hosted.partition.append_own(self.batch(b"a", b"b"), now_ms=NOW) == 2
        assert hosted.woken == woken
        assert hosted.partition.is_acknowledged(2) is (policy is FlushPolicy.OS)
        hosted.partition.wake()
        assert hosted.woken == woken + 1
        assert hosted.partition.epoch_at(1) == 3

    def test_too_few_replicas_in_sync_refuse_them(self) -> None:
        hosted = Hosted()
        hosted.partition.min_insync_replicas = 2
        hosted.lead(replicas=(1, 2))
        with pytest.raises(ApiError) as refused:
            hosted.partition.append_own(self.batch(), now_ms=NOW)
        assert refused.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
        assert hosted.log.log_end_offset == 0

    def test_a_batch_that_is_too_large_is_refused(self) -> None:
        hosted = Hosted()
        hosted.lead()
        with pytest.raises(ApiError) as refused:
            hosted.partition.append_own(self.batch(bytes(2 << 20)), now_ms=NOW)
        assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE

    def test_only_the_leader_takes_them(self) -> None:
        with pytest.raises(ApiError) as refused:
            Hosted().partition.append_own(self.batch(), now_ms=NOW)
        assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
