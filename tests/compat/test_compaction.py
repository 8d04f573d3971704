"""Compaction leaves what Kafka's leaves, in files that Kafka reads and serves; and Kafka's are read and served here."""

from __future__ import annotations

import re
import time
from collections import Counter

import pytest

from tests.compat import wire
from tests.compat.clients.base import CODECS, Record
from tests.compat.clients.confluent import Confluent
from tests.compat.compaction import CLEANER
from tests.compat.conftest import BROKERS, FOREIGN, StartBroker, unique_name
from tests.compat.servers import PrivateServer
from tests.compat.test_disk_format import COMPLAINT, dump, move
from tests.spark.records import Seen, consume
from tests.waiting import eventually

pytestmark = pytest.mark.skipif(FOREIGN is not None, reason="the cleaner of a foreign broker keeps its own time")

CLEANED_SOON = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.001",
    "segment.ms": "50",
    "delete.retention.ms": "0",
}
KEYS = 12
FILLER = b"filler"


def written(now_ms: int) -> list[tuple[str, list[Record]]]:
    """Every codec writes most keys anew, and deletes one of its own."""
    return [
        (
            codec,
            [
                Record(
                    None if key == number else f"{codec} {key}".encode() * 20,
                    f"key-{key}".encode(),
                    (("codec", codec.encode()),),
                    now_ms - 10_000 + number * 100 + key,
                    partition=0,
                )
                for key in range(KEYS)
                if key == number or (key + number) % 3
            ],
        )
        for number, codec in enumerate(CODECS)
    ]


def read(server: PrivateServer, topic: str) -> list[Seen]:
    return [each for each in consume(server.bootstrap, topic) if each.key != FILLER]


def clean_topic(server: PrivateServer) -> tuple[str, list[Seen]]:
    """A topic that was cleaned, and what is left of it but the filler, which ends segments."""
    topic = unique_name()
    wire.create_topic(server.bootstrap, topic, 1, CLEANED_SOON)
    client = Confluent(server.bootstrap)
    batches = written(int(time.time() * 1000))
    for codec, records in batches:
        client.produce(topic, records, codec=codec)
    latest = {record.key: record.value for _, records in batches for record in records}
    alive = {key: value for key, value in latest.items() if value is not None}

    def is_clean() -> bool:
        client.produce(topic, [Record(b"x", FILLER, partition=0)])
        left = read(server, topic)
        counts = Counter(each.key for each in left)
        return set(counts.values()) == {1} and {each.key for each in left} == set(alive)

    eventually(is_clean, "the topic is clean")
    left = read(server, topic)
    assert {each.key: each.value for each in left} == alive
    return topic, left


@pytest.mark.parametrize("kind", BROKERS)
def test_kafkas_segment_reader_has_no_complaint_about_a_cleaned_log(kind: str, start_broker: StartBroker) -> None:
    server = start_broker(kind, **CLEANER)
    topic, left = clean_topic(server)
    server.stop()
    folder = server.log_dir(topic, 0)
    said = dump("--deep-iteration", "--files", ",".join(map(str, sorted(folder.glob("*.log")))))
    assert not COMPLAINT.findall(said.replace("isvalid: true", "")), said[-2000:]
    offsets = {int(found) for found in re.findall(r"^\| offset: (\d+)", said, re.MULTILINE)}
    assert {each.offset for each in left} <= offsets
    names = ",".join(map(str, sorted([*folder.glob("*.index"), *folder.glob("*.timeindex")])))
    said = dump("--index-sanity-check", "--files", names)
    assert not COMPLAINT.findall(said), said[-2000:]
    said = dump("--verify-index-only", "--files", names)
    assert not COMPLAINT.findall(said), said[-2000:]


@pytest.mark.parametrize("end_of_node", ["stopped", "killed"])
@pytest.mark.parametrize(
    ("source_kind", "target_kind"),
    [
        ("bifrost", "bifrost"),
        *(pytest.param(*pair, marks=pytest.mark.oracle) for pair in (("bifrost", "kafka"), ("kafka", "bifrost"))),
    ],
)
def test_a_cleaned_partition_moves_between_brokers(
    source_kind: str, target_kind: str, end_of_node: str, start_broker: StartBroker
) -> None:
    source, target = start_broker(source_kind, **CLEANER), start_broker(target_kind)
    topic, left = clean_topic(source)
    wire.create_topic(target.bootstrap, topic, 1, {"retention.ms": "-1"})
    for server in (source, target):
        server.stop() if end_of_node == "stopped" else server.kill()
    move(source.log_dir(topic, 0), target.log_dir(topic, 0))
    target.start()
    with wire.Wire(target.bootstrap) as connection:
        wire.wait_for_leaders(connection, topic, 1)
    assert read(target, topic) == left
