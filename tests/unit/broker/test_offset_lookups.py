"""ListOffsets by time looks at files in a thread, and a cleaning may put others in their place meanwhile."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from bifrost.broker.handlers.offsets import MAX_TIMESTAMP, _look_up
from bifrost.errors import ApiError, ErrorCode
from bifrost.log import timestamps
from bifrost.log.config import LogConfig
from bifrost.log.memory_disk import MemoryDisk
from bifrost.log.partition_log import PartitionLog
from bifrost.log.segment import Segment
from tests.unit.broker.stand_ins import on_loop
from tests.unit.log.batches import NOW, open_log
from tests.unit.log.cleaning import clean, put

_shown_segments = timestamps._shown_segments


def log_of(disk: MemoryDisk, keys: list[bytes]) -> PartitionLog:
    """One record in each segment, a second after the one before, and larger."""
    log = open_log(disk, LogConfig(compacted=True))
    for number, key in enumerate(keys):
        put(log, (key, b"x" * (100 + 30 * number)), timestamp=NOW + 1000 * number)
        log.roll(NOW)
    return log


async def look_up(log: PartitionLog, timestamp: int) -> timestamps.TimestampAndOffset | None:
    ctx: Any = SimpleNamespace(broker=SimpleNamespace(loop=asyncio.get_running_loop()))
    partition: Any = SimpleNamespace(log=log)
    return await _look_up(ctx, partition, timestamp, log.log_end_offset)


@pytest.mark.parametrize(
    "keys",
    [
        [b"a", b"b", b"c"],  # the files of the second and third segment are gone
        [b"a", b"a", b"c"],  # and the first one's ends inside a batch, as it seems
    ],
)
@pytest.mark.parametrize("wanted", [NOW + 2000, MAX_TIMESTAMP])
@on_loop
async def test_a_cleaning_meanwhile_has_the_log_looked_at_anew(
    keys: list[bytes], wanted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = MemoryDisk()
    log = log_of(disk, keys)
    cleanings = 0

    def shown(log: PartitionLog, start_offset: int) -> list[Segment]:
        nonlocal cleanings
        segments = _shown_segments(log, start_offset)
        if not cleanings:
            cleanings += 1
            clean(log, disk)
        return segments

    monkeypatch.setattr(timestamps, "_shown_segments", shown)
    found = await look_up(log, wanted)
    assert found is not None
    assert (found.offset, found.timestamp_ms) == (2, NOW + 2000)


@on_loop
async def test_damage_stays_damage() -> None:
    disk = MemoryDisk()
    log = log_of(disk, [b"a", b"b"])
    file = disk.open(f"{log.directory}/{0:020d}.log")
    file.write_at(b"\xff", 16)
    with pytest.raises(ApiError) as refused:
        await look_up(log, NOW)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
