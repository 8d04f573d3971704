"""Columns hold what the plain codec finds, with either kind of kernels, whatever is asked for."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bifrost.columnar.decoder import Decoder
from bifrost.columnar.kernels import kernels
from bifrost.columnar.schema import ALL_COLUMNS
from bifrost.protocol.batch import iter_headers
from bifrost.protocol.compression import Codec
from bifrost.protocol.records import NewRecord, encode_batch
from tests.property.column_batches import PARTITION, TOPIC, batches, logs, plain_rows

BOTH = pytest.mark.parametrize("name", ["numba", "numpy"])
NUMBERS = {pa.timestamp("us", tz="UTC"): pa.int64()}
COLUMNS = st.lists(st.sampled_from(ALL_COLUMNS), min_size=1, unique=True)


def rows_of(found: list[pa.RecordBatch]) -> list[dict[str, Any]]:
    rows = []
    for batch in found:
        batch.validate(full=True)
        numbers = pa.schema([(field.name, NUMBERS.get(field.type, field.type)) for field in batch.schema])
        rows += batch.cast(numbers).to_pylist()
    return rows


@BOTH
@given(log=logs(), columns=COLUMNS, data=st.data())
def test_columns_are_what_the_plain_codec_finds(
    name: str, log: list[bytes], columns: list[str], data: st.DataObject
) -> None:
    expected = plain_rows(log)
    offsets = [row["offset"] for row in expected]
    edges = st.sampled_from(offsets) | st.integers(offsets[0] - 2 if offsets[0] > 1 else 0, offsets[-1] + 2)
    start, end = data.draw(edges), data.draw(st.none() | edges)
    batch_rows = data.draw(st.sampled_from([1, 2, 7, 65_536]))
    decoder = Decoder(TOPIC, PARTITION, columns, batch_rows=batch_rows, using=kernels(name))
    found = list(decoder.decode(b"".join(log), start, end))
    assert all(batch.num_rows <= batch_rows and batch.schema.names == columns for batch in found)
    wanted = [row for row in expected if start <= row["offset"] and (end is None or row["offset"] < end)]
    assert rows_of(found) == [{column: row[column] for column in columns} for row in wanted]


@BOTH
@given(log=logs(), data=st.data())
def test_a_batch_that_is_cut_off_at_the_end_is_left_out(name: str, log: list[bytes], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(log[-1]) - 1))
    decoder = Decoder(TOPIC, PARTITION, ALL_COLUMNS, using=kernels(name))
    found = decoder.decode(b"".join(log[:-1]) + log[-1][:cut])
    assert rows_of(list(found)) == plain_rows(log[:-1])


@given(batches())
def test_what_is_fetched_may_be_read_only_or_not(drawn: tuple[bytes, int]) -> None:
    batch, _ = drawn
    decoder = Decoder(TOPIC, PARTITION, ALL_COLUMNS, using=kernels("numba"))
    assert rows_of(list(decoder.decode(memoryview(bytearray(batch))))) == rows_of(list(decoder.decode(batch)))


@BOTH
@given(
    turns=st.lists(st.tuples(st.sampled_from([1, 2, 3]), st.sampled_from(["write", "commit", "abort", "plain"]))),
    codec=st.sampled_from(Codec),
)
def test_rows_of_aborted_transactions_are_left_out(name: str, turns: list[tuple[int, str]], codec: Codec) -> None:
    log, aborted, expected = transactions(turns, codec)
    decoder = Decoder(TOPIC, PARTITION, ["value"], using=kernels(name))
    everything = [b"%d" % offset for offset in sorted(kept_and_aborted(log))]
    assert [row["value"] for row in rows_of(list(decoder.decode(log)))] == everything
    assert [row["value"] for row in rows_of(list(decoder.decode(log, aborted=aborted)))] == expected


def transactions(turns: list[tuple[int, str]], codec: Codec) -> tuple[bytes, list[tuple[int, int]], list[bytes]]:
    """A log of three producers, what a broker says was aborted in it, and the values of all other records."""
    log = bytearray()
    open_since: dict[int, list[int]] = {}
    aborted: list[tuple[int, int]] = []
    lost: set[int] = set()
    for offset, (producer, turn) in enumerate([*turns, *((producer, "commit") for producer in (1, 2, 3))]):
        if turn in ("write", "plain"):
            record: NewRecord = (5, None, b"%d" % offset, ())
            log += encode_batch(
                [record], base_offset=offset, producer_id=producer, codec=codec, transactional=turn == "write"
            )
            if turn == "write":
                open_since.setdefault(producer, []).append(offset)
        else:
            kind = b"\x00\x00\x00\x01" if turn == "commit" else b"\x00\x00\x00\x00"
            marker: NewRecord = (5, kind, b"", ())
            log += encode_batch([marker], base_offset=offset, producer_id=producer, transactional=True, control=True)
            written = open_since.pop(producer, [])
            if turn == "abort" and written:
                aborted.append((producer, written[0]))
                lost.update(written)
    return bytes(log), aborted, [b"%d" % each for each in sorted(kept_and_aborted(bytes(log))) if each not in lost]


def kept_and_aborted(log: bytes) -> list[int]:
    return [header.base_offset for _, header in iter_headers(log) if not header.is_control]
