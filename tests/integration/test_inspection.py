"""Batches that are looked into on their way in: what is refused, what is stored, and in which order."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from bifrost.errors import ErrorCode
from bifrost.protocol.batch import iter_headers
from bifrost.protocol.compression import Codec
from bifrost.testing import Cluster
from tests.integration.configs import BROKER, set_config
from tests.integration.conftest import create_topic
from tests.integration.wire import NOW, Wire, batch
from tests.unit.protocol.test_inspection import bomb, edit
from tests.waiting import eventually

pytestmark = pytest.mark.xdist_group("configs of a node")

LARGE = [b"%d" % number + b"x" * 1000 for number in range(200)]
"""More than is looked into at once."""


@contextmanager
def _full(wire: Wire) -> Iterator[None]:
    set_config(wire, BROKER, "", "produce.validation", "full")
    try:
        yield
    finally:
        set_config(wire, BROKER, "", "produce.validation", None)


def _lying(*values: bytes) -> bytes:
    """One record more than the header says."""
    changed = edit(bytearray(batch(*values, codec=Codec.ZSTD)), ">i", 57, len(values) - 1)
    return bytes(edit(changed, ">i", 23, len(values) - 2))


def test_full_validation_comes_and_goes(wire: Wire, topic: Callable[..., str]) -> None:
    name = topic()
    assert wire.produce(name, _lying(b"a", b"b")).error_code == 0
    with _full(wire):
        for values in ((b"a", b"b"), LARGE):
            assert wire.produce(name, _lying(*values)).error_code == ErrorCode.INVALID_RECORD
            assert wire.produce(name, batch(*values, codec=Codec.ZSTD)).error_code == 0
    assert wire.produce(name, _lying(b"a", b"b")).error_code == 0


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_what_would_inflate_to_a_gigabyte_is_too_large(wire: Wire, topic: Callable[..., str], codec: Codec) -> None:
    name = topic(max_message_bytes=100 << 20)
    with _full(wire):
        assert wire.produce(name, bytes(bomb(codec))).error_code == ErrorCode.MESSAGE_TOO_LARGE
        assert wire.produce(name, batch(b"next")).base_offset == 0


@pytest.mark.parametrize("acks", [-1, 1])
def test_writes_keep_their_order_around_those_that_take_long(wire: Wire, topic: Callable[..., str], acks: int) -> None:
    name = topic(compression_type="gzip")
    written: list[bytes] = []
    for number in range(20):
        values = [b"%d-%d" % (number, index) + b"x" * 1000 for index in range(1 if number % 3 else 150)]
        numbers = {"producer_id": 77, "producer_epoch": 0, "base_sequence": len(written)}
        wire.send_produce(name, batch(*values, codec=Codec(number % 5), **numbers), acks=acks)
        written += values
    for _ in range(20):
        _, response = wire.receive_produce()
        assert response.topics[0].partitions[0].error_code == 0
    assert [record.value for record in wire.read(name)] == written


def test_unacknowledged_writes_are_looked_into_as_well(wire: Wire, cluster: Cluster, topic: Callable[..., str]) -> None:
    name = topic(cleanup_policy="compact")
    with Wire(cluster.bootstrap) as silent:
        silent.send_produce(name, batch(*LARGE), acks=0)
        assert silent.is_closed(), "which is all that it can be told"
    assert wire.read(name) == []


@pytest.mark.parametrize("wanted", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("source", Codec)
def test_batches_are_stored_as_their_topic_wants(
    wire: Wire, topic: Callable[..., str], wanted: str, source: Codec
) -> None:
    name = topic(compression_type=wanted)
    for values in ([b"small"], LARGE):
        assert wire.produce(name, batch(*values, codec=source)).error_code == 0
    found = [header for _, header in iter_headers(wire.fetch(name, 0).records)]
    codecs = {"uncompressed": Codec.NONE, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
    assert {header.codec for header in found} == {codecs[wanted]}
    assert [record.value for record in wire.read(name)] == [b"small", *LARGE]


def test_the_size_limit_counts_what_is_stored(wire: Wire, topic: Callable[..., str]) -> None:
    name = topic(compression_type="uncompressed", max_message_bytes=10_000)
    for size, code in ((9_000, 0), (11_000, ErrorCode.MESSAGE_TOO_LARGE), (200_000, ErrorCode.MESSAGE_TOO_LARGE)):
        assert wire.produce(name, batch(bytes(size), codec=Codec.ZSTD)).error_code == code


def test_append_time_and_a_codec_together(wire: Wire, topic: Callable[..., str]) -> None:
    name = topic(compression_type="lz4", message_timestamp_type="LogAppendTime")
    told = wire.produce(name, batch(*LARGE, timestamp=NOW - 5_000))
    assert told.log_append_time_ms > NOW - 5_000
    assert {record.timestamp for record in wire.read(name)} == {told.log_append_time_ms}


def test_records_from_another_time_are_named(wire: Wire, topic: Callable[..., str]) -> None:
    name = topic(message_timestamp_before_max_ms=1000)
    for count in (3, 1000):
        told = wire.produce(name, batch(*[b"x" * 100] * count, timestamp=NOW - 100_000))
        assert told.error_code == ErrorCode.INVALID_TIMESTAMP
        assert [index for index, _ in told.record_errors] == list(range(count))


def test_a_repeated_batch_is_recognised_after_it_was_changed(wire: Wire, topic: Callable[..., str]) -> None:
    name = topic(compression_type="zstd")
    numbers = {"producer_id": 78, "producer_epoch": 0, "base_sequence": 0}
    for _ in range(2):
        assert wire.produce(name, batch(*LARGE, **numbers)).base_offset == 0
    assert len(wire.read(name)) == len(LARGE)


def _children(parent: int) -> list[int]:
    """Processes that this one has started, in any of its threads."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(stat.read_text().rpartition(")")[2].split()[1]) == parent:
                found.append(int(stat.parent.name))
    return found


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="there is no /proc")
def test_workers_end_with_a_node_that_is_killed(tmp_path: Path) -> None:
    with Cluster(data_dir=tmp_path / "data", processes=True, produce_validation="full") as cluster:
        node = next(one for one in _children(os.getpid()) if str(tmp_path) in Path(f"/proc/{one}/cmdline").read_text())
        with Wire(cluster.bootstrap) as wire:
            create_topic(wire, "orders")
            assert wire.produce("orders", batch(*LARGE)).error_code == 0
        workers = _children(node)
        assert workers, "large batches are looked into elsewhere"
        cluster.kill(0)
        eventually(lambda: not any(map(_is_at_work, workers)), "the workers' end")


def _is_at_work(pid: int) -> bool:
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
