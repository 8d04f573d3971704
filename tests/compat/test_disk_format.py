"""The log directory is Kafka's, byte for byte: Kafka's own reader takes it, and a partition moves between the brokers.

A partition is moved as an operator would: the files are copied into the partition's directory of a stopped node. The
pair Kafka to Kafka shows that the method itself is sound.
"""

from __future__ import annotations

import random
import re
import shutil
import struct
import time
from pathlib import Path

import pytest

from tests.compat import batches, oracle, wire
from tests.compat.cache import Unavailable
from tests.compat.clients.base import CODECS, LATEST, Record, Stored
from tests.compat.clients.confluent import Confluent
from tests.compat.conftest import BROKERS, FOREIGN, StartBroker, skip_without, unique_name
from tests.compat.servers import PrivateServer
from tests.compat.test_errors import produce_raw

pytestmark = pytest.mark.skipif(FOREIGN is not None, reason="the files of a foreign broker are out of reach")

SEGMENT_BYTES = 1_048_576
CONFIGS = {"segment.bytes": str(SEGMENT_BYTES), "retention.ms": "-1"}
PAIRS = [
    pytest.param("kafka", "kafka", marks=[pytest.mark.oracle, pytest.mark.thorough]),
    ("kafka", "bifrost"),
    ("bifrost", "kafka"),
    ("bifrost", "bifrost"),
]
IDEMPOTENT = batches.encode(
    [Record(b"once", key=b"id", timestamp_ms=int(time.time() * 1000))],
    producer_id=9_000,
    producer_epoch=0,
    base_sequence=0,
)


def fill(server: PrivateServer, topic: str) -> int:
    """Several segments: all codecs, odd records, and one batch of an idempotent producer; returns the end offset."""
    wire.create_topic(server.bootstrap, topic, 1, CONFIGS)
    client = Confluent(server.bootstrap)
    now_ms = int(time.time() * 1000) - 100_000
    chaos = random.Random(1)  # what no codec makes small
    odd = [Record(None, key=b"tombstone"), Record(b"", key=None), Record(b"h", headers=(("a", b""), ("b", None)))]
    for number, codec in enumerate(CODECS):
        noise = [Record(chaos.randbytes(600), key=f"{codec}-{index}".encode()) for index in range(1200)]
        timed = [
            Record(each.value, each.key, each.headers, now_ms + number * 10_000 + index, partition=0)
            for index, each in enumerate(noise + odd)
        ]
        client.produce(topic, timed, codec=codec, batch_bytes=20_000)
    assert produce_raw(server.bootstrap, topic, IDEMPOTENT)["error_code"] == "none"
    (end,) = client.offsets(topic, [0], LATEST).values()
    assert end is not None
    return end


def read_all(server: PrivateServer, topic: str, count: int) -> list[Stored]:
    return Confluent(server.bootstrap).consume(topic, {0: 0}, count)


def dump(*arguments: str) -> str:
    try:
        return oracle.dump_log_segments(*arguments)
    except Unavailable as error:
        skip_without(error)
        raise


COMPLAINT = re.compile(r"(?i)mismatch|corrupt|out.of.order|isvalid: false|exception|not found|invalid|could not|error")


@pytest.mark.parametrize("kind", BROKERS)
def test_kafkas_segment_reader_has_no_complaint(kind: str, start_broker: StartBroker) -> None:
    server = start_broker(kind)
    topic = unique_name()
    end = fill(server, topic)
    server.stop()
    folder = server.log_dir(topic, 0)
    logs = sorted(folder.glob("*.log"))
    assert len(logs) >= 3, "several segments are wanted"

    said = dump("--deep-iteration", "--files", ",".join(map(str, logs)))
    assert not COMPLAINT.findall(said.replace("isvalid: true", "")), said[-2000:]
    offsets = [int(found) for found in re.findall(r"^\| offset: (\d+)", said, re.MULTILINE)]
    assert offsets == list(range(end))

    indexes = sorted([*folder.glob("*.index"), *folder.glob("*.timeindex")])
    assert len(indexes) == 2 * len(logs)
    assert any(file.stat().st_size for file in folder.glob("*.index")), "an index without entries proves nothing"
    names = ",".join(map(str, indexes))
    for check in ("--index-sanity-check", "--verify-index-only"):
        said = dump(check, "--files", names)
        assert not COMPLAINT.findall(said), said[-2000:]
        if check == "--index-sanity-check":
            assert said.count("passed sanity check") == len(indexes), said

    snapshots = sorted(folder.glob("*.snapshot"))
    assert snapshots, "producer state is written on roll and on clean shutdown"
    said = dump("--files", str(snapshots[-1]))
    assert "producerId: 9000" in said, said


@pytest.mark.parametrize("end_of_node", ["stopped", "killed"])
@pytest.mark.parametrize(("source_kind", "target_kind"), PAIRS)
def test_a_partition_moves_between_brokers(
    source_kind: str, target_kind: str, end_of_node: str, start_broker: StartBroker
) -> None:
    """Also from a node that was killed: the target then recovers the log, for it was killed too."""
    topic = unique_name()
    source, target = start_broker(source_kind), start_broker(target_kind)
    end = fill(source, topic)
    wire.create_topic(target.bootstrap, topic, 1, CONFIGS)
    before = read_all(source, topic, end)
    for server in (source, target):
        server.stop() if end_of_node == "stopped" else server.kill()
    move(source.log_dir(topic, 0), target.log_dir(topic, 0))
    target.start()
    with wire.Wire(target.bootstrap) as connection:
        wire.wait_for_leaders(connection, topic, 1)

    client = Confluent(target.bootstrap)
    assert read_all(target, topic, end) == before
    assert client.offsets(topic, [0], LATEST) == {0: end}
    for record in (before[0], before[end // 2], before[-2]):
        first = next(each.offset for each in before if each.timestamp_ms >= record.timestamp_ms)
        assert client.offsets(topic, [0], record.timestamp_ms) == {0: first}
    again = produce_raw(target.bootstrap, topic, IDEMPOTENT)
    assert (again["error_code"], again["base_offset"]) == ("none", end - 1), "the producer's state came along"
    assert client.offsets(topic, [0], LATEST) == {0: end}
    client.produce(topic, [Record(b"next", partition=0)])
    assert [each.value for each in client.consume(topic, {0: end}, 1)] == [b"next"]


def move(source: Path, target: Path) -> None:
    """All files but `partition.metadata`, which ties the directory to the topic's id in its own cluster."""
    assert target.is_dir(), f"{target} was not made by its broker"
    for old in target.iterdir():
        if old.name != "partition.metadata":
            old.unlink()
    for file in source.iterdir():
        if file.name != "partition.metadata":
            shutil.copy2(file, target)


@pytest.mark.oracle
def test_the_reader_does_complain_about_damage(tmp_path: Path) -> None:
    """Else its silence above would mean nothing."""
    first, second = (batches.encode([Record(b"value", timestamp_ms=1)], base_offset=offset) for offset in (0, 1))
    log, index = tmp_path / f"{0:020d}.log", tmp_path / f"{0:020d}.index"
    log.write_bytes(first + second)
    index.write_bytes(struct.pack(">ii", 1, len(first)))
    assert not COMPLAINT.findall(dump("--verify-index-only", "--files", str(index)))
    index.write_bytes(struct.pack(">ii", 1, 0))
    assert COMPLAINT.findall(dump("--verify-index-only", "--files", str(index)))
    log.write_bytes(first + second[:-2] + b"!!")
    assert COMPLAINT.findall(dump("--deep-iteration", "--files", str(log)))
