"""Bytes flipped or cut anywhere in any file of a log: a reader gets a prefix of what was acknowledged, or an error.

"A reader" checks the CRC of every batch, as Kafka's clients do, and knows that this topic was never compacted, so that
a gap between two offsets is an error as well. Two fields of a batch are not covered by its CRC, in Kafka's format and
so in ours: a flip in the leader epoch changes nothing that a reader sees, and one in the base offset moves a whole
batch; then the promise is that every record that is read is one that was written.
"""

from __future__ import annotations

from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bifrost.errors import ApiError, StorageError
from bifrost.log.config import LogConfig
from bifrost.log.memory_disk import MemoryDisk
from bifrost.log.partition_log import PartitionLog
from bifrost.protocol.batch import CorruptBatchError, iter_headers
from bifrost.protocol.records import Record, decode_batch
from tests.unit.log.batches import DIRECTORY, NOW, ChecksumError, append, open_log, read_batches

CONFIG = LogConfig(segment_bytes=900, index_interval_bytes=150)
COUNT = 40


def written_log(rng: Random) -> tuple[MemoryDisk, list[bytes | None]]:
    """A cleanly closed log of several segments, epochs and producers."""
    disk = MemoryDisk()
    log = open_log(disk, CONFIG)
    values: list[bytes | None] = []
    sequences = dict.fromkeys((7, 8), 0)
    while len(values) < COUNT:
        batch = [b"value-%04d" % (len(values) + each) for each in range(rng.randint(1, 4))]
        producer_id = rng.choice((-1, 7, 8))
        timestamp = NOW - rng.randint(0, 50)
        sequence = sequences.get(producer_id, 0)
        epoch = len(values) // 15
        append(log, *batch, leader_epoch=epoch, timestamp=timestamp, producer_id=producer_id, sequence=sequence)
        if producer_id >= 0:
            sequences[producer_id] = sequence + len(batch)
        values += batch
    log.close()
    return disk, values


def read_until_error(log: PartitionLog) -> list[Record]:
    """Records in order, up to the first thing that a client would complain about."""
    records: list[Record] = []
    try:
        for batch in read_batches(log, log.log_start_offset, log.log_end_offset, 400):
            for record in decode_batch(batch):
                if record.offset != len(records):
                    return records
                records.append(record)
    except (ApiError, ChecksumError, CorruptBatchError):
        pass
    return records


def base_offset_bytes(content: bytes) -> set[int]:
    return {position + byte for position, _ in iter_headers(content) for byte in range(8)}


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), clean=st.booleans(), cut=st.booleans())
def test_damage_is_never_served(data: st.DataObject, clean: bool, cut: bool) -> None:
    disk, values = written_log(Random(data.draw(st.integers(0, 20), label="log")))
    end = len(values)
    name = data.draw(st.sampled_from(disk.listdir(DIRECTORY)), label="file")
    file = disk.open(f"{DIRECTORY}/{name}")
    size = file.size()
    if size == 0:
        return
    moved = False
    position = data.draw(st.integers(0, size - 1), label="position")
    if cut:
        file.truncate(position)
    else:
        moved = name.endswith(".log") and position in base_offset_bytes(bytes(file.content))
        file.content[position] ^= 1 << data.draw(st.integers(0, 7), label="bit")
    recovery_point = end if clean else data.draw(st.sampled_from((0, end // 2, end)), label="recovery point")
    try:
        log = open_log(disk, CONFIG, clean=clean, recovery_point=recovery_point)
        records = read_until_error(log)
    except StorageError:
        return
    found = [record.value for record in records]
    if moved:
        assert set(found) <= set(values)
    else:
        assert found == values[: len(found)]
        if not clean and recovery_point == 0:
            assert log.log_end_offset == len(found), "what was scanned holds nothing that a client would refuse"
    if not name.endswith(".log"):
        assert found == values, "what is derived from the log can be built again"
        assert log.log_end_offset == end


@settings(max_examples=150, deadline=None)
@given(data=st.data(), clean=st.booleans())
def test_look_ups_survive_damaged_indexes(data: st.DataObject, clean: bool) -> None:
    """Every offset is found, whatever an offset index says; every read makes progress."""
    disk, values = written_log(Random(data.draw(st.integers(0, 20), label="log")))
    for name in disk.listdir(DIRECTORY):
        if name.endswith(".index"):
            content = disk.open(f"{DIRECTORY}/{name}").content
            for _ in range(data.draw(st.integers(0, 3))):
                if content:
                    content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    log = open_log(disk, CONFIG, clean=clean, recovery_point=len(values))
    for offset in data.draw(st.lists(st.integers(0, len(values) - 1), max_size=10)):
        batch = next(read_batches(log, offset, log.log_end_offset))
        assert any(record.offset == offset and record.value == values[offset] for record in decode_batch(batch))
