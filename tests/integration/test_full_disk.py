"""A full disk refuses writes and nothing more: reads go on, nothing acknowledged is lost, and room mends it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bifrost.broker.node import StartError
from bifrost.errors import ErrorCode
from bifrost.protocol.messages.producers import InitProducerIdRequest
from bifrost.protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from bifrost.testing import Cluster
from bifrost.testing.embedded import EmbeddedNode
from tests.integration.conftest import create_topic
from tests.integration.small_disk import SmallDisk
from tests.integration.wire import Wire, batch
from tests.waiting import eventually

CHECKPOINT_MS = 200


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    small = SmallDisk(tmp_path, megabytes=16)
    yield small
    small.close()


@pytest.fixture
def cluster(disk: SmallDisk) -> Iterator[Cluster]:
    with Cluster(
        data_dir=disk.path, flush_policy="ack", replica_high_watermark_checkpoint_interval_ms=CHECKPOINT_MS
    ) as running:
        yield running


def write_until_refused(wire: Wire, topic: str, acknowledged: dict[int, bytes]) -> ErrorCode:
    """Small writes still fit into the last block of a file; some time one does not."""
    for number in range(1000):
        value = b"%d" % number + b"." * 10_000
        result = wire.produce(topic, batch(value))
        if result.error_code != 0:
            return ErrorCode(result.error_code)
        acknowledged[result.base_offset] = value
    raise AssertionError("the disk is not full")


def checkpoint_finds_no_room(
    disk: SmallDisk, wire: Wire, acknowledged: dict[int, bytes], caplog: pytest.LogCaptureFixture
) -> bool:
    """Checkpoints are written every few moments if there is something new; the node must not care if they cannot."""
    disk.make_room()
    acknowledged[wire.produce("t", batch(b"something new")).base_offset] = b"something new"
    disk.fill()
    before = len(caplog.records)
    deadline = time.monotonic() + 3 * CHECKPOINT_MS / 1000
    while time.monotonic() < deadline:
        if any("checkpoint not written, disk full" in record.getMessage() for record in caplog.records[before:]):
            return True
        time.sleep(0.01)
    return False


def stored(wire: Wire, topic: str) -> dict[int, bytes | None]:
    return {record.offset: record.value for record in wire.read(topic)}


def create(wire: Wire, name: str) -> ErrorCode:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    (result,) = wire.call(5, CreateTopicsRequest(topics=[topic], timeout_ms=10_000)).topics
    return ErrorCode(result.error_code)


def test_writes_are_refused_reads_go_on_and_room_mends_it(
    disk: SmallDisk, cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    acknowledged: dict[int, bytes] = {}
    with Wire(cluster.bootstrap) as wire:
        create_topic(wire, "t")
        for number in range(50):
            value = b"before %d" % number
            acknowledged[wire.produce("t", batch(value)).base_offset] = value
        disk.fill()
        assert write_until_refused(wire, "t", acknowledged) is ErrorCode.KAFKA_STORAGE_ERROR
        assert stored(wire, "t") == acknowledged
        eventually(lambda: checkpoint_finds_no_room(disk, wire, acknowledged, caplog))
        assert wire.produce("t", batch(b"x" * 100_000)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert stored(wire, "t") == acknowledged
        disk.make_room()
        result = wire.produce("t", batch(b"after"))
        assert (result.error_code, result.base_offset) == (0, len(acknowledged)), "no gap where the refused ones were"
        acknowledged[result.base_offset] = b"after"
    node = cluster.node(0)
    assert isinstance(node, EmbeddedNode)
    assert node.metrics.storage_errors >= 2
    assert node.metrics.unexpected_errors == 0
    for end in (cluster.stop, cluster.kill):
        end(0)
        cluster.restart(0)
        with Wire(cluster.bootstrap) as wire:
            assert stored(wire, "t") == acknowledged


def test_an_idempotent_write_that_was_refused_can_be_repeated(disk: SmallDisk, cluster: Cluster) -> None:
    def sequenced(sequence: int) -> bytes:
        return batch(b"." * 100_000, producer_id=77, producer_epoch=0, base_sequence=sequence)

    with Wire(cluster.bootstrap) as wire:
        create_topic(wire, "t")
        assert wire.produce("t", sequenced(0)).error_code == 0
        disk.fill()
        assert wire.produce("t", sequenced(1)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        disk.make_room()
        assert wire.produce("t", sequenced(1)).base_offset == 1
        assert wire.produce("t", sequenced(1)).base_offset == 1
        assert wire.produce("t", sequenced(2)).base_offset == 2


def test_topics_cannot_be_created_until_there_is_room(disk: SmallDisk, cluster: Cluster) -> None:
    with Wire(cluster.bootstrap) as wire:
        create_topic(wire, "before")
        assert wire.produce("before", batch(b"x")).error_code == 0
        disk.fill()
        codes = []
        while not codes or codes[-1] is ErrorCode.NONE:  # a few changes fit into the metadata log's last block
            codes.append(create(wire, f"full-{len(codes)}"))
            assert len(codes) < 200
        assert codes[-1] is ErrorCode.KAFKA_STORAGE_ERROR
        assert wire.describe(f"full-{len(codes) - 1}").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert (
            wire.call(4, InitProducerIdRequest(transaction_timeout_ms=1)).error_code != ErrorCode.UNKNOWN_SERVER_ERROR
        )
        assert [record.value for record in wire.read("before")] == [b"x"]
        disk.make_room()
        assert create(wire, "after") is ErrorCode.NONE
        assert wire.produce("after", batch(b"y")).error_code == 0
        # Those that the metadata log had taken but the disk had no files for come to life by themselves.
        for number in range(len(codes) - 1):
            eventually(lambda number=number: wire.produce(f"full-{number}", batch(b"z")).error_code == 0)  # type: ignore[misc]
        names = [f"full-{number}" for number in range(len(codes) - 1)] + ["before", "after"]
        ids = {name: wire.describe(name).topic_id for name in names}
    cluster.restart(0)
    with Wire(cluster.bootstrap) as wire:
        assert {name: wire.describe(name).topic_id for name in names} == ids
        assert all(len(wire.read(name)) >= 1 for name in names)


def test_a_node_on_a_full_disk_stops_in_order_and_starts_again_with_room(disk: SmallDisk, cluster: Cluster) -> None:
    with Wire(cluster.bootstrap) as wire:
        create_topic(wire, "t")
        values = [b"%d" % number for number in range(20)]
        for value in values:
            wire.produce("t", batch(value))
        disk.fill()
    cluster.stop(0)
    disk.make_room()
    cluster.restart(0)
    with Wire(cluster.bootstrap) as wire:
        assert [record.value for record in wire.read("t")] == values


def test_a_node_that_finds_no_room_to_start_says_so_and_harms_nothing(disk: SmallDisk, cluster: Cluster) -> None:
    with Wire(cluster.bootstrap) as wire:
        create_topic(wire, "t")
        wire.produce("t", batch(b"x"))
    cluster.kill(0)
    disk.fill()
    with pytest.raises(StartError, match=r"No space left on device|disk of the metadata log is full"):
        cluster.restart(0)
    disk.make_room()
    cluster.restart(0)
    with Wire(cluster.bootstrap) as wire:
        assert [record.value for record in wire.read("t")] == [b"x"]
