"""What was acknowledged is there after a restart, however the node ended, and so is everything around it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from bifrost.errors import ErrorCode
from bifrost.protocol.messages.cluster import DescribeClusterRequest
from bifrost.protocol.messages.configs import DescribeConfigsRequest, DescribeConfigsResource
from bifrost.protocol.messages.log_offsets import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from bifrost.protocol.messages.producers import InitProducerIdRequest
from bifrost.protocol.messages.topics import CreatePartitionsRequest, CreatePartitionsTopic, DeleteTopicsRequest
from bifrost.testing import Cluster
from tests.integration.configs import BROKER, TOPIC, set_config
from tests.integration.conftest import create_topic
from tests.integration.wire import NOW, Wire, batch

pytestmark = pytest.mark.xdist_group("restart")  # so that each cluster is made and restarted once

COUNT = 30
WAYS = ["stopped", "killed", "killed-process"]


@dataclass
class Before:
    """What was true when the node ended."""

    cluster: Cluster
    topics: dict[str, Any] = field(default_factory=dict)
    cluster_id: str = ""
    producer_id: int = -1


def sequenced(value: bytes, sequence: int, *, producer_id: int, epoch: int = 0) -> bytes:
    return batch(value, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


def producer_id(wire: Wire) -> int:
    answer = wire.call(4, InitProducerIdRequest(transaction_timeout_ms=60_000))
    assert answer.error_code == 0
    return int(answer.producer_id)


def write_everything(before: Before, wire: Wire) -> None:
    create_topic(wire, "plain", 2, segment_bytes=1 << 20, max_message_bytes=500_000)
    create_topic(wire, "doomed")
    create_topic(wire, "empty")
    before.producer_id = producer_id(wire)
    for number in range(COUNT):
        big = b"%d" % number + b"." * 100_000  # so that there are several segments
        assert wire.produce("plain", batch(big, timestamp=NOW + 1000 * number)).base_offset == number
        written = wire.produce("plain", sequenced(b"s%d" % number, number, producer_id=before.producer_id), partition=1)
        assert written.base_offset == number
    grown = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="plain", count=3)], timeout_ms=1000)
    assert wire.call(3, grown).results[0].error_code == 0
    assert wire.call(3, DeleteTopicsRequest(topic_names=["doomed"], timeout_ms=1000)).responses[0].error_code == 0
    set_config(wire, TOPIC, "plain", "max.message.bytes", "400000")
    set_config(wire, TOPIC, "plain", "segment.ms", "5000")
    set_config(wire, TOPIC, "plain", "segment.ms", None)
    set_config(wire, BROKER, "", "message.max.bytes", "300000")
    before.topics = {name: wire.describe(name) for name in ("plain", "empty")}
    before.cluster_id = wire.call(0, DescribeClusterRequest()).cluster_id


@pytest.fixture(scope="module", params=WAYS)
def before(request: pytest.FixtureRequest) -> Iterator[Before]:
    """A node that was written to, ended in one way or another, and was started again."""
    processes = request.param == "killed-process"
    with Cluster(processes=processes, flush_policy="ack") as cluster:
        before = Before(cluster)
        with Wire(cluster.bootstrap) as wire:
            write_everything(before, wire)
        if request.param == "stopped":
            cluster.stop(0)
        else:
            cluster.kill(0)
        cluster.restart(0)
        yield before


@pytest.fixture
def wire(before: Before) -> Iterator[Wire]:
    with Wire(before.cluster.bootstrap) as connection:
        yield connection


def test_every_acknowledged_record_is_there(wire: Wire) -> None:
    records = wire.read("plain")
    assert [record.offset for record in records] == list(range(COUNT))
    assert [record.value.rstrip(b".") for record in records if record.value] == [b"%d" % n for n in range(COUNT)]
    assert [record.timestamp for record in records] == [NOW + 1000 * number for number in range(COUNT)]


@pytest.mark.parametrize("offset", [0, 1, 9, 10, 11, 29])
def test_reading_starts_at_any_offset(wire: Wire, offset: int) -> None:
    assert [record.offset for record in wire.read("plain", offset)] == list(range(offset, COUNT))


def test_offsets_go_on_where_they_were(wire: Wire) -> None:
    assert wire.find("plain", -1).offset == COUNT
    assert wire.find("plain", -2).offset == 0
    assert wire.fetch("plain", COUNT + 1).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize(("after_ms", "offset"), [(-1_000_000, 0), (0, 0), (1, 1), (9500, 10), (29_000, 29)])
def test_timestamps_are_found(wire: Wire, after_ms: int, offset: int) -> None:
    found = wire.find("plain", NOW + after_ms)
    assert (found.offset, found.timestamp) == (offset, NOW + 1000 * offset)


def test_the_greatest_timestamp_is_found(wire: Wire) -> None:
    assert wire.find("plain", -3).offset == COUNT - 1
    assert wire.find("plain", NOW + 1_000_000).offset == -1


def test_a_producer_that_repeats_itself_is_recognised(before: Before, wire: Wire) -> None:
    """A client whose acknowledgement was lost with the node sends its last batches again."""
    for number in (COUNT - 5, COUNT - 1):
        repeated = sequenced(b"s%d" % number, number, producer_id=before.producer_id)
        answer = wire.produce("plain", repeated, partition=1)
        assert (answer.error_code, answer.base_offset) == (0, number)
    assert len(wire.read("plain", partition=1)) >= COUNT
    assert [record.value for record in wire.read("plain", partition=1)][:COUNT] == [b"s%d" % n for n in range(COUNT)]


def test_a_producer_that_skips_is_refused(before: Before, wire: Wire) -> None:
    skipping = sequenced(b"x", COUNT + 100, producer_id=before.producer_id)
    assert wire.produce("plain", skipping, partition=1).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_producer_goes_on_and_its_former_self_is_fenced(before: Before, wire: Wire) -> None:
    partition = 2  # nothing was written there, so that this test depends on no other
    mine = producer_id(wire)
    assert wire.produce("plain", sequenced(b"a", 0, producer_id=mine, epoch=1), partition=partition).error_code == 0
    old = wire.produce("plain", sequenced(b"b", 1, producer_id=mine, epoch=0), partition=partition)
    assert old.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert wire.produce("plain", sequenced(b"b", 1, producer_id=mine, epoch=1), partition=partition).error_code == 0


def test_producer_ids_are_not_given_out_twice(before: Before, wire: Wire) -> None:
    assert producer_id(wire) > before.producer_id


def test_topics_keep_their_ids_and_partitions(before: Before, wire: Wire) -> None:
    for name, old in before.topics.items():
        now = wire.describe(name)
        assert (now.error_code, now.topic_id, len(now.partitions)) == (0, old.topic_id, len(old.partitions))


def test_a_deleted_topic_stays_deleted(wire: Wire) -> None:
    assert wire.describe("doomed").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert wire.produce("doomed", batch(b"x")).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_topics_and_brokers_keep_their_configs(wire: Wire) -> None:
    resource = DescribeConfigsResource(
        resource_type=2, resource_name="plain", configuration_keys=["max.message.bytes", "segment.bytes", "segment.ms"]
    )
    (result,) = wire.call(4, DescribeConfigsRequest(resources=[resource])).results
    assert {entry.name: entry.value for entry in result.configs} == {
        "max.message.bytes": "400000",
        "segment.bytes": str(1 << 20),
        "segment.ms": "604800000",
    }
    assert wire.produce("plain", batch(b"x" * 350_000), partition=2).error_code == 0
    assert wire.produce("plain", batch(b"x" * 450_000)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert wire.produce("empty", batch(b"x" * 350_000)).error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_the_cluster_is_the_same(before: Before, wire: Wire) -> None:
    assert wire.call(0, DescribeClusterRequest()).cluster_id == before.cluster_id


def test_leader_epochs_rise_and_the_old_ones_are_remembered(before: Before, wire: Wire) -> None:
    """KIP-101, KIP-320."""
    now = wire.describe("plain").partitions[0].leader_epoch
    then = before.topics["plain"].partitions[0].leader_epoch
    assert now == then + 1
    wanted = OffsetForLeaderPartition(partition=0, leader_epoch=then)
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="plain", partitions=[wanted])])
    answer = wire.call(4, request).topics[0].partitions[0]
    assert (answer.leader_epoch, answer.end_offset) == (then, COUNT)


def test_new_writes_follow_the_old_ones(wire: Wire) -> None:
    first = wire.produce("empty", batch(b"first"))
    second = wire.produce("empty", batch(b"second"))
    assert (first.base_offset, second.base_offset) == (0, 1)
