"""All logs of a node: found at start, placed, deleted, lost with their directory, stored at stop."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from pathlib import Path
from random import Random
from uuid import UUID

import pytest

from bifrost.errors import StorageError
from bifrost.log import startup
from bifrost.log.config import FlushPolicy, LogConfig
from bifrost.log.disk import DirectoryInUseError, Disk
from bifrost.log.log_directory import ForeignDirectoryError, LogDirectory
from bifrost.log.manager import LogManager
from bifrost.log.memory_disk import MemoryDisk
from bifrost.log.real_disk import RealDisk
from bifrost.types import TopicPartition
from tests.sim.disk import FaultyDisk
from tests.unit.log.batches import NOW, append, values_of

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
IDS = {A0: UUID(int=1), A1: UUID(int=1), B0: UUID(int=2)}


class FixedClock:
    def now_ms(self) -> int:
        return NOW


def manager(disk: Disk, directories: Sequence[str] = ("/data",), **options: object) -> LogManager:
    defaults: dict[str, object] = {
        "loop": asyncio.get_running_loop(),
        "clock": FixedClock(),
        "rng": Random(1),
        "cluster_id": "cluster",
        "node_id": 1,
        "config_for": lambda _: LogConfig(segment_bytes=400),
    }
    homes = [LogDirectory(disk, path) for path in directories]
    return LogManager(disk, homes, **(defaults | options))  # type: ignore[arg-type]


async def loaded(disk: Disk, directories: Sequence[str] = ("/data",), **options: object) -> LogManager:
    logs = manager(disk, directories, **options)
    await logs.load()
    return logs


def create(logs: LogManager, *partitions: TopicPartition) -> None:
    for partition in partitions:
        logs.create(partition, IDS[partition], LogConfig())


def found(logs: LogManager, partition: TopicPartition) -> list[bytes | None]:
    log = logs.get(partition)
    assert log is not None
    return values_of(log)


async def test_a_new_directory_is_claimed() -> None:
    disk = MemoryDisk()
    logs = await loaded(disk)
    meta = disk.read_bytes("/data/meta.properties").decode()
    assert meta.splitlines()[0] == "cluster.id=cluster"
    assert meta.splitlines()[2:] == ["node.id=1", "version=1"]
    directory_id = logs.directories[0].directory_id
    await logs.close()
    assert (await loaded(disk, rng=Random(99))).directories[0].directory_id == directory_id


@pytest.mark.parametrize(
    "content", ["cluster.id=other\nnode.id=1\nversion=1\n", "cluster.id=cluster\nnode.id=2\nversion=1\n", "version=7\n"]
)
async def test_a_foreign_directory_is_refused(content: str) -> None:
    disk = MemoryDisk()
    disk.makedirs("/data")
    disk.write_atomic("/data/meta.properties", content.encode())
    with pytest.raises(ForeignDirectoryError):
        await loaded(disk, ("/first", "/data"))
    await loaded(disk, ("/first",))


async def test_a_directory_serves_one_node() -> None:
    disk = MemoryDisk()
    await loaded(disk)
    with pytest.raises(DirectoryInUseError):
        await loaded(disk)


async def test_logs_are_found_again_after_a_clean_stop() -> None:
    disk = FaultyDisk(Random(1))
    logs = await loaded(disk)
    create(logs, A0, A1, B0)
    for number in range(10):
        append(logs.get(A0), b"v%d" % number, producer_id=7, sequence=number)  # type: ignore[arg-type]
    await logs.close(broker_epoch=33)
    assert disk.read_bytes("/data/.kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":33}'
    assert disk.read_bytes("/data/recovery-point-offset-checkpoint") == b"0\n3\na 0 10\na 1 0\nb 0 0\n"
    disk.crash()
    logs = await loaded(disk)
    assert logs.directories[0].broker_epoch == 33
    assert logs.partitions == [A0, A1, B0]
    assert found(logs, A0) == [b"v%d" % number for number in range(10)]
    assert [logs.get(partition).topic_id for partition in (A0, A1, B0)] == [IDS[A0], IDS[A1], IDS[B0]]  # type: ignore[union-attr]
    assert not disk.exists("/data/.kafka_cleanshutdown"), "the next stop has to be clean again"
    assert append(logs.get(A0), b"v9", producer_id=7, sequence=9).duplicate  # type: ignore[arg-type]


async def test_acknowledged_writes_survive_a_crash() -> None:
    for seed in range(20):
        disk = FaultyDisk(Random(seed))
        logs = await loaded(disk)
        create(logs, A0, B0)
        log = logs.get(A0)
        assert log is not None
        heard = asyncio.Event()
        log.on_durable = lambda _, heard=heard: heard.set()
        for number in range(8):
            append(log, b"v%d" % number)
        await heard.wait()
        acknowledged = log.durable_offset
        append(log, b"unsafe")
        disk.crash()
        logs = await loaded(disk)
        assert acknowledged == 8
        assert found(logs, A0)[:8] == [b"v%d" % number for number in range(8)]
        survivor = logs.get(A0)
        assert survivor is not None
        assert survivor.topic_id == IDS[A0]


async def test_what_is_recovered_is_safe() -> None:
    """After the end of a process its unsynced bytes are let in, and synced before anybody may build on them."""
    for seed in range(10):
        disk = FaultyDisk(Random(seed))
        logs = await loaded(disk, policy=FlushPolicy.OS)
        create(logs, A0)
        append(logs.get(A0), b"a")  # type: ignore[arg-type]
        disk.crash(power=False)
        logs = await loaded(disk)
        disk.crash(power=True)
        assert found(await loaded(disk), A0) == [b"a"]


async def test_new_partitions_go_where_the_fewest_are() -> None:
    disk = MemoryDisk()
    logs = await loaded(disk, ("/one", "/two", "/three"), cordoned=("/three",))
    create(logs, A0, A1, B0)
    assert [len(disk.directories(path)) for path in ("/one", "/two", "/three")] == [2, 1, 0]
    logs.placing.cordoned |= {"/one", "/two"}
    with pytest.raises(StorageError, match="takes new partitions"):
        logs.create(TopicPartition("a", 2), IDS[A0], LogConfig())
    await logs.close()
    logs = await loaded(disk, ("/one", "/two", "/three"))
    assert sorted(logs.partitions) == [A0, A1, B0]


async def test_a_partition_in_two_directories_is_an_error() -> None:
    disk = MemoryDisk()
    for path in ("/one/a-0", "/two/a-0"):
        disk.makedirs(path)
    with pytest.raises(ForeignDirectoryError, match="in another directory too"):
        await loaded(disk, ("/one", "/two"))


@pytest.mark.parametrize("of_the_topic", ["/one", "/two"])
async def test_of_two_directories_of_a_partition_the_one_of_another_topic_is_stray(of_the_topic: str) -> None:
    """So it looks after a deletion whose rename was lost, when the topic was made again elsewhere."""
    disk = MemoryDisk()
    for path in ("/one", "/two"):
        logs = await loaded(disk, (path,))
        logs.create(A0, UUID(int=1 if path == of_the_topic else 9), LogConfig())
        await logs.close()
    logs = await loaded(disk, ("/one", "/two"), topic_id_for=lambda _: UUID(int=1))
    log = logs.get(A0)
    assert log is not None
    assert log.directory == f"{of_the_topic}/a-0"
    names = {path: disk.directories(path) for path in ("/one", "/two")}
    assert names.pop(of_the_topic) == ["a-0"]
    ((stray,),) = names.values()
    assert stray.endswith("-stray")


async def test_names_never_lead_out() -> None:
    logs = await loaded(MemoryDisk())
    with pytest.raises(AssertionError):
        logs.create(TopicPartition("../evil", 0), UUID(int=1), LogConfig())


async def wait_until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - what is waited for happens on a disk, and disks have no events
        await asyncio.sleep(0.001)


async def wait_until_gone(disk: Disk, suffix: str) -> None:
    await wait_until(lambda: not any(name.endswith(suffix) for name in disk.directories("/data")))


async def test_a_deleted_partition_is_renamed_and_removed_later() -> None:
    disk = MemoryDisk()
    logs = await loaded(disk, file_delete_delay_ms=1)
    create(logs, A0, A1)
    log = logs.get(A0)
    assert log is not None
    append(log, b"a")
    reading = log.read(0, 100, end_offset=1, min_one_batch=True)
    logs.delete(A0)
    assert logs.get(A0) is None
    (renamed, kept) = disk.directories("/data")
    assert renamed.startswith("a-0.")
    assert renamed.endswith("-delete")
    assert kept == "a-1"
    assert reading is not None
    assert len(reading.file.read_at(reading.size, reading.position)) == reading.size, "a reader can finish"
    create(logs, A0)
    assert found(logs, A0) == []
    await wait_until_gone(disk, "-delete")
    assert disk.directories("/data") == ["a-0", "a-1"]


async def test_a_deletion_that_was_interrupted_is_finished_at_start() -> None:
    disk = MemoryDisk()
    logs = await loaded(disk)
    create(logs, A0)
    logs.delete(A0)
    await logs.close()
    assert len(disk.directories("/data")) == 1
    logs = await loaded(disk)
    assert logs.partitions == []
    await wait_until_gone(disk, "-delete")


async def test_files_of_a_deleted_partition_may_be_removed_by_hand() -> None:
    disk = MemoryDisk()
    lost: list[str] = []
    logs = await loaded(disk, file_delete_delay_ms=0, on_offline=lambda path, _: lost.append(path))
    create(logs, A0)
    logs.delete(A0)
    disk.remove_tree(f"/data/{disk.directories('/data')[0]}")
    create(logs, A1)
    log = logs.get(A1)
    assert log is not None
    append(log, b"a")
    await wait_until(lambda: log.durable_offset == 1)
    assert lost == []


@pytest.mark.parametrize("seed", range(30))
async def test_what_is_stored_of_a_deleted_partition_is_not_believed_of_a_new_one(seed: int) -> None:
    """Its recovery point would spare the new log's first segments a look after a crash."""
    disk = FaultyDisk(Random(seed), forget_names=False)
    logs = await loaded(disk, policy=FlushPolicy.OS)
    log = logs.create(A0, UUID(int=1), LogConfig(segment_bytes=400))
    for number in range(20):
        append(log, b"%d" % number * 60)
    await wait_until(lambda: log.recovery_point == 20)
    await logs.checkpoint()
    logs.delete(A0)
    log = logs.create(A0, UUID(int=2), LogConfig(segment_bytes=400))
    written = [b"%d" % number * 50 for number in range(100, 110)]
    for value in written:
        append(log, value)
    disk.crash()
    disk.fail_on = lambda *_: True  # for whatever the dead node still tries
    await wait_until(lambda: bool(logs.offline))
    disk.fail_on = None
    disk.crash()
    kept = found(await loaded(disk), A0)
    assert kept == written[: len(kept)]


async def test_a_log_that_is_set_aside_keeps_its_files_and_its_name_is_free(caplog: pytest.LogCaptureFixture) -> None:
    disk = MemoryDisk()
    logs = await loaded(disk, file_delete_delay_ms=0)
    create(logs, A0)
    log = logs.get(A0)
    assert log is not None
    append(log, b"a")
    logs.set_aside(A0, "unknown to the metadata")
    assert "reason='unknown to the metadata'" in caplog.text
    create(logs, A0)
    assert found(logs, A0) == []
    await logs.close()
    caplog.clear()
    logs = await loaded(disk)
    (kept, stray) = disk.directories("/data")
    assert (kept, logs.partitions) == ("a-0", [A0])
    assert f"directory=/data count=1 first={stray}" in caplog.text
    await logs.close()
    disk.remove_tree("/data/a-0")
    disk.rename(f"/data/{stray}", "/data/a-0")
    assert found(await loaded(disk), A0) == [b"a"], "an operator can take it back"


async def test_a_log_in_a_failed_directory_can_be_neither_deleted_nor_set_aside() -> None:
    logs = await loaded(MemoryDisk())
    create(logs, A0)
    logs.take_offline(StorageError("/data/a-0", "input/output error"))
    for attempt in (lambda: logs.delete(A0), lambda: logs.set_aside(A0, "")):
        with pytest.raises(StorageError, match="offline"):
            attempt()


async def test_other_things_in_a_log_directory_are_left_alone() -> None:
    disk = MemoryDisk()
    for name in ("lost+found", "__cluster_metadata-0", "a-0.1f-future", "a-0.2e-stray", "remote-log-index-cache"):
        disk.makedirs(f"/data/{name}")
    disk.open("/data/b-0", create=True)
    logs = await loaded(disk)
    assert logs.partitions == []
    assert len(disk.directories("/data")) == 5


async def test_a_failed_sync_takes_the_directory_offline_and_no_other() -> None:
    disk = FaultyDisk(Random(1))
    lost: list[str] = []
    logs = await loaded(disk, ("/one", "/two"), on_offline=lambda path, _: lost.append(path))
    create(logs, A0, A1)
    log = logs.get(A0)
    assert log is not None
    disk.fail_on = lambda operation, path: operation == "sync" and path.startswith("/one")
    append(log, b"a")
    await wait_until(lambda: bool(lost))
    assert lost == ["/one"]
    assert list(logs.offline) == ["/one"]
    assert log.durable_offset == 0
    with pytest.raises(StorageError, match="offline"):
        logs.get(A0)
    assert found(logs, A1) == []
    assert logs.partitions == [A1]
    await logs.close()
    assert disk.exists("/two/.kafka_cleanshutdown")
    assert not disk.exists("/one/.kafka_cleanshutdown")


async def test_a_directory_that_cannot_be_read_is_offline_from_the_start() -> None:
    disk = FaultyDisk(Random(1))
    logs = await loaded(disk, ("/one", "/two"))
    create(logs, A0, A1)
    await logs.close()
    disk.fail_on = lambda operation, path: operation == "open" and path.startswith("/one/a-0/")
    logs = await loaded(disk, ("/one", "/two"))
    assert list(logs.offline) == ["/one"]
    assert logs.partitions == [A1]


async def test_a_stop_that_fails_leaves_the_directory_unclean() -> None:
    disk = FaultyDisk(Random(1))
    logs = await loaded(disk)
    create(logs, A0)
    disk.fail_on = lambda operation, _: operation == "sync_filesystem"
    await logs.close()
    assert not disk.exists("/data/.kafka_cleanshutdown")
    disk.fail_on = None
    assert (await loaded(disk)).partitions == [A0]


async def test_checkpoints() -> None:
    disk = MemoryDisk()
    logs = await loaded(disk)
    create(logs, A0, B0)
    log = logs.get(A0)
    assert log is not None
    append(log, b"a", b"b", b"c")
    log.flush()
    log.advance_log_start(2)
    await logs.checkpoint()
    await logs.checkpoint_high_watermarks({A0: 3, TopicPartition("elsewhere", 0): 9})
    assert disk.read_bytes("/data/recovery-point-offset-checkpoint") == b"0\n2\na 0 3\nb 0 0\n"
    assert disk.read_bytes("/data/log-start-offset-checkpoint") == b"0\n1\na 0 2\n"
    assert disk.read_bytes("/data/replication-offset-checkpoint") == b"0\n1\na 0 3\n"
    await logs.close()
    logs = await loaded(disk)
    assert logs.high_watermarks == {A0: 3}
    log = logs.get(A0)
    assert log is not None
    assert log.log_start_offset == 2


async def test_unreadable_checkpoints_cost_a_full_recovery() -> None:
    disk = MemoryDisk()
    logs = await loaded(disk)
    create(logs, A0)
    append(logs.get(A0), b"a")  # type: ignore[arg-type]
    await logs.close()
    disk.write_atomic("/data/recovery-point-offset-checkpoint", b"garbage")
    assert found(await loaded(disk), A0) == [b"a"]


async def test_a_checkpoint_that_cannot_be_written_takes_the_directory_offline() -> None:
    disk = FaultyDisk(Random(1))
    logs = await loaded(disk)
    create(logs, A0)
    disk.fail_on = lambda operation, path: operation == "write" and "checkpoint" in path
    await logs.checkpoint()
    assert list(logs.offline) == ["/data"]


async def test_an_unchanged_checkpoint_is_not_written_again() -> None:
    disk = FaultyDisk(Random(1))
    logs = await loaded(disk)
    create(logs, A0)
    await logs.checkpoint()
    disk.fail_on = lambda operation, _: operation == "write"
    await logs.checkpoint()
    assert logs.offline == {}


async def test_idle_producers_expire_everywhere() -> None:
    logs = await loaded(MemoryDisk())
    create(logs, A0)
    log = logs.get(A0)
    assert log is not None
    append(log, b"a", producer_id=7, timestamp=NOW - 25 * 3_600_000)
    logs.expire_producers()
    assert log.producers.entries == {}


async def test_log_directories_may_be_relative(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    logs = await loaded(RealDisk(), ("deep/er", "./flat"))
    create(logs, A0, A1)
    await logs.close()
    logs = await loaded(RealDisk(), ("deep/er", "./flat"))
    assert sorted(logs.partitions) == [A0, A1]
    await logs.close()


@pytest.mark.parametrize("pooled", [True, False])
async def test_big_recoveries_leave_the_loop(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, pooled: bool) -> None:
    monkeypatch.setattr(startup, "INLINE_BYTES_MAX", 300)
    logs = await loaded(RealDisk(), (str(tmp_path),))
    create(logs, A0, A1, B0)
    for partition, count in ((A0, 10), (A1, 20), (B0, 1)):
        for number in range(count):
            append(logs.get(partition), b"v%d" % number)  # type: ignore[arg-type]
        logs.get(partition).flush()  # type: ignore[union-attr]
    for home in logs.directories:
        home.release()
    pools: list[Executor] = []

    def pool() -> Executor:
        pools.append(ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")))
        return pools[-1]

    logs = await loaded(RealDisk(), (str(tmp_path),), recovery_pool=pool if pooled else None)
    assert [len(found(logs, partition)) for partition in (A0, A1, B0)] == [10, 20, 1]
    assert len(pools) == pooled
    await logs.close()


async def test_a_start_waits_for_all_its_recoveries_also_when_some_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """What still worked on a log in a thread would do so beside whoever opens it next."""
    monkeypatch.setattr(startup, "INLINE_BYTES_MAX", 0)
    disk = FaultyDisk(Random(1))
    logs = await loaded(disk)
    create(logs, A0, A1, B0)
    for partition in (A0, A1, B0):
        log = logs.get(partition)
        assert log is not None
        append(log, b"value")
        log.flush()
    disk.crash(power=False)
    running: list[str] = []
    wait_until_others_failed = threading.Event()  # which nobody tells: the time that it waits is what matters
    real = startup.recover

    def recover(disk: Disk, directory: str, *args: object, **options: object) -> object:
        running.append(directory)
        if directory.endswith("a-1"):
            wait_until_others_failed.wait(0.05)
        try:
            return real(disk, directory, *args, **options)  # type: ignore[arg-type]
        finally:
            running.remove(directory)

    monkeypatch.setattr(startup, "recover", recover)
    disk.fail_on = lambda operation, path: operation == "write" and "/a-" in path
    unhandled: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
    logs = await loaded(disk)
    assert list(logs.offline) == ["/data"]
    assert running == []
    del logs
    gc.collect()
    assert unhandled == []


def descriptors() -> int:
    """Open files of this process, 0 where the system does not tell."""
    return len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0


async def test_thousands_of_segments_need_few_descriptors(tmp_path: Path) -> None:
    disk = RealDisk()
    config = LogConfig(segment_bytes=100)
    logs = await loaded(disk, (str(tmp_path),), config_for=lambda _: config, open_files_max=8)
    log = logs.create(A0, IDS[A0], config)
    for number in range(60):
        append(log, b"v%d" % number)
    log.flush()
    before = descriptors()
    assert values_of(log) == [b"v%d" % number for number in range(60)]
    assert descriptors() <= before + 8
    await logs.close()


async def test_nothing_is_written_for_logs_that_did_not_change() -> None:
    disk = FaultyDisk(Random(1))
    logs = await loaded(disk)
    create(logs, A0)
    append(logs.get(A0), b"a")  # type: ignore[arg-type]
    await logs.close()
    logs = await loaded(disk)
    disk.fail_on = lambda operation, path: operation in ("write", "truncate") and "/a-0/" in path
    await logs.close()
    assert disk.exists("/data/.kafka_cleanshutdown")


def lose_a_tail(disk: Disk) -> None:
    """The second of three segments of two records each ends early."""
    disk.open("/data/a-0/00000000000000000002.log").truncate(0)


@pytest.mark.parametrize("is_clean", [True, False])
async def test_gaps_of_a_log_that_was_copied_in_stay(is_clean: bool, caplog: pytest.LogCaptureFixture) -> None:
    """Kafka's cleaner left them, while the topic was compacted; its policy may be another by now."""
    disk = MemoryDisk()
    logs = await loaded(disk)
    log = logs.create(A0, IDS[A0], LogConfig(segment_bytes=150))
    for number in range(6):
        append(log, b"v%d" % number)
    await logs.close()
    lose_a_tail(disk)
    disk.write_atomic("/data/recovery-point-offset-checkpoint", b"0\n0\n")
    if not is_clean:
        disk.remove("/data/.kafka_cleanshutdown")
    assert found(await loaded(disk), A0) == [b"v0", b"v1", b"v4", b"v5"]
    assert "log cut" not in caplog.text


async def test_a_lost_tail_of_a_log_that_the_checkpoint_has_ends_it() -> None:
    """What the policy says does not matter: this node's own compaction leaves no gaps."""
    disk = FaultyDisk(Random(1))
    logs = await loaded(disk)
    log = logs.create(A0, IDS[A0], LogConfig(segment_bytes=150))
    await logs.checkpoint()
    for number in range(6):
        append(log, b"v%d" % number)
    log.flush()
    disk.crash(power=False)
    lose_a_tail(disk)
    assert found(await loaded(disk), A0) == [b"v0", b"v1"]


async def test_a_log_that_the_checkpoint_may_not_have_is_safe_before_its_next_segment() -> None:
    """Its recovery would keep gaps, so there must be none."""
    disk = FaultyDisk(Random(1))
    synced: list[str] = []
    disk.fail_on = lambda operation, path: operation == "sync" and synced.append(path) is not None
    logs = await loaded(disk)
    log = logs.create(A0, IDS[A0], LogConfig(segment_bytes=150))
    assert logs.has_unlisted
    for number in range(3):
        append(log, b"v%d" % number)
    assert "/data/a-0/00000000000000000000.log" in synced
    log.flush()
    await logs.checkpoint()
    assert not logs.has_unlisted
    for number in range(4):
        append(log, b"v%d" % number)
    assert "/data/a-0/00000000000000000002.log" in synced
    assert "/data/a-0/00000000000000000004.log" not in synced
