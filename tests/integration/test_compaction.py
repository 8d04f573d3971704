"""Topics that are compacted, under real clients: what is left, over restarts, and who is not disturbed by it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from bifrost.cli.workers import patient_worker
from bifrost.testing import Cluster
from tests.waiting import eventually

QUICK = {
    "log_cleaner_backoff_ms": 50,
    "log_segment_delete_delay_ms": 0,
    "log_retention_check_interval_ms": 100,
    "log_initial_task_delay_ms": 100,
}
COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "internal.segment.bytes": "2000",
    "delete.retention.ms": "0",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(data_dir=tmp_path_factory.mktemp("cluster") / "data", **QUICK) as running:
        yield running


def create(cluster: Cluster, name: str, replicas: int = 1, **configs: str) -> str:
    wanted = {**COMPACTED, **{key.replace("_", "."): value for key, value in configs.items()}}
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    new = NewTopic(name, num_partitions=1, replication_factor=replicas, config=wanted)
    for future in admin.create_topics([new]).values():
        future.result()
    return name


def write(
    cluster: Cluster, topic: str, pairs: list[tuple[str, str | None]], codec: str = "none", **config: str
) -> None:
    settings = {"bootstrap.servers": cluster.bootstrap, "compression.type": codec, "batch.num.messages": 10, **config}
    producer = Producer(settings)
    errors = []
    for key, value in pairs:
        producer.produce(topic, key=key, value=value, on_delivery=lambda error, _: errors.append(error))
        producer.poll(0)
    assert producer.flush(30) == 0
    assert set(errors) == {None}


def read(cluster: Cluster, topic: str) -> list[tuple[int, str, str | None]]:
    """From the beginning to the end, as they come."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "check.crcs": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    try:
        while True:
            message = consumer.poll(10)
            assert message is not None, "neither a record nor the end"
            if message.error() is not None:
                return found
            key, value = message.key(), message.value()
            assert key is not None
            found.append((message.offset(), key.decode(), None if value is None else value.decode()))
    finally:
        consumer.close()


def filler(cluster: Cluster, topic: str) -> None:
    """Ends the active segment, so that what was in it can be cleaned."""
    write(cluster, topic, [("filler", "x" * 700)] * 2)


def clean(cluster: Cluster, topic: str, is_clean: Callable[[list[tuple[int, str, str | None]]], bool]) -> None:
    def looks_clean() -> bool:
        filler(cluster, topic)
        return is_clean([each for each in read(cluster, topic) if each[1] != "filler"])

    eventually(looks_clean, "the log is clean")


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_the_last_value_of_each_key_is_left(cluster: Cluster, codec: str) -> None:
    topic = create(cluster, f"last-{codec}")
    pairs = [(f"key-{number % 7}", f"value-{number}" * 5) for number in range(300)]
    write(cluster, topic, pairs, codec)
    expected = [(offset, *pair) for offset, pair in enumerate(pairs)][-7:]
    clean(cluster, topic, lambda left: len(left) == 7)
    assert [each for each in read(cluster, topic) if each[1] != "filler"] == expected, "in order, where they were"
    directory = cluster.node_dir(0)
    eventually(lambda: f"{topic} 0 " in (directory / "cleaner-offset-checkpoint").read_text())
    eventually(lambda: not list((directory / f"{topic}-0").glob("*.deleted")))
    assert not list((directory / f"{topic}-0").glob("*.cleaned"))
    assert not list((directory / f"{topic}-0").glob("*.swap"))


def test_tombstones_go_and_take_their_keys_along(cluster: Cluster) -> None:
    topic = create(cluster, "tombstones")
    write(cluster, topic, [(f"key-{number}", "x" * 50) for number in range(40)])
    write(cluster, topic, [(f"key-{number}", None) for number in range(30)])
    clean(cluster, topic, lambda left: [key for _, key, _ in left] == [f"key-{number}" for number in range(30, 40)])


def test_an_idempotent_producer_goes_on(cluster: Cluster) -> None:
    """Its last batch is superseded and its sequence is not, over a cleaning and a restart."""
    topic = create(cluster, "idempotent")
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
    producer.produce(topic, key="a", value="1")
    assert producer.flush(10) == 0
    write(cluster, topic, [("a", "2")] * 60)
    clean(cluster, topic, lambda left: len(left) == 1)
    cluster.restart(0)
    producer.produce(topic, key="b", value="3")
    assert producer.flush(20) == 0
    assert [value for _, key, value in read(cluster, topic) if key == "b"] == ["3"]


def test_what_is_both_compacted_and_deleted_loses_old_segments(cluster: Cluster) -> None:
    topic = create(cluster, "both", cleanup_policy="compact,delete", retention_ms="600000")
    old = int(time.time() * 1000) - 3_600_000
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "batch.num.messages": 1})
    for number in range(30):
        producer.produce(topic, key=f"{number}", value="x" * 200, timestamp=old)
    producer.flush()
    filler(cluster, topic)
    eventually(lambda: all(key == "filler" for _, key, _ in read(cluster, topic)), "old keys are gone")


def test_groups_load_from_a_compacted_offsets_topic(tmp_path: Path) -> None:
    settings = {**QUICK, "offsets_topic_num_partitions": 1, "log_cleaner_min_cleanable_ratio": 0.01}
    with Cluster(data_dir=tmp_path / "data", **settings) as cluster:
        topic = create(cluster, "read-by-a-group")
        write(cluster, topic, [("a", "1")] * 50)
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "g", "enable.auto.commit": False})
        place = TopicPartition(topic, 0, 0)

        def commit(offset: int) -> None:
            consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)

        commit(0)
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        small = ConfigResource(ConfigResource.Type.TOPIC, "__consumer_offsets")
        small.add_incremental_config(ConfigEntry("segment.ms", "50", incremental_operation=AlterConfigOpType.SET))
        for future in admin.incremental_alter_configs([small]).values():
            future.result()
        directory = cluster.node_dir(0) / "__consumer_offsets-0"

        def cleaned() -> bool:
            for offset in range(1, 41):
                commit(offset)
            checkpoint = cluster.node_dir(0) / "cleaner-offset-checkpoint"
            return checkpoint.exists() and "__consumer_offsets 0 " in checkpoint.read_text()

        eventually(cleaned, "the offsets topic is clean")
        size = sum(path.stat().st_size for path in directory.glob("*.log"))
        assert size < 40_000, "far less than all commits"
        consumer.close()
        cluster.restart(0)
        again = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "g"})
        (found,) = again.committed([place], timeout=20)
        again.close()
        assert found.offset == 40


def test_replicas_clean_for_themselves(tmp_path: Path) -> None:
    with Cluster(3, 1, data_dir=tmp_path / "data", **QUICK) as cluster:
        topic = create(cluster, "copied", replicas=3)
        write(cluster, topic, [(f"{number % 5}", f"{number}" * 30) for number in range(300)], acks="all")
        clean(cluster, topic, lambda left: len(left) == 5)
        before = read(cluster, topic)
        for number in range(3):
            checkpoint = cluster.node_dir(number) / "cleaner-offset-checkpoint"
            eventually(lambda path=checkpoint: path.exists() and f"{topic} 0 " in path.read_text())
        cluster.kill(0)
        eventually(lambda: read(cluster, topic)[: len(before)][:5] == before[:5])


def test_the_worker_gives_way_to_everybody() -> None:
    with patient_worker() as pool:
        assert pool.submit(os.getpriority, os.PRIO_PROCESS, 0).result() == 19
        if hasattr(os, "SCHED_IDLE"):
            assert pool.submit(os.sched_getscheduler, 0).result() == os.SCHED_IDLE
