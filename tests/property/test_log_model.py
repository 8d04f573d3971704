"""The log against a plain list, with a crash after any step on a disk that forgets.

Promises: whatever happens, the log is a prefix of what was appended; nothing below `durable_offset` is ever lost; and
what belongs to the log (epochs, producers, look-ups) is what the surviving batches say, no more and no less.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bifrost.errors import ApiError
from bifrost.log.config import LogConfig
from bifrost.log.flush_job import FlushJob
from bifrost.log.partition_log import PartitionLog
from bifrost.log.timestamps import find_timestamp, max_timestamp
from bifrost.protocol.records import decode_batch, encode_batch
from tests.sim.disk import FaultyDisk
from tests.unit.log.batches import NOW, append, open_log, produced, read_batches

PRODUCERS = (-1, 7, 8)


class Stored(NamedTuple):
    """A batch of the model."""

    base_offset: int
    values: tuple[bytes, ...]
    leader_epoch: int
    timestamp: int
    producer_id: int
    producer_epoch: int
    sequence: int

    @property
    def next_offset(self) -> int:
        return self.base_offset + len(self.values)


class LogAgainstList(RuleBasedStateMachine):
    """Hypothesis drives the log and the model side by side."""

    disk: FaultyDisk
    log: PartitionLog

    @initialize(
        seed=st.integers(0, 2**32),
        segment_bytes=st.sampled_from((250, 600, 5000)),
        interval_bytes=st.sampled_from((0, 100, 4096)),
        index_bytes=st.sampled_from((40, 10 << 20)),
    )
    def start(self, seed: int, segment_bytes: int, interval_bytes: int, index_bytes: int) -> None:
        self.disk = FaultyDisk(Random(seed))
        self.disk.makedirs("/data")
        self.disk.sync_directory("/")
        self.config = LogConfig(
            segment_bytes=segment_bytes, index_interval_bytes=interval_bytes, segment_index_bytes=index_bytes
        )
        self.batches: list[Stored] = []
        self.end = 0
        self.epoch = 0
        self.count = 0
        self.checkpointed = 0
        self.job: FlushJob | None = None
        self.next_sequence: dict[int, tuple[int, int]] = {}
        self.log = open_log(self.disk, self.config)

    # -- steps ------------------------------------------------------------------------------------------------------

    @rule(
        count=st.integers(1, 3),
        producer_id=st.sampled_from(PRODUCERS),
        age=st.integers(0, 5),
        bump_epoch=st.sampled_from((False, False, False, True)),
    )
    def produce(self, count: int, producer_id: int, age: int, bump_epoch: bool) -> None:
        values = self._values(count)
        producer_epoch, sequence = self.next_sequence.get(producer_id, (0, 0))
        if bump_epoch:
            producer_epoch, sequence = producer_epoch + 1, 0
        batch = Stored(self.end, values, self.epoch, NOW - age, producer_id, producer_epoch, sequence)
        result = append(
            self.log,
            *values,
            leader_epoch=self.epoch,
            timestamp=batch.timestamp,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            sequence=sequence,
        )
        assert not result.duplicate
        assert result.base_offset == self.end
        self._store(batch)

    @precondition(lambda self: self.next_sequence)
    @rule(producer_id=st.sampled_from(PRODUCERS[1:]), back=st.integers(0, 6))
    def repeat(self, producer_id: int, back: int) -> None:
        """A retry of one of the last batches is answered with where it is; of an older one it may still be known that
        it is there."""
        mine = [batch for batch in self.batches if batch.producer_id == producer_id]
        if back >= len(mine) or mine[-1 - back].producer_epoch != self.next_sequence[producer_id][0]:
            return
        batch = mine[-1 - back]
        data, header = produced(
            batch.values,
            timestamp=batch.timestamp,
            producer_id=producer_id,
            producer_epoch=batch.producer_epoch,
            sequence=batch.sequence,
        )
        known = [each.base_offset for each in self.log.producers.entries[producer_id].batches]
        assert known[-1] == mine[-1].base_offset, "the last batch is always known"
        if batch.base_offset in known:
            result = self.log.append(data, header, leader_epoch=self.epoch, now_ms=NOW)
            assert result.duplicate
            assert result.base_offset == batch.base_offset
        else:
            with pytest.raises(ApiError, match=r"DUPLICATE_SEQUENCE_NUMBER|OUT_OF_ORDER_SEQUENCE_NUMBER"):
                self.log.append(data, header, leader_epoch=self.epoch, now_ms=NOW)

    @rule(counts=st.lists(st.integers(1, 3), min_size=1, max_size=4), gap=st.sampled_from((0, 0, 0, 5)))
    def replicate(self, counts: list[int], gap: int) -> None:
        self._replicate(counts, gap)

    @rule()
    def new_leader(self) -> None:
        self.epoch += 1
        self.log.assign_epoch(self.epoch)

    @rule()
    def roll(self) -> None:
        self.log.roll(NOW)

    @rule(back=st.integers(0, 12))
    def truncate(self, back: int) -> None:
        self._truncate(max(self.end - back, 0))

    @rule(back=st.integers(1, 12), flush=st.booleans(), roll=st.booleans())
    def diverge(self, back: int, flush: bool, roll: bool) -> None:
        """What a follower does that heard of a new leader: it cuts, and stores other batches of the same sizes."""
        before = self.batches
        self._truncate(max(self.end - back, 0))
        self.epoch += 1
        for batch in before[len(self.batches) :]:
            if roll:
                self.log.roll(NOW)
            self._replicate([len(batch.values)], batch.base_offset - self.end)
        if flush and self.job is None:
            self.flush()

    @precondition(lambda self: self.job is None)
    @rule()
    def begin_flush(self) -> None:
        self.job = self.log.begin_flush()

    @precondition(lambda self: self.job is not None)
    @rule()
    def end_flush(self) -> None:
        assert self.job is not None
        self.job.run()
        self.log.finish_flush(self.job)
        self.job = None

    @precondition(lambda self: self.job is None)
    @rule()
    def flush(self) -> None:
        self.log.flush()
        assert self.log.durable_offset == self.log.log_end_offset

    @rule()
    def checkpoint(self) -> None:
        self.checkpointed = self.log.recovery_point

    @precondition(lambda self: self.job is None)
    @rule(power=st.booleans())
    def stop_and_start(self, power: bool) -> None:
        """A clean stop loses nothing, whatever happens to the machine afterwards."""
        self.log.close()
        self.disk.crash(power=power)
        self.checkpointed = self.log.recovery_point
        self.log = open_log(self.disk, self.config, clean=True, recovery_point=self.checkpointed)
        assert self._surviving() == len(self.batches)
        self._after_start()

    @rule(powers=st.sampled_from(((True,), (False,), (False, True), (True, True))))
    def crash(self, powers: tuple[bool, ...]) -> None:
        """The process ends; with the power lost, so does what was not synced. Then perhaps the same again."""
        for power in powers:
            acknowledged = self.log.durable_offset
            self.disk.crash(power=power)
            self.log = open_log(self.disk, self.config, recovery_point=self.checkpointed)
            kept = self._surviving()
            assert power or kept == len(self.batches)
            lost = self.batches[kept:]
            assert all(batch.next_offset > acknowledged for batch in lost), f"lost {lost}, safe was {acknowledged}"
            self.batches = self.batches[:kept]
            self._after_start()

    # -- what must hold -----------------------------------------------------------------------------------------------

    @invariant()
    def ends_agree(self) -> None:
        assert self.log.log_end_offset == self.end
        assert self.log.durable_offset <= self.end
        assert self.log.recovery_point <= self.end
        assert self.log.size_bytes == sum(segment.size for segment in self.log.segments)

    @rule(start=st.integers(0, 100), size=st.integers(1, 2000), end=st.integers(0, 200))
    def read(self, start: int, size: int, end: int) -> None:
        if not self.log.log_start_offset <= start <= self.end:
            return
        found = [decode_batch(batch) for batch in read_batches(self.log, start, end, size)]
        expected = [b for b in self.batches if b.next_offset > start and b.next_offset <= min(end, self.end)]
        assert [tuple(record.value for record in batch) for batch in found] == [batch.values for batch in expected]
        assert [batch[0].offset for batch in found] == [batch.base_offset for batch in expected]

    @rule()
    def derived_state_agrees(self) -> None:
        self._times_agree()
        self._epochs_agree()
        self._producers_agree()

    def _times_agree(self) -> None:
        records = [(b.timestamp, b.base_offset + i) for b in self.batches for i in range(len(b.values))]
        for age in range(7):
            expected = next((record for record in records if record[0] >= NOW - age), None)
            found = find_timestamp(self.log, NOW - age, self.end)
            assert (found and found[:2]) == expected
        greatest = max_timestamp(self.log, self.end)
        assert (greatest and greatest[:2]) == min(records, key=lambda each: (-each[0], each[1]), default=None)

    def _epochs_agree(self) -> None:
        """Every batch is found under the epoch that wrote it, and an epoch ends where the next begins."""
        for batch in self.batches:
            assert self.log.epochs.epoch_at(batch.base_offset) == batch.leader_epoch
            epoch, end = self.log.epoch_end(batch.leader_epoch)
            assert epoch == batch.leader_epoch
            later = [b.base_offset for b in self.batches if b.leader_epoch > epoch]
            if later:
                assert batch.next_offset <= end <= min(later)

    def _producers_agree(self) -> None:
        """The state of a producer is that of its last batch; only a log's own batches make state."""
        last = {batch.producer_id: batch for batch in self.batches if batch.producer_id >= 0}
        known = self.log.producers.entries
        assert set(known) == set(last)
        for producer_id, batch in last.items():
            assert known[producer_id].producer_epoch == batch.producer_epoch
            newest = known[producer_id].batches[-1]
            assert (newest.base_offset, newest.first_sequence) == (batch.base_offset, batch.sequence)

    # -- the model ----------------------------------------------------------------------------------------------------

    def _replicate(self, counts: list[int], gap: int) -> None:
        """Batches of a leader, the first perhaps behind a gap that compaction left."""
        data = b""
        stored = []
        end = self.end + gap
        for count in counts:
            values = self._values(count)
            records = [(NOW, None, value, ()) for value in values]
            data += encode_batch(records, base_offset=end, leader_epoch=self.epoch)
            stored.append(Stored(end, values, self.epoch, NOW, -1, -1, -1))
            end = stored[-1].next_offset
        assert self.log.append_replicated(memoryview(data + b"\0" * 30), NOW) == end
        for batch in stored:
            self._store(batch)

    def _truncate(self, offset: int) -> None:
        self.log.truncate_to(offset)
        self.batches = [batch for batch in self.batches if batch.next_offset <= offset]
        assert self.log.log_end_offset <= offset
        self.end = self.log.log_end_offset
        self._rebuild_sequences()

    def _values(self, count: int) -> tuple[bytes, ...]:
        """Different every time and mostly of one size, so that stale bytes fit exactly where new ones are missing."""
        values = tuple(b"value-%06d" % (self.count + each) for each in range(count))
        self.count += count
        return values

    def _store(self, batch: Stored) -> None:
        self.batches.append(batch)
        self.end = batch.next_offset
        if batch.producer_id >= 0:
            self.next_sequence[batch.producer_id] = batch.producer_epoch, batch.sequence + len(batch.values)

    def _surviving(self) -> int:
        """How many batches of the model are in the log, which must hold nothing else."""
        found = [decode_batch(batch) for batch in read_batches(self.log, 0, self.log.log_end_offset)]
        expected = self.batches[: len(found)]
        assert [tuple(record.value for record in batch) for batch in found] == [batch.values for batch in expected]
        assert [batch[0].offset for batch in found] == [batch.base_offset for batch in expected]
        return len(found)

    def _after_start(self) -> None:
        self.job = None
        self.end = self.log.log_end_offset
        assert self.log.durable_offset == self.end
        self._rebuild_sequences()
        self.derived_state_agrees()

    def _rebuild_sequences(self) -> None:
        self.next_sequence = {}
        for batch in self.batches:
            if batch.producer_id >= 0:
                self.next_sequence[batch.producer_id] = batch.producer_epoch, batch.sequence + len(batch.values)


TestLogAgainstList = LogAgainstList.TestCase
TestLogAgainstList.settings = settings(
    max_examples=250,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
