"""Records inside a batch, checked against bytes of Kafka itself and against the codecs of two other clients."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from crc32c import crc32c

from bifrost.protocol.batch import CorruptBatchError, read_header
from bifrost.protocol.compression import Codec
from bifrost.protocol.records import NewRecord, Record, decode_batch, encode_batch
from tests.unit.protocol.kafka_batches import BATCHES, RECORDS
from tests.unit.protocol.other_clients import aiokafka_records, kafka_python_records

NEW_RECORDS: list[NewRecord] = [(record.timestamp, *record[2:]) for record in RECORDS]
AS_KAFKA: dict[str, Any] = {
    "producer_id": 4000,
    "producer_epoch": 2,
    "base_sequence": 17,
    "leader_epoch": 5,
    "transactional": True,
}

OTHER_CLIENTS = pytest.mark.parametrize(
    "client", [kafka_python_records, aiokafka_records], ids=["kafka-python", "aiokafka"]
)
CODECS = pytest.mark.parametrize("codec", Codec)


def sealed(batch: bytearray) -> bytearray:
    """The batch with a checksum that fits whatever was done to it."""
    struct.pack_into(">I", batch, 17, crc32c(batch[21:]))
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    return batch


@CODECS
def test_batches_that_kafka_wrote(codec: Codec) -> None:
    assert decode_batch(BATCHES[codec]) == RECORDS


def test_our_bytes_are_kafkas_where_nothing_is_compressed() -> None:
    assert encode_batch(NEW_RECORDS, **AS_KAFKA) == BATCHES[Codec.NONE]


@CODECS
def test_our_header_is_kafkas_for_every_codec(codec: Codec) -> None:
    ours, theirs = read_header(encode_batch(NEW_RECORDS, codec=codec, **AS_KAFKA)), read_header(BATCHES[codec])
    assert ours._replace(crc=0, length=0) == theirs._replace(crc=0, length=0)


@CODECS
def test_round_trip_with_offsets(codec: Codec) -> None:
    batch = encode_batch(NEW_RECORDS, base_offset=1 << 40, codec=codec)
    assert decode_batch(batch) == [record._replace(offset=(1 << 40) + index) for index, record in enumerate(RECORDS)]


@CODECS
@OTHER_CLIENTS
def test_what_other_clients_write_is_read(client: Any, codec: Codec) -> None:
    builder = client.DefaultRecordBatchBuilder(
        magic=2,
        compression_type=int(codec),
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 16,
    )
    for record in RECORDS:
        headers = [(name, value) for name, value in record.headers if value is not None]
        builder.append(record.offset, record.timestamp, record.key, record.value, headers)
    expected = [record._replace(headers=tuple(h for h in record.headers if h[1] is not None)) for record in RECORDS]
    assert decode_batch(bytes(builder.build())) == expected


@CODECS
@OTHER_CLIENTS
def test_what_we_write_is_read_by_other_clients(client: Any, codec: Codec) -> None:
    batch = client.DefaultRecordBatch(bytes(encode_batch(NEW_RECORDS, base_offset=70, codec=codec)))
    assert batch.validate_crc()
    read = [Record(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in batch]
    assert read == [record._replace(offset=70 + index) for index, record in enumerate(RECORDS)]


def test_records_keep_the_gaps_between_their_offsets() -> None:
    records = [Record(10, 5, b"a", b"1", ()), Record(17, 6, b"b", b"2", ())]
    batch = encode_batch(records, base_offset=10)
    assert decode_batch(batch) == records
    assert read_header(batch).last_offset == 17


def test_attributes_of_a_control_batch() -> None:
    header = read_header(encode_batch([(1, b"\0\0\0\1", b"\0\0\0\0\0\7", ())], control=True, transactional=True))
    assert header.is_control
    assert header.is_transactional


def test_a_batch_without_records_reads_as_empty() -> None:
    """Compaction may leave such a batch to keep a producer's last sequence."""
    batch = encode_batch(NEW_RECORDS)[:61]
    struct.pack_into(">i", batch, 57, 0)
    assert decode_batch(sealed(batch)) == []


def test_a_batch_needs_a_record_to_be_written() -> None:
    with pytest.raises(AssertionError):
        encode_batch([])


def test_a_wrong_checksum_is_corrupt() -> None:
    batch = encode_batch(NEW_RECORDS)
    batch[-1] ^= 1
    with pytest.raises(CorruptBatchError):
        decode_batch(batch)


@pytest.mark.parametrize("count", [-1, 3, 5, 2**31 - 1])
def test_a_count_that_lies_is_corrupt(count: int) -> None:
    batch = encode_batch(NEW_RECORDS)
    struct.pack_into(">i", batch, 57, count)
    with pytest.raises(CorruptBatchError):
        decode_batch(sealed(batch))


# A record is: length, attributes, timestamp delta, offset delta, key length, value length, header count, all zig-zag.
MALFORMED = {
    "length past the end": "40 00 00 00 01 01 00",
    "negative length": "01 00 00 00 01 01 00",
    "empty record": "00 00 00 00 00 00 00",
    "ends inside the key": "0c 00 00 00 06 61 61",
    "key of two gigabytes": "14 00 00 00 fe ff ff ff 0f 01 00",
    "stray bytes in the record": "0e 00 00 00 01 01 00 00",
    "stray bytes behind the record": "0c 00 00 00 01 01 00 00",
    "endless varint": "1c 00 ff ff ff ff ff ff ff ff ff ff ff 01 00",
    "negative header count": "0c 00 00 00 01 01 01",
    "more headers than bytes": "0c 00 00 00 01 01 7e",
    "header without a name": "10 00 00 00 01 01 02 01 01",
}


def test_a_header_name_that_is_no_text_is_read_as_java_does() -> None:
    batch = encode_batch([(0, None, None, ())])[:61] + bytes.fromhex("12 00 00 00 01 01 02 02 ff 01")
    (record,) = decode_batch(sealed(batch))
    assert record.headers == (("\ufffd", None),)


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_records_are_corrupt(case: str) -> None:
    batch = encode_batch([(0, None, None, ())])[:61] + bytes.fromhex(MALFORMED[case])
    with pytest.raises(CorruptBatchError):
        decode_batch(sealed(batch))


def test_an_unknown_codec_is_corrupt() -> None:
    batch = encode_batch(NEW_RECORDS)
    struct.pack_into(">h", batch, 21, 6)
    with pytest.raises(CorruptBatchError):
        decode_batch(sealed(batch))


@CODECS
def test_records_larger_than_the_caller_allows_are_refused(codec: Codec) -> None:
    batch = encode_batch([(0, None, bytes(100_000), ())], codec=codec)
    assert len(decode_batch(batch, limit_bytes=100_100)) == 1
    with pytest.raises(CorruptBatchError):
        decode_batch(batch, limit_bytes=99_000)
