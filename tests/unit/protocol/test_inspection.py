"""What a look inside a batch finds, and what it makes of it."""

from __future__ import annotations

import pickle
import struct
import subprocess
import sys
from typing import Any

import pytest
from crc32c import crc32c

from bifrost.errors import ErrorCode
from bifrost.log.config import LOG_APPEND_TIME, LogConfig
from bifrost.protocol.batch import HEADER_BYTES, check_crc, read_header
from bifrost.protocol.compression import Codec, compress
from bifrost.protocol.inspection import RECORD_ERRORS_MAX, Recompression, Refusal, Rules, inspect
from bifrost.protocol.records import decode_batch, encode_batch

NOW = 1_700_000_000_000
RULES = Rules(limit_bytes=1 << 20)
HEADERS = (("kind", b"test"), ("nothing", None), ("", b""))


def make_batch(*timestamps: int, key: bytes | None = b"key", **fields: Any) -> bytearray:
    records = [(each, key, b"value" * 40, HEADERS) for each in timestamps or (NOW, NOW + 5, NOW + 2)]
    return encode_batch(records, **fields)


def edit(batch: bytearray, layout: str, position: int, *values: Any) -> bytearray:
    struct.pack_into(layout, batch, position, *values)
    struct.pack_into(">I", batch, 17, crc32c(batch[21:]))
    return batch


def refused(batch: bytearray, rules: Rules = RULES) -> Refusal:
    found = inspect(batch, rules)
    assert isinstance(found, Refusal), found
    assert pickle.loads(pickle.dumps(found)) == found, "it comes from another process"
    return found


@pytest.mark.parametrize("codec", Codec)
def test_a_sound_batch_stays_as_it_is(codec: Codec) -> None:
    batch = make_batch(codec=codec)
    before = bytes(batch)
    assert inspect(batch, RULES) is None
    assert bytes(batch) == before


@pytest.mark.parametrize("codec", Codec)
def test_records_without_keys_are_all_named(codec: Codec) -> None:
    keys = (None, b"key", None, b"")
    batch = encode_batch([(NOW, key, None, ()) for key in keys], codec=codec)
    found = refused(batch, RULES._replace(keys=True))
    assert found.code is ErrorCode.INVALID_RECORD
    assert [index for index, _ in found.record_errors] == [0, 2]
    assert "2 records, from 0 on" in found.detail
    assert inspect(batch, RULES) is None


def test_no_more_records_are_named_than_an_answer_can_carry() -> None:
    batch = encode_batch([(NOW, None, None, ())] * (RECORD_ERRORS_MAX + 5))
    found = refused(batch, RULES._replace(keys=True))
    assert len(found.record_errors) == RECORD_ERRORS_MAX
    assert str(RECORD_ERRORS_MAX + 5) in found.detail


def test_timestamps_outside_their_bounds_are_named() -> None:
    batch = make_batch(NOW, NOW - 501, -1, NOW - 500, NOW + 100, NOW + 101)
    found = refused(batch, RULES._replace(earliest=NOW - 500, latest=NOW + 100))
    assert found.code is ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in found.record_errors] == [1, 5]


def test_a_wrong_time_outweighs_a_missing_key() -> None:
    records = [(NOW, None, b"", ()), (NOW + 9, b"key", b"", ())]
    found = refused(encode_batch(records), RULES._replace(keys=True, latest=NOW))
    assert (found.code, [index for index, _ in found.record_errors]) == (ErrorCode.INVALID_TIMESTAMP, [0, 1])


def test_the_greatest_timestamp_is_put_right() -> None:
    lying = edit(make_batch(), ">q", 35, NOW + 77)
    found = inspect(lying, RULES)
    assert isinstance(found, bytearray)
    header = read_header(found)
    assert header.max_timestamp == NOW + 5
    assert check_crc(found, 0, header)


def test_append_time_is_a_brokers_to_give() -> None:
    found = refused(make_batch(timestamp_type=1), RULES._replace(append_time=True))
    assert (found.code, len(found.record_errors)) == (ErrorCode.INVALID_TIMESTAMP, 3)


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("count", [2, 4])
def test_a_count_that_lies_is_noticed(codec: Codec, count: int) -> None:
    lying = edit(edit(make_batch(codec=codec), ">i", 57, count), ">i", 23, count - 1)
    assert refused(lying).code is ErrorCode.INVALID_RECORD


def _with_body(body: bytes, count: int = 1) -> bytearray:
    batch = make_batch(NOW)[:HEADER_BYTES] + body
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    return edit(edit(batch, ">i", 57, count), ">i", 23, count - 1)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"\x0c\x00\x00\x02\x01\x01\x00", id="wrong offset delta"),
        pytest.param(b"\x0e\x00\x00\x00\x01\x01\x00", id="longer than the batch"),
        pytest.param(b"\x0a\x00\x00\x00\x01\x01\x00", id="shorter than its fields"),
        pytest.param(b"\x0c\x00\x00\x00\x01\x01\x02", id="a header that is not there"),
        pytest.param(b"\x0c\x00\x00\x00\x01\x01\x01", id="a negative number of headers"),
        pytest.param(b"\x10\x00\x00\x00\x01\x01\x02\x01\x01", id="a header without a name"),
        pytest.param(b"\x0c\x00\x00\x00\x7e\x01\x00", id="a key beyond the record"),
        pytest.param(b"\x01\x00\x00\x00\x01\x01\x00", id="a negative length"),
        pytest.param(b"\xff" * 12, id="an endless number"),
        pytest.param(b"\x0c\x00\x00\x00\x01\x01\x00\x00", id="a stray byte"),
    ],
)
def test_malformed_records_are_refused(body: bytes) -> None:
    assert inspect(_with_body(b"\x0c\x00\x00\x00\x01\x01\x00"), RULES) is None, "the sound one beside them"
    assert refused(_with_body(body)).code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_garbage_instead_of_a_codec_is_refused(codec: Codec) -> None:
    batch = make_batch(NOW, codec=codec)[:HEADER_BYTES] + b"this is nothing"
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    assert refused(edit(batch, ">i", 57, 1)).code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_what_inflates_beyond_the_limit_is_too_large(codec: Codec) -> None:
    batch = encode_batch([(NOW, b"", bytes(2 << 20), ())], codec=codec)
    assert refused(batch).code is ErrorCode.MESSAGE_TOO_LARGE
    assert inspect(batch, RULES._replace(limit_bytes=3 << 20)) is None


BOMB = """
import resource, sys
from bifrost.protocol.compression import Codec, compress
from bifrost.protocol.inspection import Rules, inspect
from tests.unit.protocol.test_inspection import bomb
batch = bomb(Codec[sys.argv[1]])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
found = inspect(batch, Rules(limit_bytes=64 << 20))
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(len(batch), found.code.name, (after - before) >> 10)
"""
GIGABYTE = 1 << 30


def bomb(codec: Codec) -> bytearray:
    """A batch that inflates to a gigabyte, made without ever holding that much."""
    if codec is Codec.GZIP:
        import zlib

        coder = zlib.compressobj(9, wbits=31)
        payload = b"".join(coder.compress(bytes(1 << 20)) for _ in range(1 << 10)) + coder.flush()
    elif codec is Codec.ZSTD:  # frames that follow each other are one stream
        payload = compress(codec, bytes(1 << 26)) * (1 << 4)
    elif codec is Codec.LZ4:
        import cramjam

        coder = cramjam.lz4.Compressor(block_linked=False)
        for _ in range(1 << 10):
            coder.compress(bytes(1 << 20))
        payload = bytes(coder.finish())
    else:  # blocks that follow each other are one stream
        one = compress(codec, bytes(1 << 15))
        payload = one[:16] + one[16:] * (1 << 15)
    batch = make_batch(NOW, codec=codec)[:HEADER_BYTES] + payload
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    return edit(batch, ">i", 57, 1)


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_a_gigabyte_is_refused_without_holding_it(codec: Codec) -> None:
    """In a process of its own, whose memory is counted: the limit, and what it takes to find out."""
    command = [sys.executable, "-c", BOMB, codec.name]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    size, code, grown_mb = done.stdout.split()
    assert int(size) * 15 < GIGABYTE
    assert code == "MESSAGE_TOO_LARGE"
    assert int(grown_mb) < 100, "64 MB are allowed"


@pytest.mark.parametrize("source", Codec)
@pytest.mark.parametrize("wanted", Codec)
@pytest.mark.parametrize("walk", [True, False])
def test_a_batch_is_stored_as_its_topic_wants(source: Codec, wanted: Codec, walk: bool) -> None:
    numbers = {"producer_id": 7, "producer_epoch": 3, "base_sequence": 41, "transactional": True}
    batch = make_batch(codec=source, **numbers)
    header, records = read_header(batch), decode_batch(batch)
    found = inspect(batch, RULES._replace(walk=walk, recompression=Recompression(wanted)))
    if source is wanted:
        assert found is None
        return
    assert isinstance(found, bytearray)
    stored = read_header(found)
    assert check_crc(found, 0, stored)
    assert decode_batch(found) == records
    assert stored.codec == wanted
    assert stored.size_bytes == len(found)
    kept = stored._replace(length=header.length, crc=header.crc, attributes=header.attributes)
    assert kept == header
    assert stored.attributes ^ header.attributes == source ^ wanted


@pytest.mark.parametrize(
    ("codec", "levels"),
    [(Codec.GZIP, (-1, 1, 9)), (Codec.LZ4, (1, 9, 17)), (Codec.ZSTD, (-131_072, 3, 22)), (Codec.SNAPPY, (None,))],
)
def test_every_level_that_a_setting_takes(codec: Codec, levels: tuple[int | None, ...]) -> None:
    batch = make_batch(*range(NOW, NOW + 200))
    records = decode_batch(batch)
    for level in levels:
        found = inspect(batch, RULES._replace(recompression=Recompression(codec, level)))
        assert isinstance(found, bytearray)
        assert decode_batch(found) == records


def test_levels_make_a_difference() -> None:
    words = b" ".join(str(number * 7919 % 10_007).encode() for number in range(20_000))
    for codec, fast, thorough in ((Codec.GZIP, 1, 9), (Codec.LZ4, 9, 12), (Codec.ZSTD, -50, 19)):
        assert len(compress(codec, words, fast)) > len(compress(codec, words, thorough)), codec.name


CONFIGS = {
    "plain": LogConfig(),
    "full": LogConfig(validates=True),
    "compacted": LogConfig(compacted=True),
    "past": LogConfig(message_timestamp_before_max_ms=1000),
    "gzip": LogConfig(recompression=Recompression(Codec.GZIP)),
    "append time": LogConfig(message_timestamp_type=LOG_APPEND_TIME, message_timestamp_before_max_ms=1000),
}


@pytest.mark.parametrize(
    ("config", "codec", "timestamp", "opened"),
    [
        ("plain", Codec.ZSTD, NOW + 3_600_000, False),
        ("plain", Codec.NONE, NOW + 3_600_001, True),
        ("full", Codec.NONE, NOW, True),
        ("compacted", Codec.NONE, NOW, True),
        ("past", Codec.NONE, NOW, True),
        ("gzip", Codec.GZIP, NOW, False),
        ("gzip", Codec.NONE, NOW, True),
        ("append time", Codec.NONE, NOW + 9_000_000, False),
    ],
)
def test_only_what_a_topic_asks_for_is_opened(config: str, codec: Codec, timestamp: int, opened: bool) -> None:
    header = read_header(make_batch(timestamp, codec=codec))
    assert (CONFIGS[config].inspection(header, NOW) is not None) == opened


def test_the_limit_is_never_below_what_a_topic_takes_uncompressed() -> None:
    config = LogConfig(validates=True, max_message_bytes=100 << 20)
    rules = config.inspection(read_header(make_batch()), NOW)
    assert rules is not None
    assert rules.limit_bytes == 100 << 20
