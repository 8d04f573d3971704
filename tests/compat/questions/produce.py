"""Questions to Produce: every way a batch can be wrong, and what idempotent producers are told.

Each version writes to a partition of its own, so that offsets and sequences start afresh.
"""

from __future__ import annotations

import gzip
import struct
import time
import uuid
from collections.abc import Callable
from typing import Any

from tests.compat import batches, wire
from tests.compat.clients.base import Record
from tests.compat.questions.catalogue import VERSIONS, Answers, question
from tests.compat.questions.stage import TIME_MS, Ask, Stage
from tests.compat.wire import Answer

NOBODY = uuid.UUID(int=0xBAD)
ONE = Record(b"value", key=b"key", timestamp_ms=TIME_MS)
TWO = [ONE, Record(b"more", key=b"key", timestamp_ms=TIME_MS + 5)]
KEYLESS = Record(b"value", timestamp_ms=TIME_MS)
TIMELESS = Record(b"value", key=b"key", timestamp_ms=-1)
OLD = Record(b"value", key=b"key", timestamp_ms=1000)
SOON = Record(b"value", key=b"key", timestamp_ms=int(time.time() * 1000) + 7_200_000)
AGES = str(TIME_MS - 1_000_000)
"""Records of this run are not so old, and those from the beginning of time are."""
APPEND_TIME = {"message.timestamp.type": "LogAppendTime"}
PARTITIONS = VERSIONS["produce"].stop

Build = Callable[[], bytes]


def write(stage: Stage, ask: Ask, records: bytes, suffix: str, **fields: Any) -> Answer:
    """Sends one batch; the partition, which is the version's number, is left out of the answer."""
    data = {"index": ask.version, "records": records}
    topic = {"name": stage.name(suffix), "topic_id": stage.topic_id(suffix), "partition_data": [data]}
    answer = ask(**{"acks": -1, "timeout": 5000, "topic_data": [topic], **fields})
    for response in answer["responses"]:
        for partition in response["partition_responses"]:
            partition["index"] = 0 if partition["index"] == ask.version else partition["index"]
    return answer


def stored(stage: Stage, ask: Ask, suffix: str) -> Answer:
    """The headers of what the broker has kept; a time of its own making, and the CRC over it, cannot be compared."""
    headers = batches.headers_of(wire.fetch_records(stage.bootstrap, stage.name(suffix), ask.version))
    found: list[dict[str, Any]] = [dict(header) for header in headers]
    for header in found:
        if header["max_timestamp"] > TIME_MS + 1_000_000:
            header |= {"max_timestamp": "<now>", "crc": "<of now>"}
    return {"stored": found}


def _write(
    name: str, *builds: Build, configs: dict[str, str] | None = None, read_back: bool = False, **fields: Any
) -> None:
    """Batches sent one after the other to a topic of the question's own."""
    suffix = f"produce-{name.replace('_', '-')}"

    def function(stage: Stage, ask: Ask) -> Answers:
        answers = [write(stage, ask, build(), suffix, **fields) for build in builds]
        return [*answers, stored(stage, ask, suffix)] if read_back else answers

    function.__name__ = name
    question("produce", prepare=lambda stage: stage.create(suffix, PARTITIONS, configs))(function)


def _batch(*records: Record, **changes: Any) -> Build:
    return lambda: batches.encode(records, **changes)


def _twice(name: str, *records: Record, **changes: Any) -> None:
    """A batch that is wrong, then one that is right: nothing of the first may have been stored."""
    _write(name, _batch(*records, **changes), _batch(ONE), read_back=True)


_write("good", _batch(ONE), _batch(*TWO), read_back=True)
_write("leader_acks", _batch(ONE), acks=1)
_write("invalid_acks", _batch(ONE), acks=2)
_write("log_append_time", _batch(ONE), configs={"message.timestamp.type": "LogAppendTime"}, read_back=True)
_write(
    "append_time_bit_for_append_time",
    _batch(ONE, attributes=0x08),
    configs={"message.timestamp.type": "LogAppendTime"},
)
_twice("wrong_crc", ONE, crc=1)
_twice("old_magic", ONE, magic=1)
_twice("unknown_magic", ONE, magic=3)
_twice("base_offset_not_zero", ONE, base_offset=5)
_twice("control_batch", ONE, attributes=0x20)
_twice("transactional_without_id", ONE, attributes=0x10, producer_id=77, producer_epoch=0, base_sequence=0)
_twice("append_time_bit", ONE, attributes=0x08)
_twice("delete_horizon_bit", ONE, attributes=0x40)
_twice("unused_bits", ONE, attributes=0x4000)
_twice("count_above_delta", *TWO, record_count=3)
_twice("delta_above_count", *TWO, last_offset_delta=5)
_twice("both_above_records", *TWO, record_count=3, last_offset_delta=2)
_twice("both_below_records", *TWO, record_count=1, last_offset_delta=0)
_twice("negative_delta", ONE, last_offset_delta=-1)
_twice("no_records", record_count=0, last_offset_delta=0)
_twice("length_too_small", ONE, length=10)
_twice("length_beyond_the_bytes", ONE, length=5000)
_twice("negative_length", ONE, length=-1)
_twice("unknown_codec", ONE, attributes=5)
_twice("gzip_of_garbage", ONE, attributes=1, payload=b"this is no gzip")
_twice("zstd_of_garbage", ONE, attributes=4, payload=b"this is no zstd")
_twice("wrong_max_timestamp", ONE, max_timestamp=TIME_MS + 77)
_twice("no_timestamp", Record(b"v", key=b"k", timestamp_ms=-1), base_timestamp=-1, max_timestamp=-1)
_twice("far_future", Record(b"v", key=b"k", timestamp_ms=int(time.time() * 1000) + 7_200_000))
_twice("sequence_without_number", ONE, producer_id=4000, producer_epoch=0, base_sequence=-1)
_twice("negative_epoch", ONE, producer_id=4000, producer_epoch=-1, base_sequence=0)
_twice("sequence_without_producer", ONE, producer_id=-1, producer_epoch=0, base_sequence=0)
_write("empty_records", lambda: b"", _batch(ONE))
_write("short_records", lambda: batches.encode([ONE])[:30], _batch(ONE))
_write("cut_records", lambda: batches.encode(TWO)[:-3], _batch(ONE))
_write("two_batches", lambda: batches.encode([ONE]) * 2, _batch(ONE))
_write("trailing_bytes", lambda: batches.encode([ONE]) + b"\x00" * 7, _batch(ONE), read_back=True)
_write("many_trailing_bytes", lambda: batches.encode([ONE]) + b"\x00" * 100, _batch(ONE))
_write("half_a_batch_trailing", lambda: batches.encode([ONE]) + batches.encode([ONE])[:40], _batch(ONE))
_write("too_large", lambda: batches.encode([Record(b"x" * 2000)]), _batch(ONE), configs={"max.message.bytes": "1000"})
_write(
    "larger_than_a_segment",
    _batch(Record(b"x" * 1_100_000)),
    configs={"segment.bytes": "1048576", "max.message.bytes": "9000000"},
)
_write("keyless_in_compacted", _batch(KEYLESS), _batch(ONE), configs={"cleanup.policy": "compact"})
_write("keyless_among_keyed_in_compacted", _batch(ONE, KEYLESS), _batch(ONE), configs={"cleanup.policy": "compact"})
_write("keyless_twice_in_compacted", _batch(KEYLESS, ONE, KEYLESS), configs={"cleanup.policy": "compact"})
_write("topic_with_a_codec", _batch(ONE), configs={"compression.type": "gzip"})
_write("wrong_time_among_right_ones", _batch(ONE, SOON, ONE, SOON), _batch(ONE))
_write("wrong_time_and_no_key", _batch(KEYLESS, SOON), configs={"cleanup.policy": "compact"})
_write("too_old", _batch(ONE, OLD, ONE), _batch(ONE), configs={"message.timestamp.before.max.ms": AGES})
_write(
    "too_old_without_a_time", _batch(TIMELESS, ONE), configs={"message.timestamp.before.max.ms": AGES}, read_back=True
)
_write("too_old_for_append_time", _batch(OLD), configs={"message.timestamp.before.max.ms": AGES} | APPEND_TIME)
_write("append_time_bits_of_two", _batch(*TWO, attributes=0x08), configs=APPEND_TIME)


def _stored_as(name: str, configs: dict[str, str], *builds: Build) -> None:
    """What a topic with a codec of its own makes of batches; how short a library makes them cannot be compared."""
    suffix = f"produce-stored-as-{name.replace('_', '-')}"

    def function(stage: Stage, ask: Ask) -> Answers:
        answers = [write(stage, ask, build(), suffix) for build in builds]
        found = stored(stage, ask, suffix)
        for header in found["stored"]:
            if header["attributes"] & 7:
                header |= {"length": "<compressed>", "crc": "<of that>"}
        return [*answers, found]

    function.__name__ = f"stored_as_{name}"
    question("produce", prepare=lambda stage: stage.create(suffix, PARTITIONS, configs))(function)


def _gzipped() -> bytes:
    body = b"".join(batches.encode_record(record, index, index * 5) for index, record in enumerate(TWO))
    return batches.encode(TWO, attributes=1, payload=gzip.compress(body, mtime=0))


def _torn_record() -> bytes:
    """A record whose length runs past the batch; the CRC is right."""
    body = bytearray(batches.encode_record(ONE, 0, 0))
    body[0] = 100
    return batches.encode([ONE], payload=bytes(body))


def _wrong_offset_delta() -> bytes:
    return batches.encode([ONE], payload=batches.encode_record(ONE, 3, 0))


def _message_set_v1() -> bytes:
    """One message of the format before record batches: offset, size, crc, magic, attributes, timestamp, key, value."""
    body = struct.pack(">bbq", 1, 0, TIME_MS) + struct.pack(">i", -1) + struct.pack(">i", 1) + b"v"
    return struct.pack(">qiI", 0, len(body) + 4, 0) + body


_write("gzipped", _gzipped, _batch(ONE), read_back=True)
_write("torn_record", _torn_record, _batch(ONE))
_numbered = {"producer_id": 6000, "producer_epoch": 2, "base_sequence": 30}
for _codec in ("uncompressed", "gzip", "snappy", "lz4", "zstd"):
    _stored_as(
        _codec, {"compression.type": _codec}, _batch(*TWO, **_numbered), _gzipped, _batch(ONE, attributes=0x4000)
    )
_stored_as("gzip_at_the_brokers_time", {"compression.type": "gzip"} | APPEND_TIME, _batch(*TWO))
_write(
    "too_large_once_uncompressed",
    lambda: batches.encode(
        [Record(bytes(20_000))], attributes=1, payload=gzip.compress(batches.encode_record(Record(bytes(20_000)), 0, 0))
    ),
    configs={"compression.type": "uncompressed", "max.message.bytes": "10000"},
)
_write("wrong_offset_delta", _wrong_offset_delta, _batch(ONE), read_back=True)
_write("message_set_v1", _message_set_v1, _batch(ONE))


def _sequence(name: str, *steps: tuple[int, int, int]) -> None:
    """Batches of one idempotent producer, as (epoch, first sequence, records)."""
    records = [ONE] * 10
    builds = [
        _batch(*records[:size], producer_id=5000, producer_epoch=epoch, base_sequence=sequence)
        for epoch, sequence, size in steps
    ]
    _write(f"sequence_{name}", *builds)


_sequence("in_order", (0, 0, 2), (0, 2, 1), (0, 3, 3))
_sequence("not_from_zero", (0, 7, 1), (0, 8, 1))
_sequence("duplicate_of_the_last", (0, 0, 2), (0, 0, 2))
_sequence("duplicate_of_an_earlier", (0, 0, 1), (0, 1, 1), (0, 2, 1), (0, 0, 1), (0, 1, 1))
_sequence("duplicate_older_than_five", *((0, number, 1) for number in range(6)), (0, 0, 1), (0, 1, 1))
_sequence("gap", (0, 0, 1), (0, 5, 1), (0, 1, 1))
_sequence("overlap", (0, 0, 2), (0, 1, 2))
_sequence("part_of_a_batch_again", (0, 0, 3), (0, 1, 1))
_sequence("longer_batch_again", (0, 0, 2), (0, 0, 3))
_sequence("new_epoch_from_zero", (0, 0, 1), (1, 0, 1), (1, 1, 1))
_sequence("new_epoch_not_from_zero", (0, 0, 1), (1, 5, 1))
_sequence("old_epoch", (1, 0, 1), (0, 1, 1))
_sequence("old_epoch_same_batch", (0, 0, 1), (1, 0, 1), (0, 0, 1))
_sequence("wraps_around", (0, 2**31 - 2, 2), (0, 0, 1))
_sequence("wraps_inside_a_batch", (0, 2**31 - 1, 2), (0, 1, 1))


@question("produce")
def unknown_partition(stage: Stage, ask: Ask) -> Answers:
    data = {"index": 99, "records": batches.encode([ONE])}
    topic = {"name": stage.name("filled"), "topic_id": stage.topic_id("filled"), "partition_data": [data]}
    return ask(acks=-1, timeout=5000, topic_data=[topic])


@question("produce")
def unknown_topic(stage: Stage, ask: Ask) -> Answers:
    data = {"index": 0, "records": batches.encode([ONE])}
    topic = {"name": stage.name("missing"), "topic_id": NOBODY, "partition_data": [data]}
    return ask(acks=-1, timeout=5000, topic_data=[topic])


@question("produce")
def nothing_at_all(stage: Stage, ask: Ask) -> Answers:
    return ask(acks=-1, timeout=5000, topic_data=[])


@question("produce", prepare=lambda stage: stage.create("produce-many", PARTITIONS * 2))
def one_bad_partition_does_not_spoil_the_other(stage: Stage, ask: Ask) -> Answers:
    good = {"index": 2 * ask.version, "records": batches.encode([ONE])}
    bad = {"index": 2 * ask.version + 1, "records": batches.encode([ONE], crc=1)}
    name = {"name": stage.name("produce-many"), "topic_id": stage.topic_id("produce-many")}
    answer = ask(acks=-1, timeout=5000, topic_data=[{**name, "partition_data": [bad, good]}])
    partitions = answer["responses"][0]["partition_responses"]
    for partition in partitions:
        partition["index"] -= 2 * ask.version
    partitions.sort(key=lambda each: int(each["index"]))  # Kafka answers in the order of a hash map
    return answer
