"""Idempotent producers: which batch is new, repeated, out of order or fenced (KIP-98, KIP-360)."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c

from bifrost.errors import ApiError, ErrorCode
from bifrost.log import producer_snapshots
from bifrost.log.memory_disk import MemoryDisk
from bifrost.log.producer_snapshots import CorruptSnapshotError
from bifrost.log.producers import ForgottenBatchError, ProducerStates
from bifrost.protocol.batch import (
    CONTROL_BIT,
    SEQUENCE_MASK,
    TRANSACTIONAL_BIT,
    BatchHeader,
    ProducerMark,
    read_header,
)
from bifrost.protocol.records import encode_batch

SEQUENCE_MAX = (1 << 31) - 1
PID = 7


def header(sequence: int, count: int = 1, *, epoch: int = 0, timestamp: int = 1000, attributes: int = 0) -> BatchHeader:
    records = [(timestamp, None, b"v", ())] * count
    batch = encode_batch(records, producer_id=PID, producer_epoch=epoch, base_sequence=sequence)
    return read_header(batch)._replace(attributes=attributes)


def after(*headers: BatchHeader) -> ProducerStates:
    """State of a log in which these batches lie one after the other."""
    states = ProducerStates()
    offset = 0
    for each in headers:
        states.record(each, offset)
        offset += each.last_offset_delta + 1
    return states


def refused(states: ProducerStates, batch: BatchHeader) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        states.check(batch)
    return caught.value.code


def test_an_unknown_producer_may_start_anywhere() -> None:
    assert ProducerStates().check(header(12345)) is None


def test_what_follows_a_first_batch_that_found_no_room_waits_for_it() -> None:
    states = ProducerStates()
    states.expect_again(header(0, 3).mark, ErrorCode.KAFKA_STORAGE_ERROR)
    assert refused(states, header(3)) is ErrorCode.KAFKA_STORAGE_ERROR
    assert states.check(header(5, epoch=1)) is None, "another epoch means that the producer has given up"
    assert states.check(header(0, 3)) is None
    states.record(header(0, 3), 0)
    assert states.check(header(3)) is None
    assert states.awaited == {}


def test_nobody_waits_for_ever_for_a_batch_that_found_no_room() -> None:
    states = ProducerStates()
    states.expect_again(header(0, 3).mark, ErrorCode.KAFKA_STORAGE_ERROR)
    states.expire(2000, 1500)
    assert states.check(header(3)) is None


def test_the_first_of_several_that_were_refused_comes_first() -> None:
    states = ProducerStates()
    for batch in (header(0, 3), header(3), header(0, 3)):
        states.expect_again(batch.mark, ErrorCode.NOT_ENOUGH_REPLICAS)
    assert refused(states, header(3)) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert states.check(header(0, 3)) is None


def test_how_many_are_waited_for_has_a_bound() -> None:
    states = ProducerStates()
    for producer_id in range(20_000):
        states.expect_again(ProducerMark(producer_id, 0, 0), ErrorCode.NOT_ENOUGH_REPLICAS)
    assert len(states.awaited) == 10_000


@pytest.mark.parametrize("epoch", [0, 1])
def test_what_comes_behind_a_batch_that_found_no_room_is_refused_like_it(epoch: int) -> None:
    """Not as out of order: librdkafka would begin a new epoch, and write again what it has under way elsewhere."""
    states = after(header(0))
    first = 1 if epoch == 0 else 0
    states.expect_again(header(first, epoch=epoch).mark, ErrorCode.KAFKA_STORAGE_ERROR)
    assert refused(states, header(first + 1, epoch=epoch)) is ErrorCode.KAFKA_STORAGE_ERROR
    assert states.check(header(first, epoch=epoch)) is None
    states.record(header(first, epoch=epoch), 1)
    assert states.awaited == {}
    assert refused(states, header(first + 2, epoch=epoch)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_the_next_sequence_is_accepted() -> None:
    assert after(header(0, 3)).check(header(3)) is None


def test_a_repeated_batch_is_answered_with_its_first_offset() -> None:
    states = after(*[header(sequence, 2) for sequence in range(0, 10, 2)])
    for number in range(5):
        duplicate = states.check(header(number * 2, 2))
        assert duplicate is not None
        assert (duplicate.base_offset, duplicate.last_offset) == (number * 2, number * 2 + 1)


def test_five_batches_are_remembered_and_of_older_ones_that_they_are_there() -> None:
    """A producer that hears late of a change of leaders repeats them, and must not take them for lost."""
    states = after(*[header(sequence, 2) for sequence in range(0, 16, 2)])
    assert states.check(header(6, 2)) is not None
    for sequence in (0, 2, 4):
        with pytest.raises(ForgottenBatchError) as stored:
            states.check(header(sequence, 2))
        assert stored.value.code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER
        assert stored.value.end_offset == 6, "it lies before the first that is remembered"
    assert refused(states, header(5, 2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize("begins", [0, 7, SEQUENCE_MAX - 3])
def test_what_was_never_seen_is_not_called_stored(begins: int) -> None:
    """A producer that was unknown may have begun anywhere, a leader's records may have left something out, and a
    snapshot tells of one batch."""
    states = after(*[header((begins + number) & SEQUENCE_MASK) for number in range(8)])
    assert refused(states, header((begins - 1) & SEQUENCE_MASK)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(states, header((begins + 20) & SEQUENCE_MASK)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(states, header(begins)) is ErrorCode.DUPLICATE_SEQUENCE_NUMBER
    for number in range(10, 18):
        states.record(header((begins + number) & SEQUENCE_MASK), number)
    assert refused(states, header(begins)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "8 and 9 are not there"
    assert refused(states, header((begins + 10) & SEQUENCE_MASK)) is ErrorCode.DUPLICATE_SEQUENCE_NUMBER
    loaded = producer_snapshots.decode(producer_snapshots.encode(states))
    assert refused(loaded, header((begins + 10) & SEQUENCE_MASK)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_gap_never_looks_like_the_past_however_long_a_producer_lives() -> None:
    huge = [header(number << 30)._replace(last_offset_delta=(1 << 30) - 1) for number in (0, 1)] * 4
    states = after(*huge)
    expected = 0
    for gap in (1, 1000, 1 << 30):
        assert refused(states, header((expected + gap) & SEQUENCE_MASK)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_repetition_has_the_same_first_and_last_sequence() -> None:
    states = after(header(0, 3))
    assert refused(states, header(0, 2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(states, header(1, 2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_gap_is_out_of_order() -> None:
    assert refused(after(header(0)), header(2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_older_epoch_is_fenced() -> None:
    states = after(header(0, epoch=3))
    assert refused(states, header(1, epoch=2)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_newer_epoch_starts_at_zero_and_forgets_the_old_batches() -> None:
    states = after(header(0, epoch=3))
    assert refused(states, header(1, epoch=4)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert states.check(header(0, epoch=4)) is None
    states.record(header(0, epoch=4), 1)
    assert len(states.entries[PID].batches) == 1


def test_sequences_wrap_to_zero() -> None:
    states = after(header(SEQUENCE_MAX - 1, 2))
    assert states.check(header(0)) is None
    assert refused(states, header(1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    across = header(SEQUENCE_MAX - 1, 4)
    states = after(across)
    assert states.entries[PID].batches[-1].last_sequence == 1
    assert states.check(header(2)) is None
    assert states.check(across) is not None


def test_checking_changes_nothing() -> None:
    states = after(header(0))
    before = producer_snapshots.encode(states)
    states.check(header(1))
    refused(states, header(9))
    assert producer_snapshots.encode(states) == before


def test_an_open_transaction_wants_transactional_batches() -> None:
    states = after(header(0, attributes=TRANSACTIONAL_BIT))
    assert states.entries[PID].current_txn_first_offset == 0
    assert refused(states, header(1)) is ErrorCode.INVALID_TXN_STATE
    assert states.check(header(1, attributes=TRANSACTIONAL_BIT)) is None


def test_a_marker_ends_the_transaction_and_has_no_sequence() -> None:
    states = after(header(0, attributes=TRANSACTIONAL_BIT))
    states.record(header(-1, attributes=TRANSACTIONAL_BIT | CONTROL_BIT), 1)
    entry = states.entries[PID]
    assert entry.current_txn_first_offset == -1
    assert [batch.last_sequence for batch in entry.batches] == [0]
    assert states.check(header(1)) is None


def test_silent_producers_are_forgotten_unless_a_transaction_is_open() -> None:
    states = after(header(0, timestamp=1000))
    states.expire(1999, 1000)
    assert PID in states.entries
    states.expire(2000, 1000)
    assert PID not in states.entries
    states = after(header(0, timestamp=1000, attributes=TRANSACTIONAL_BIT))
    states.expire(1 << 40, 1000)
    assert PID in states.entries


def test_a_snapshot_is_kafkas_byte_for_byte() -> None:
    states = after(header(0, 2), header(2, 3, timestamp=2000))
    body = struct.pack(">i", 1) + struct.pack(">qhiqiqiq", PID, 0, 4, 4, 2, 2000, -1, -1)
    assert producer_snapshots.encode(states) == struct.pack(">hI", 1, crc32c(body)) + body


def test_a_snapshot_keeps_the_last_batch_of_each_producer() -> None:
    states = producer_snapshots.decode(producer_snapshots.encode(after(header(0, 2), header(2, 3))))
    duplicate = states.check(header(2, 3))
    assert duplicate is not None
    assert duplicate.base_offset == 2
    assert states.check(header(5)) is None
    assert refused(states, header(0, 2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_fields_of_transactions_survive_a_snapshot() -> None:
    states = after(header(0, attributes=TRANSACTIONAL_BIT))
    states.entries[PID].coordinator_epoch = 9
    entry = producer_snapshots.decode(producer_snapshots.encode(states)).entries[PID]
    assert (entry.coordinator_epoch, entry.current_txn_first_offset) == (9, 0)
    states = after()
    states.record(header(-1, attributes=TRANSACTIONAL_BIT | CONTROL_BIT), 1)
    assert producer_snapshots.decode(producer_snapshots.encode(states)).entries[PID].batches == []


def test_damaged_snapshots_are_refused() -> None:
    data = producer_snapshots.encode(after(header(0)))
    for position in range(len(data)):
        with pytest.raises(CorruptSnapshotError):
            producer_snapshots.decode(data[:position])
        flipped = bytearray(data)
        flipped[position] ^= 0x10
        with pytest.raises(CorruptSnapshotError):
            producer_snapshots.decode(bytes(flipped))


def test_the_newest_readable_snapshot_is_loaded() -> None:
    disk = MemoryDisk()
    disk.makedirs("/d")
    producer_snapshots.write(disk, "/d", 5, after(header(0)))
    broken = producer_snapshots.write(disk, "/d", 9, after(header(0), header(1)))
    broken.truncate(20)
    loaded = producer_snapshots.load_newest(disk, "/d", [5, 9])
    assert loaded is not None
    assert loaded[0] == 5
    assert disk.listdir("/d") == ["00000000000000000005.snapshot"]
    assert producer_snapshots.load_newest(disk, "/d", []) is None


def test_snapshots_without_a_segment_go_except_the_one_at_the_end() -> None:
    """Kafka: ProducerStateManager.removeStraySnapshots."""
    disk = MemoryDisk()
    disk.makedirs("/d")
    for offset in (3, 10, 17, 25):
        producer_snapshots.write(disk, "/d", offset, ProducerStates())
    assert producer_snapshots.remove_stray(disk, "/d", [3, 10, 17, 25], [0, 10, 20], 25) == [10, 25]
    assert producer_snapshots.offsets(disk.listdir("/d")) == [10, 25]
    producer_snapshots.remove_beyond(disk, "/d", 10)
    assert producer_snapshots.offsets(disk.listdir("/d")) == [10]


def test_a_shorter_snapshot_leaves_nothing_of_a_longer_one() -> None:
    disk = MemoryDisk()
    disk.makedirs("/d")
    producer_snapshots.write(disk, "/d", 5, after(header(0)))
    producer_snapshots.write(disk, "/d", 5, ProducerStates())
    loaded = producer_snapshots.load_newest(disk, "/d", [5])
    assert loaded is not None
    assert loaded[1].entries == {}
