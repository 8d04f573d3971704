"""A log cleaned as a broker does it, without the broker."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from bifrost.log.cleaning import worker
from bifrost.log.cleaning.choosing import Dirt, assess, task_for
from bifrost.log.cleaning.task import Cleaned
from bifrost.log.disk import Disk
from bifrost.log.partition_log import PartitionLog
from bifrost.protocol.batch import read_header, with_payload
from bifrost.protocol.compression import Codec
from bifrost.protocol.records import encode_batch
from tests.unit.log.batches import NOW

_numbers = count(1_000_000)

KeyValue = tuple[bytes | None, bytes | None]


def put(
    log: PartitionLog,
    *pairs: KeyValue,
    codec: Codec = Codec.NONE,
    timestamp: int = NOW,
    producer_id: int = -1,
    sequence: int = 0,
    transactional: bool = False,
) -> int:
    """One batch; its base offset. Record number n is n milliseconds younger than the first."""
    data = encode_batch(
        [(timestamp + index, key, value, ()) for index, (key, value) in enumerate(pairs)],
        codec=codec,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=sequence if producer_id >= 0 else -1,
        transactional=transactional,
    )
    return log.append(memoryview(data), read_header(data), leader_epoch=0, now_ms=NOW).base_offset


def varint(value: int) -> bytes:
    """As records write their numbers, of any size."""
    value = value << 1 if value >= 0 else (-value << 1) - 1
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def nonsense() -> bytearray:
    """A batch whose header and checksum are right, and which holds a record of 2^65 ms after the first."""
    batch = bytearray(encode_batch([(NOW, b"a", b"1", ())]))
    record = b"\0" + varint(1 << 65) + bytes.fromhex("00 02 61 02 31 00")
    return with_payload(batch, read_header(batch), Codec.NONE, bytes([2 * len(record)]) + record)


def put_nonsense(log: PartitionLog) -> None:
    batch = nonsense()
    log.append(memoryview(batch), read_header(batch), leader_epoch=0, now_ms=NOW)


def dirt(log: PartitionLog, *, now_ms: int = NOW, stable_offset: int | None = None) -> Dirt | None:
    log.flush()
    return assess(log, log.log_end_offset if stable_offset is None else stable_offset, now_ms)


def clean(
    log: PartitionLog, disk: Disk, *, now_ms: int = NOW, map_entries_max: int = 1 << 20, read_bytes: int = 1 << 16
) -> list[Cleaned]:
    """One round; what was replaced."""
    found = dirt(log, now_ms=now_ms)
    assert found is not None, "there is nothing to clean"
    task = task_for(found, disk, now_ms=now_ms, map_entries_max=map_entries_max, read_bytes=read_bytes)
    number = next(_numbers)
    replaced: list[Cleaned] = []
    worker.begin(number, task)
    try:
        while True:
            step = worker.advance(number)
            if step.cleaned is not None:
                paths = log.replace_segments(step.cleaned)
                assert paths is not None
                for path in paths:
                    disk.remove(path)
                replaced.append(step.cleaned)
            if step.clean_to is not None:
                log.first_dirty_offset = step.clean_to
                return replaced
    finally:
        worker.end(number)


def fill(log: PartitionLog, batches: Sequence[Sequence[KeyValue]]) -> None:
    """Each batch in a segment of its own, and an empty one at the end."""
    for pairs in batches:
        put(log, *pairs)
        log.roll(NOW)
