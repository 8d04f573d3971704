"""Records that are deleted, by request and by age: on one node and on three, under real clients, over restarts."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, OffsetSpec

from bifrost.errors import ErrorCode
from bifrost.protocol.messages.deletions import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from bifrost.protocol.records import encode_batch
from bifrost.testing import Cluster
from tests.integration.wire import Wire
from tests.waiting import eventually

DAY_MS = 24 * 3_600_000
QUICK = {"log_retention_check_interval_ms": 100, "log_initial_task_delay_ms": 100, "log_segment_delete_delay_ms": 0}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(data_dir=tmp_path_factory.mktemp("cluster") / "data", **QUICK) as running:
        yield running


def batch(*values: bytes, timestamp: int | None = None) -> bytes:
    stamp = int(time.time() * 1000) if timestamp is None else timestamp
    return bytes(encode_batch([(stamp, None, value, ()) for value in values]))


def delete(wire: Wire, topic: str, offset: int, *, partition: int = 0, timeout_ms: int = 20_000) -> tuple[str, int]:
    wanted = DeleteRecordsTopic(
        name=topic, partitions=[DeleteRecordsPartition(partition_index=partition, offset=offset)]
    )
    answer = wire.call(2, DeleteRecordsRequest(topics=[wanted], timeout_ms=timeout_ms))
    (result,) = answer.topics[0].partitions
    return ErrorCode(result.error_code).name, result.low_watermark


def files(directory: Path, suffix: str = ".log") -> list[str]:
    return sorted(path.name for path in directory.iterdir() if path.name.endswith(suffix))


def test_records_are_gone_when_the_answer_comes(wire: Wire, topic: Callable[..., str], cluster: Cluster) -> None:
    name = topic()
    wire.produce(name, batch(b"0", b"1", b"2"))
    wire.produce(name, batch(b"3"))
    assert delete(wire, name, 2) == ("NONE", 2)
    assert wire.fetch(name, 1).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert wire.fetch(name, 2).log_start_offset == 2
    assert [record.value for record in wire.read(name, 2) if record.offset >= 2] == [b"2", b"3"]
    assert wire.produce(name, batch(b"4")).log_start_offset == 2
    assert f"{name} 0 2\n" in (cluster.node_dir(0) / "log-start-offset-checkpoint").read_text()


def test_what_is_refused(wire: Wire, topic: Callable[..., str]) -> None:
    name, compacted = topic(), topic(cleanup_policy="compact")
    wire.produce(name, batch(b"0", b"1", b"2"))
    assert delete(wire, name, 4) == ("OFFSET_OUT_OF_RANGE", -1)
    assert delete(wire, name, -2) == ("OFFSET_OUT_OF_RANGE", -1)
    assert delete(wire, compacted, 0) == ("POLICY_VIOLATION", -1)
    assert delete(wire, "nobody-knows-it", 0) == ("UNKNOWN_TOPIC_OR_PARTITION", -1)
    assert delete(wire, name, 0, partition=7) == ("UNKNOWN_TOPIC_OR_PARTITION", -1)
    assert delete(wire, name, -1) == ("NONE", 3)
    assert delete(wire, name, 1) == ("NONE", 3)


def test_segments_before_the_start_free_their_space(wire: Wire, topic: Callable[..., str], cluster: Cluster) -> None:
    name = topic(internal_segment_bytes=200)
    for number in range(20):
        wire.produce(name, batch(b"%d" % number * 50))
    directory = cluster.node_dir(0) / f"{name}-0"
    assert len(files(directory)) == 20
    assert delete(wire, name, 15) == ("NONE", 15)
    eventually(lambda: len(files(directory)) == 5)
    eventually(lambda: not files(directory, ".deleted"))
    assert len(files(directory, ".index")) == 4
    assert len(files(directory, ".snapshot")) == 5


def test_old_records_go_by_themselves(wire: Wire, topic: Callable[..., str], cluster: Cluster) -> None:
    name = topic(internal_segment_bytes=200, retention_ms=DAY_MS)
    old = int(time.time() * 1000) - 2 * DAY_MS
    for number in range(10):
        wire.produce(name, batch(b"%d" % number * 50, timestamp=old))
    wire.produce(name, batch(b"new" * 30))
    eventually(lambda: wire.fetch(name, 10).log_start_offset == 10)
    assert [record.value for record in wire.read(name, 10)] == [b"new" * 30]
    eventually(lambda: len(list((cluster.node_dir(0) / f"{name}-0").glob("*.log*"))) == 1)


def log_bytes(directory: Path) -> int:
    """Segments may get other names while they are looked at: then they count no more."""
    total = 0
    for path in directory.glob("*.log"):
        with suppress(FileNotFoundError):
            total += path.stat().st_size
    return total


def test_a_log_keeps_to_its_size_which_may_be_changed(wire: Wire, topic: Callable[..., str], cluster: Cluster) -> None:
    name = topic(internal_segment_bytes=1000)
    for number in range(50):
        wire.produce(name, batch(b"%d" % (number % 10) * 400))
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    entry = ConfigEntry("retention.bytes", "5000", incremental_operation=AlterConfigOpType.SET)
    for done in admin.incremental_alter_configs([ConfigResource("topic", name, incremental_configs=[entry])]).values():
        done.result(10)
    directory = cluster.node_dir(0) / f"{name}-0"
    eventually(lambda: log_bytes(directory) < 7000)
    assert log_bytes(directory) >= 5000


def test_a_reader_in_the_midst_of_what_goes_never_gets_garbage(wire: Wire, topic: Callable[..., str]) -> None:
    """Answers are sent from files that have no names any more: none of them is of another segment, or cut."""
    name = topic(internal_segment_bytes=40_000)
    for number in range(40):
        wire.produce(name, batch(*[b"%d" % number * 500] * 10))
    for start in range(0, 400, 7):
        assert (wire.fetch(name, max(start - 8, 0)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE) == (start > 7)
        found = [record for record in wire.read(name, start) if record.offset >= start]
        assert [record.value for record in found] == [b"%d" % (offset // 10) * 500 for offset in range(start, 400)]
        assert delete(wire, name, start) == ("NONE", start)


def test_no_descriptors_are_left_behind(wire: Wire, topic: Callable[..., str], cluster: Cluster) -> None:
    name = topic(internal_segment_bytes=200)
    for number in range(50):
        wire.produce(name, batch(b"%d" % number * 50))
    for offset in range(50):
        wire.fetch(name, offset)
    assert delete(wire, name, -1) == ("NONE", 50)
    directory = cluster.node_dir(0) / f"{name}-0"
    eventually(lambda: not files(directory, ".deleted") and len(files(directory)) == 1)

    def held() -> list[str]:
        links = []
        for number in os.listdir("/proc/self/fd"):
            try:
                links.append(os.readlink(f"/proc/self/fd/{number}"))
            except OSError:
                continue
        return [link for link in links if f"/{name}-0/" in link and link.endswith("(deleted)")]

    eventually(lambda: not held(), f"descriptors are closed: {held()}")


def test_consumers_go_on_where_the_log_begins(cluster: Cluster, topic: Callable[..., str], wire: Wire) -> None:
    name = topic()
    for number in range(10):
        wire.produce(name, batch(b"%d" % number))
    assert delete(wire, name, 6) == ("NONE", 6)
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": name, "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(name, 0, 2)])
    found: list[bytes] = []

    def poll() -> bool:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            found.append(message.value())
        return len(found) == 4

    eventually(poll)
    assert found == [b"6", b"7", b"8", b"9"]
    assert consumer.get_watermark_offsets(TopicPartition(name, 0), timeout=10) == (6, 10)
    consumer.close()


# Three brokers


@pytest.fixture
def realm(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(brokers=3, odins=3, data_dir=tmp_path / "data", **QUICK) as running:
        yield running


def create(realm: Cluster, name: str, **configs: str) -> AdminClient:
    admin = AdminClient({"bootstrap.servers": realm.bootstrap})
    config = {key.replace("_", "."): text for key, text in configs.items()}
    admin.create_topics([NewTopic(name, 1, 3, config=config)])[name].result(20)
    eventually(lambda: len(admin.list_topics(name, timeout=10).topics[name].partitions[0].isrs) == 3)
    return admin


def produce(realm: Cluster, name: str, count: int, size: int = 100) -> None:
    producer = Producer({"bootstrap.servers": realm.bootstrap, "acks": "all", "linger.ms": 0, "batch.num.messages": 10})
    for number in range(count):
        producer.produce(name, b"%05d" % number * (size // 5), partition=0)
    assert producer.flush(60) == 0


def delete_before(admin: AdminClient, name: str, offset: int) -> int:
    (done,) = admin.delete_records([TopicPartition(name, 0, offset)], request_timeout=20).values()
    return int(done.result(30).low_watermark)


def earliest(admin: AdminClient, name: str) -> int:
    (done,) = admin.list_offsets({TopicPartition(name, 0): OffsetSpec.earliest()}).values()
    return int(done.result(10).offset)


def starts(realm: Cluster, name: str) -> list[int]:
    """What the checkpoints of the brokers say."""
    found = []
    for broker in range(3):
        path = realm.node_dir(broker) / "log-start-offset-checkpoint"
        lines = path.read_text().splitlines() if path.exists() else []
        found += [int(line.split()[2]) for line in lines if line.startswith(f"{name} 0 ")]
    return found


def test_all_replicas_have_heard_of_it_when_the_answer_comes(realm: Cluster) -> None:
    admin = create(realm, "orders")
    produce(realm, "orders", 100)
    began = time.monotonic()
    assert delete_before(admin, "orders", 57) == 57
    assert starts(realm, "orders") == [57, 57, 57]
    assert time.monotonic() - began < 5
    for broker in range(3):  # whoever leads, the records stay gone
        leader = admin.list_topics("orders", timeout=10).topics["orders"].partitions[0].leader
        realm.kill(leader)
        eventually(lambda leader=leader: _leads_another(admin, leader))  # type: ignore[misc]
        assert earliest(admin, "orders") == 57, broker
        realm.restart(leader)
        eventually(lambda: len(admin.list_topics("orders", timeout=10).topics["orders"].partitions[0].isrs) == 3)


def _leads_another(admin: AdminClient, before: int) -> bool:
    return admin.list_topics("orders", timeout=10).topics["orders"].partitions[0].leader not in (before, -1)


def test_a_broker_that_is_down_is_not_waited_for_and_hears_of_it_when_it_is_back(realm: Cluster) -> None:
    """It comes back with less than the leader has, and begins inside one of its batches."""
    admin = create(realm, "orders", internal_segment_bytes="5000")
    produce(realm, "orders", 20)
    leader = admin.list_topics("orders", timeout=10).topics["orders"].partitions[0].leader
    other = next(broker for broker in range(3) if broker != leader)
    realm.kill(other)
    produce(realm, "orders", 200)
    eventually(lambda: len(admin.list_topics("orders", timeout=10).topics["orders"].partitions[0].isrs) == 2)
    assert delete_before(admin, "orders", 143) == 143
    realm.restart(other)
    eventually(lambda: len(admin.list_topics("orders", timeout=10).topics["orders"].partitions[0].isrs) == 3)
    assert delete_before(admin, "orders", 144) == 144
    assert starts(realm, "orders") == [144, 144, 144]


def test_followers_let_go_of_old_segments_too(realm: Cluster) -> None:
    admin = create(realm, "orders", internal_segment_bytes="2000", retention_bytes="4000")
    produce(realm, "orders", 300)
    for broker in range(3):
        directory = realm.node_dir(broker) / "orders-0"
        eventually(lambda directory=directory: log_bytes(directory) < 8000)  # type: ignore[misc]
    assert earliest(admin, "orders") > 200


def test_who_does_not_lead_says_so(realm: Cluster) -> None:
    admin = create(realm, "orders")
    leader = admin.list_topics("orders", timeout=10).topics["orders"].partitions[0].leader
    other = next(broker for broker in range(3) if broker != leader)
    with Wire(realm.bootstrap.split(",")[other]) as wire:
        assert delete(wire, "orders", 0) == ("NOT_LEADER_OR_FOLLOWER", -1)


def test_what_clients_are_told_of_an_offset_that_is_not_there(realm: Cluster) -> None:
    admin = create(realm, "orders")
    (done,) = admin.delete_records([TopicPartition("orders", 0, 99)], request_timeout=5).values()
    with pytest.raises(KafkaException) as refused:
        done.result(10)
    assert refused.value.args[0].code() == KafkaError.OFFSET_OUT_OF_RANGE


def test_a_replica_that_hangs_costs_the_time_that_was_given_and_no_more(tmp_path: Path) -> None:
    with Cluster(brokers=2, odins=1, processes=True, data_dir=tmp_path / "data") as realm:
        admin = AdminClient({"bootstrap.servers": realm.bootstrap})
        admin.create_topics([NewTopic("orders", 1, 2)])["orders"].result(20)
        produce(realm, "orders", 10)
        leader = admin.list_topics("orders", timeout=10).topics["orders"].partitions[0].leader
        with Wire(realm.bootstrap.split(",")[leader]) as wire:
            assert delete(wire, "orders", 1) == ("NONE", 1)
            realm.pause(1 - leader)
            assert delete(wire, "orders", 5, timeout_ms=500) == ("REQUEST_TIMED_OUT", 1)
            assert wire.fetch("orders", 4).error_code == ErrorCode.OFFSET_OUT_OF_RANGE, "gone all the same"
            realm.resume(1 - leader)
            assert delete(wire, "orders", 5) == ("NONE", 5)
