"""Whatever a peer sends, it gets Kafka's error or a closed connection, and nobody else notices."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

import pytest

from bifrost.errors import ErrorCode
from bifrost.protocol.messages.cluster import ApiVersionsRequest
from bifrost.protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from bifrost.testing import Cluster
from tests.integration.wire import Wire, batch


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def header(api_key: int, version: int, *, flexible: bool = False) -> bytes:
    return struct.pack(">hhih", api_key, version, 7, -1) + (b"\0" if flexible else b"")


def serves(wire: Wire) -> bool:
    return wire.call(3, ApiVersionsRequest(client_software_name="t", client_software_version="1")).error_code == 0


NONSENSE = {
    "an empty frame": struct.pack(">i", 0),
    "a negative length": struct.pack(">i", -5),
    "a frame of 2 GB": struct.pack(">i", 0x7FFFFFFF) + b"x" * 100,
    "an HTTP request": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a TLS hello": bytes.fromhex("16030100c8010000c40303") + b"\0" * 200,
    "an unknown api": frame(header(999, 0)),
    "a negative api": frame(header(-1, 0)),
    "an unknown version": frame(header(3, 99)),
    "Produce 2, announced but long gone": frame(header(0, 2) + b"\0" * 20),
    "a client id beyond the frame": frame(struct.pack(">hhih", 3, 1, 7, 3000)),
    "Metadata for two billion topics": frame(header(3, 1) + struct.pack(">i", 0x7FFFFFFF)),
    "CreateTopics with a huge compact array": frame(header(19, 7, flexible=True) + b"\xff\xff\xff\xff\x0f"),
    "Produce with two billion topics": frame(header(0, 3) + struct.pack(">hhii", -1, 1, 1000, 0x7FFFFFFF)),
    "Fetch with two billion topics": frame(header(1, 4) + struct.pack(">iiiibi", -1, 0, 0, 0, 0, 0x7FFFFFFF)),
    "Fetch that ends in its middle": frame(header(1, 11) + struct.pack(">iii", -1, 0, 0)),
    "a name that is not UTF-8": frame(header(3, 1) + struct.pack(">ih", 1, 2) + b"\xff\xfe"),
}


@pytest.mark.parametrize("data", NONSENSE.values(), ids=NONSENSE.keys())
def test_nonsense_closes_its_own_connection_only(cluster: Cluster, wire: Wire, data: bytes) -> None:
    assert serves(wire)
    with Wire(cluster.bootstrap) as hostile:
        hostile.send_bytes(data)
        assert hostile.is_closed()
    assert serves(wire)


def test_a_request_that_names_millions_of_topics_makes_nobody_wait(cluster: Cluster, wire: Wire) -> None:
    names = struct.pack(">i", 3_000_000) + struct.pack(">h", 0) * 3_000_000
    with Wire(cluster.bootstrap) as hostile:
        hostile.send_bytes(frame(header(3, 1) + names))
        assert hostile.is_closed()
    assert serves(wire)


@pytest.mark.parametrize("seed", range(20))
def test_random_bytes_close_their_own_connection_only(cluster: Cluster, wire: Wire, seed: int) -> None:
    rng = random.Random(seed)
    with Wire(cluster.bootstrap) as hostile:
        body = rng.randbytes(rng.randrange(8, 400))
        hostile.send_bytes(frame(body) if seed % 2 else body)
        hostile.socket.shutdown(1)
        hostile.is_closed()
    assert serves(wire)


def test_an_unknown_version_of_api_versions_is_answered_in_the_oldest_format(wire: Wire) -> None:
    wire.send_bytes(frame(header(18, 77, flexible=True) + b"whatever comes in version 77"))
    answer = wire.receive_frame()
    correlation_id, error, count = struct.unpack_from(">ihi", answer)
    rows = list(struct.iter_unpack(">hhh", answer[10:]))
    assert (correlation_id, error, count) == (7, ErrorCode.UNSUPPORTED_VERSION, len(rows))
    assert (18, 0, 4) in rows
    assert serves(wire)


@pytest.mark.parametrize("name", ["", "b@d", "under/neath"])
def test_software_names_that_make_no_sense_are_refused(wire: Wire, name: str) -> None:
    request = ApiVersionsRequest(client_software_name=name, client_software_version="1")
    assert wire.call(3, request).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("name", ["../evil", "..", ".", "a/b", "", "x" * 250, "sp ace", "null\0byte", "ünïcode"])
def test_no_topic_name_leaves_its_directory(cluster: Cluster, wire: Wire, name: str) -> None:
    before = sorted(path.name for path in cluster.data_dir.parent.iterdir())
    request = CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)])
    (result,) = wire.call(5, request).topics
    assert result.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert sorted(path.name for path in cluster.data_dir.parent.iterdir()) == before


def corrupt(data: bytes, position: int, value: bytes) -> bytes:
    return data[:position] + value + data[position + len(value) :]


WHOLE = batch(b"one", b"two")
LIES = {
    "a flipped bit": (corrupt(WHOLE, 70, bytes([WHOLE[70] ^ 1])), ErrorCode.CORRUPT_MESSAGE),
    "a wrong checksum": (corrupt(WHOLE, 17, b"\0\0\0\0"), ErrorCode.CORRUPT_MESSAGE),
    "a length that is too large": (corrupt(WHOLE, 8, struct.pack(">i", len(WHOLE))), ErrorCode.INVALID_RECORD),
    "a length that is too small": (corrupt(WHOLE, 8, struct.pack(">i", len(WHOLE) - 20)), ErrorCode.CORRUPT_MESSAGE),
    "a negative length": (corrupt(WHOLE, 8, struct.pack(">i", -1)), ErrorCode.CORRUPT_MESSAGE),
    "nothing but a header's beginning": (WHOLE[:30], ErrorCode.INVALID_RECORD),
    "an old magic": (corrupt(WHOLE, 16, b"\1"), ErrorCode.INVALID_RECORD),
    "two batches": (WHOLE + WHOLE, ErrorCode.INVALID_RECORD),
    "no bytes": (b"", ErrorCode.INVALID_RECORD),
    "a base offset of its own": (corrupt(WHOLE, 0, struct.pack(">q", 5)), ErrorCode.INVALID_RECORD),
    "a control batch": (batch(b"x", control=True), ErrorCode.INVALID_RECORD),
    "random bytes": (random.Random(1).randbytes(300), ErrorCode.CORRUPT_MESSAGE),
}


@pytest.mark.parametrize(("data", "code"), LIES.values(), ids=LIES.keys())
def test_a_batch_that_lies_is_refused_and_leaves_no_trace(
    wire: Wire, topic: Callable[..., str], data: bytes, code: ErrorCode
) -> None:
    name = topic()
    assert wire.produce(name, batch(b"before")).base_offset == 0
    refused = wire.produce(name, data)
    assert (ErrorCode(refused.error_code), refused.base_offset) == (code, -1)
    assert wire.produce(name, batch(b"after")).base_offset == 1


def test_a_count_that_lies_is_refused(wire: Wire, topic: Callable[..., str]) -> None:
    from crc32c import crc32c

    lie = bytearray(WHOLE)
    struct.pack_into(">i", lie, 57, 1000)
    struct.pack_into(">I", lie, 17, crc32c(bytes(lie[21:])))
    assert wire.produce(topic(), bytes(lie)).error_code == ErrorCode.INVALID_RECORD


def test_one_bad_partition_does_not_spoil_the_other_connection(cluster: Cluster, topic: Callable[..., str]) -> None:
    name = topic()
    with Wire(cluster.bootstrap) as good, Wire(cluster.bootstrap) as bad:
        bad.send_produce(name, b"junk" * 30)
        assert good.produce(name, batch(b"fine")).error_code == 0
        assert bad.receive_produce()[1].topics[0].partitions[0].error_code == ErrorCode.CORRUPT_MESSAGE


def test_an_unacknowledged_write_that_fails_closes_the_connection(wire: Wire, topic: Callable[..., str]) -> None:
    wire.send_produce(topic(), b"junk" * 30, acks=0)
    assert wire.is_closed()


@pytest.mark.parametrize("acks", [-2, 2, 100])
def test_acks_other_than_0_1_all_are_refused(wire: Wire, topic: Callable[..., str], acks: int) -> None:
    assert wire.produce(topic(), WHOLE, acks=acks).error_code == ErrorCode.INVALID_REQUIRED_ACKS


def test_a_batch_above_the_limit_is_refused(wire: Wire, topic: Callable[..., str]) -> None:
    name = topic(max_message_bytes=1000)
    assert wire.produce(name, batch(b"x" * 2000)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert wire.produce(name, batch(b"x" * 500)).error_code == 0


def test_offsets_out_of_range_are_refused(wire: Wire, topic: Callable[..., str]) -> None:
    name = topic()
    wire.produce(name, WHOLE)
    assert wire.fetch(name, 3).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert wire.fetch(name, -1).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert wire.fetch(name, 2).error_code == ErrorCode.NONE


def test_internal_topics_are_not_written_by_clients(wire: Wire) -> None:
    assert wire.produce("__consumer_offsets", WHOLE).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
