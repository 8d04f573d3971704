"""Whatever lies in a segment, compaction calls it damage in its own words, takes no more memory than it is worth, and
writes nothing that it would not read itself."""

from __future__ import annotations

import random
from contextlib import suppress
from functools import partial
from itertools import count

import pytest

from bifrost.errors import StorageError
from bifrost.log.cleaning import filter as cleaning_filter
from bifrost.log.cleaning import worker
from bifrost.log.cleaning.filter import BatchFilter, note_keys
from bifrost.log.cleaning.offset_map import OffsetMap
from bifrost.log.cleaning.task import CleaningTask, Source
from bifrost.log.config import INT64_MAX
from bifrost.log.memory_disk import MemoryDisk
from bifrost.log.names import LOG, segment_path
from bifrost.protocol.batch import _HEADER, HEADER_BYTES, CorruptBatchError, check_crc, read_header, stamp
from bifrost.protocol.record_spans import DELETE_HORIZON_BIT, empty, find_records, records_of
from tests.fuzz.cases import SECONDS, TRACED, check, until
from tests.fuzz.frames import NOW, valid_batch
from tests.fuzz.mutation import mutate
from tests.fuzz.test_decoders import with_checksum
from tests.unit.log.cleaning import varint

REFUSED = (CorruptBatchError, StorageError)

pytestmark = pytest.mark.timeout(SECONDS + 300)

INFLATED_MAX = 1 << 14
DIRECTORY = "/data/orders-0"
_numbers = count(2_000_000)


@pytest.fixture(autouse=True)
def little_is_inflated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleaning_filter, "DECOMPRESSED_BYTES_MAX", INFLATED_MAX)


def clean_batch(rng: random.Random, data: bytes) -> None:
    """As the worker does with a batch whose checksum is right."""
    batch, header = memoryview(data), read_header(data)
    if header.size_bytes != len(data) or not check_crc(data, 0, header) or header.last_offset_delta < 0:
        return
    noted = OffsetMap(rng.choice([1, 3, 100]))
    note_keys(noted, batch, header, rng.choice([0, header.base_offset]))
    later = OffsetMap(100)
    later.offsets.update({b"": INT64_MAX, b"key": INT64_MAX})
    later.end_offset = INT64_MAX
    for offsets in (noted, later):
        now_ms, retention_ms = rng.choice([(0, 0), (NOW, 0), (NOW, INT64_MAX), (INT64_MAX, 1)])
        batches = BatchFilter(offsets, {}, now_ms=now_ms, delete_retention_ms=retention_ms)
        left = batches.retained(batch, header, is_last=rng.random() < 0.5)
        if isinstance(left, bytes):
            read_back(left)
    read_back(empty(header))


def read_back(data: bytes) -> None:
    header = read_header(data)
    assert header.size_bytes == len(data)
    assert check_crc(data, 0, header)
    if header.record_count:
        inside = records_of(data, header, INFLATED_MAX)
        found = list(find_records(inside, header.record_count, header.last_offset_delta))
        assert len(found) == header.record_count


def clean_segment(rng: random.Random, data: bytes) -> None:
    """As a broker does with a segment that is said to be of this size."""
    disk = MemoryDisk()
    disk.makedirs(DIRECTORY)
    disk.open(segment_path(DIRECTORY, 0, LOG), create=True).write_at(data, 0)
    task = CleaningTask(
        disk=disk,
        directory=DIRECTORY,
        sources=(Source(0, len(data) + rng.choice([0, 0, 0, 7])),),
        first_dirty_offset=rng.randrange(3),
        end_offset=rng.choice([5, 100]),
        last_offsets={},
        now_ms=NOW,
        delete_retention_ms=0,
        segment_bytes=1 << 20,
        segment_index_bytes=1 << 20,
        index_interval_bytes=0,
        map_entries_max=rng.choice([1, 100]),
        read_bytes=rng.choice([1, 100, 1 << 16]),
    )
    number = next(_numbers)
    worker.begin(number, task)
    try:
        while worker.advance(number).clean_to is None:
            pass
    finally:
        worker.end(number)


def segment(rng: random.Random) -> bytes:
    """A few batches in a row, one of them spoilt behind a checksum that is right."""
    parts, offset = [], 0
    for _ in range(rng.randrange(1, 4)):
        batch = valid_batch(rng)
        following = offset + read_header(batch).next_offset
        if rng.random() < 0.4:
            batch = spoilt(rng)
        if len(batch) >= HEADER_BYTES:
            batch = bytearray(batch)
            stamp(batch, 0, offset, 0)
        parts.append(bytes(batch))
        offset = following
    return b"".join(parts)


def strange(rng: random.Random) -> bytes:
    """A batch whose records are whole, and say what no producer would."""
    header, body = read_header(valid_batch(rng)), b""
    count = rng.randrange(1, 4)
    for index in range(count):
        delta = rng.choice([0, 0, 1 << 62, INT64_MAX, -INT64_MAX, -INT64_MAX - 1, 1 << 65])
        key = rng.choice([b"\x01", b"\0", b"\x06key"])
        inside = b"\0" + varint(delta) + varint(rng.choice([index, index, index, -1, 1 << 31])) + key
        record = inside + rng.choice([b"\x01\0", b"\x02v\0"])
        body += varint(len(record)) + record
    changed = header._replace(
        base_timestamp=rng.choice([header.base_timestamp, INT64_MAX, -INT64_MAX, -1]),
        attributes=rng.choice([0, 0, DELETE_HORIZON_BIT]),
        last_offset_delta=count - 1,
        record_count=count,
    )
    return with_checksum(_HEADER.pack(*changed) + body)


def spoilt(rng: random.Random) -> bytes:
    if rng.random() < 0.2:
        return strange(rng)
    data = mutate(rng, valid_batch(rng), [valid_batch(rng)])
    return with_checksum(data) if len(data) >= HEADER_BYTES else data


@pytest.fixture(scope="module", autouse=True)
def warm() -> None:
    """What a codec allocates at its first use is not a case's."""
    rng = random.Random(0)
    for _ in range(50):
        clean_batch(rng, valid_batch(rng))


def test_a_sound_segment_is_cleaned() -> None:
    """Or the fuzzer would start from rubbish."""
    cleaned = 0
    for seed in range(20):
        rng = random.Random(seed)
        with suppress(StorageError):  # some are said to be longer than they are
            clean_segment(rng, valid_batch(rng))
            cleaned += 1
    assert cleaned > 10


def test_spoilt_batches() -> None:
    for rng in until(0.06):
        check(partial(clean_batch, rng), spoilt(rng), REFUSED, traced=rng.random() < TRACED)


def test_spoilt_segments() -> None:
    for rng in until(0.06):
        data = segment(rng)
        data = mutate(rng, data, [data]) if rng.random() < 0.2 else data
        check(partial(clean_segment, rng), data, REFUSED, traced=rng.random() < TRACED)
