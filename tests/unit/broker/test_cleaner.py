"""Compaction, driven: what becomes of it when the log changes, the worker dies, the disk fails or the node stops."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future
from typing import Any

import pytest

from bifrost.broker.cleaner import Cleaner
from bifrost.clock import SystemClock
from bifrost.errors import DiskFullError, StorageError
from bifrost.log.cleaning import worker
from bifrost.log.memory_disk import MemoryFile
from bifrost.log.scan import REMEDY
from bifrost.metrics import Metrics
from bifrost.protocol.batch import read_header
from bifrost.protocol.compression import Codec
from bifrost.protocol.records import encode_batch
from tests.unit.broker.hosting import Hosting
from tests.unit.broker.stand_ins import on_loop
from tests.unit.log.batches import NOW, read_records
from tests.unit.log.cleaning import nonsense

DAMAGED = "log is damaged"
TOO_LARGE = "too large to look into"
Hook = Callable[[str], None]


class Inline(Executor):
    """A worker that does its work at once, and tells what comes next."""

    def __init__(self, before: Hook) -> None:
        self._before = before
        self.is_over = False

    def submit(self, work: Any, /, *arguments: Any, **named: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            self._before(work.__name__)
            done.set_result(work(*arguments, **named))
        except Exception as error:  # noqa: BLE001  # as a process hands it over
            done.set_exception(error)
        return done

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self.is_over = True


class Scene:
    """A compacted topic with three segments to clean, and whatever is to happen meanwhile."""

    def __init__(self, hosting: Hosting, before: Hook = lambda _: None, looks: int = 1) -> None:
        self.hosting = hosting
        self.errors: list[StorageError] = []
        self.looks = looks
        self.pools: list[Inline] = []
        self._before = before
        self.metrics = Metrics()
        self.cleaner = Cleaner(
            hosting.disk,
            hosting.logs,
            hosting.replicas,
            hosting.live,
            SystemClock(),
            self.errors.append,
            self._pool,
            self.metrics,
        )

    def _pool(self) -> Executor:
        self.pools.append(Inline(self._before))
        return self.pools[-1]

    async def run(self) -> None:
        await self.cleaner.run(self._stops_within)
        assert all(pool.is_over for pool in self.pools)
        assert worker._under_way == {}

    async def _stops_within(self, seconds: float) -> bool:
        await asyncio.sleep(0)
        if seconds > 1:  # a pause between two looks
            self.looks -= 1
        return self.looks < 0


def fill(hosting: Hosting, name: str = "orders", first: bytearray | None = None) -> None:
    number = 100 + len(hosting.image.topics)
    hosting.create(name, number=number, cleanup_policy="compact", internal_segment_bytes="150")
    partition = hosting.partition(name)
    if first is not None:  # written as it came while the topic was not compacted, say
        partition.log.append(memoryview(first), read_header(first), leader_epoch=0, now_ms=NOW)
    for number in range(4):
        batch = memoryview(encode_batch([(NOW, b"key", b"%d" % number * 40, ())]))
        partition.append(batch, acks=-1, api_version=9, transactional_id=None, now_ms=NOW, opened=True)
    partition.log.flush()


def oversized() -> bytearray:
    return bytearray(encode_batch([(NOW, b"key", bytes(1 << 18), ())], codec=Codec.ZSTD))


def offsets(hosting: Hosting, name: str = "orders") -> list[int]:
    return [record.offset for record in read_records(hosting.partition(name).log)]


@on_loop
async def test_the_last_record_of_a_key_is_left_and_it_is_remembered_how_far() -> None:
    hosting = await Hosting.start()
    fill(hosting)
    await Scene(hosting).run()
    assert offsets(hosting) == [2, 3]
    assert b"orders 0 3\n" in hosting.disk.read_bytes("/data/cleaner-offset-checkpoint")
    await hosting.stop()
    again = await Hosting.start(hosting.disk, hosting.image)
    assert again.partition("orders").log.first_dirty_offset == 3
    assert offsets(again) == [2, 3]


@on_loop
async def test_nothing_is_done_where_the_settings_say_so() -> None:
    hosting = await Hosting.start()
    fill(hosting)
    hosting.live.now = type(hosting.live.now)(log_cleaner_enable=False)
    scene = Scene(hosting)
    await scene.run()
    assert (offsets(hosting), scene.pools) == ([0, 1, 2, 3], [])


@on_loop
async def test_a_topic_that_is_deleted_meanwhile_ends_its_cleaning() -> None:
    hosting = await Hosting.start()
    fill(hosting)
    steps = 0

    def before(work: str) -> None:
        nonlocal steps
        steps += work == "advance"
        if steps == 2 and hosting.logs.partitions:
            hosting.delete("orders")

    scene = Scene(hosting, before)
    await scene.run()
    assert (hosting.folders(), scene.errors) == ([], [])


@on_loop
async def test_a_log_that_is_cut_meanwhile_keeps_its_segments() -> None:
    hosting = await Hosting.start()
    fill(hosting)
    log = hosting.partition("orders").log

    def before(work: str) -> None:
        if work == "advance" and log.log_end_offset == 4:
            log.truncate_to(2)

    scene = Scene(hosting, before)
    await scene.run()
    assert (offsets(hosting), scene.errors) == ([0, 1], [])
    assert log.first_dirty_offset == 0
    assert not [name for name in hosting.disk.listdir(log.directory) if name.endswith(".cleaned")]


@on_loop
async def test_a_worker_that_dies_is_replaced_at_the_next_look() -> None:
    hosting = await Hosting.start()
    fill(hosting)
    deaths = 0

    def before(work: str) -> None:
        nonlocal deaths
        if work == "advance" and not deaths:
            deaths += 1
            raise BrokenExecutor("killed")

    scene = Scene(hosting, before, looks=2)
    await scene.run()
    assert (offsets(hosting), scene.errors, len(scene.pools)) == ([2, 3], [], 2)


@on_loop
async def test_a_log_that_ends_its_worker_twice_does_not_keep_others_from_being_cleaned(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hosting = await Hosting.start()
    fill(hosting)
    fill(hosting, "sound")
    partition, works = hosting.partition("orders"), []

    def before(work: str) -> None:
        if work == "advance" and partition in scene.cleaner._being_cleaned:
            works.append(work)
            raise BrokenExecutor("killed")

    scene = Scene(hosting, before, looks=5)
    await scene.run()
    assert (offsets(hosting, "sound"), offsets(hosting), scene.errors) == ([2, 3], [0, 1, 2, 3], [])
    assert len(works) == 2
    assert scene.metrics.uncleanable_partitions == 1
    assert "its worker always ends partition=orders-0" in caplog.text


@on_loop
async def test_a_bug_in_one_cleaning_leaves_one_log_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    hosting = await Hosting.start()
    fill(hosting)
    fill(hosting, "sound")
    partition = hosting.partition("orders")

    def before(work: str) -> None:
        if work == "advance" and partition in scene.cleaner._being_cleaned:
            raise struct.error("int too large to convert")

    scene = Scene(hosting, before, looks=3)
    await scene.run()
    assert (offsets(hosting, "sound"), offsets(hosting), scene.errors) == ([2, 3], [0, 1, 2, 3], [])
    assert scene.metrics.uncleanable_partitions == 1
    assert "that met a bug partition=orders-0" in caplog.text
    assert "Traceback" in caplog.text
    hosting.delete("orders")
    scene.looks = 1
    await scene.run()
    assert scene.metrics.uncleanable_partitions == 0


@pytest.mark.parametrize(("first", "words"), [(nonsense, DAMAGED), (oversized, TOO_LARGE)])
@on_loop
async def test_a_batch_that_nobody_can_open_leaves_its_log_as_it_is(
    first: Callable[[], bytearray], words: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bifrost.log.cleaning.filter.DECOMPRESSED_BYTES_MAX", 1 << 18)
    hosting = await Hosting.start()
    fill(hosting, first=first())
    fill(hosting, "sound")
    scene = Scene(hosting, looks=2)
    await scene.run()
    assert (offsets(hosting, "sound"), scene.errors) == ([2, 3], [])
    assert words in caplog.text
    assert (REMEDY in caplog.text) == (words == DAMAGED)
    assert scene.metrics.uncleanable_partitions == 1


@on_loop
async def test_a_full_disk_is_waited_out_and_a_broken_one_is_reported() -> None:
    for error, reported in ((DiskFullError("/data/x", "full"), []), (StorageError("/data/x", "gone"), ["/data/x"])):
        hosting = await Hosting.start()
        fill(hosting)

        def fails(path: str, error: StorageError = error) -> StorageError | None:
            return error if path.endswith(".cleaned") else None

        hosting.disk.fails = fails
        scene = Scene(hosting)
        await scene.run()
        assert offsets(hosting) == [0, 1, 2, 3]
        assert [each.path for each in scene.errors] == reported


@on_loop
async def test_a_damaged_log_is_left_alone_and_others_are_cleaned() -> None:
    hosting = await Hosting.start()
    fill(hosting)
    fill(hosting, "sound")
    file = hosting.disk.open("/data/orders-0/" + "0" * 20 + ".log")
    assert isinstance(file, MemoryFile)
    file.write_at(b"!", file.size() - 2)
    scene = Scene(hosting, looks=3)
    await scene.run()
    assert offsets(hosting, "sound") == [2, 3]
    assert hosting.partition("orders").log.first_dirty_offset == 0
    assert (scene.errors, len(scene.pools)) == ([], 1), "it is not tried again"


@on_loop
async def test_a_node_that_stops_does_not_wait_for_the_end_of_a_cleaning() -> None:
    hosting = await Hosting.start()
    fill(hosting)
    scene = Scene(hosting)

    def before(work: str) -> None:
        if work == "advance":
            scene.looks = -1

    scene._before = before
    await scene.run()
    assert offsets(hosting) == [0, 1, 2, 3]
