"""Batches hold what the table says, in the partition where Java's client would send it; both kernels write the same."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bifrost.columnar.encoder import Columns, Encoded, encode
from bifrost.columnar.kernels import kernels
from bifrost.columnar.partitioning import Keyless, Partitioner
from bifrost.protocol.batch import accept_produced, read_header
from bifrost.protocol.compression import Codec
from bifrost.protocol.partitioners import partition_for_key
from bifrost.protocol.records import decode_batch
from tests.property.column_batches import FIELDS, HEADERS, TIMES

HEADER_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "key": FIELDS | st.binary(max_size=9),
            "value": FIELDS,
            "headers": st.none() | HEADERS.map(lambda pairs: [{"key": name, "value": value} for name, value in pairs]),
            "partition": st.none() | st.integers(0, 2),
            "timestamp": st.none() | TIMES,
        }
    ),
    max_size=40,
)
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADER_TYPE),
        ("partition", pa.int32()),
        ("timestamp", pa.timestamp("ms", tz="UTC")),
    ]
)
NOW_MS = 1_700_000_000_000


def encoded(table: pa.Table, name: str, partitions: int = 3, **settings: Any) -> list[Encoded]:
    partitioner = Partitioner(partitions, keyless=settings.pop("keyless", "sticky"), first=1)
    return list(encode(table, partitioner, now_ms=NOW_MS, using=kernels(name), **settings))


@given(
    rows=ROWS,
    codec=st.sampled_from(Codec),
    batch_bytes=st.sampled_from([100, 300, 2000, 512 << 10]),
    columns=st.builds(
        Columns,
        key=st.sampled_from([None, "key"]),
        value=st.sampled_from([None, "value"]),
        headers=st.sampled_from([None, "headers"]),
        partition=st.sampled_from([None, "partition"]),
        timestamp=st.sampled_from([None, "timestamp"]),
    ),
    skipped=st.integers(0, 3),
    keyless=st.sampled_from(["sticky", "round_robin"]),
)
def test_batches_hold_the_rows_in_order(
    rows: list[dict[str, Any]], codec: Codec, batch_bytes: int, columns: Columns, skipped: int, keyless: Keyless
) -> None:
    table = pa.Table.from_pylist(rows, SCHEMA).slice(skipped)  # a slice shares the buffers of the whole
    rows = rows[skipped:]
    settings: dict[str, Any] = {"codec": codec, "batch_bytes": batch_bytes, "columns": columns, "keyless": keyless}
    made = encoded(table, "numba", **settings)
    assert made == encoded(table, "numpy", **settings)
    found: dict[int, list[tuple[Any, ...]]] = {}
    for each in made:
        header = accept_produced(memoryview(each.batch), max_bytes=1 << 30, api_version=12)
        records = decode_batch(each.batch)
        assert each.records == header.record_count == len(records)
        assert [record.offset for record in records] == list(range(len(records)))
        assert header.max_timestamp == max(record.timestamp for record in records)
        assert header.codec == codec
        assert len(records) == 1 or each.content_bytes <= batch_bytes
        found.setdefault(each.partition, []).extend(record[1:] for record in records)
    for partition, records in found.items():
        assert records == [expected(row, columns) for row in rows if placed(row, columns) in (partition, None)] or any(
            placed(row, columns) is None for row in rows
        )
    assert sorted(map(repr, itertools.chain(*found.values()))) == sorted(repr(expected(row, columns)) for row in rows)


def expected(row: dict[str, Any], columns: Columns) -> tuple[Any, ...]:
    headers = tuple((each["key"], each["value"]) for each in row["headers"] or ()) if columns.headers else ()
    time = NOW_MS if columns.timestamp is None or row["timestamp"] is None else row["timestamp"]
    return time, row["key"] if columns.key else None, row["value"] if columns.value else None, headers


def placed(row: dict[str, Any], columns: Columns) -> int | None:
    """The one partition where the row belongs; None if any will do."""
    if columns.partition and row["partition"] is not None:
        return int(row["partition"])
    return None if not columns.key or row["key"] is None else partition_for_key(row["key"], 3)


@pytest.mark.parametrize("name", ["numba", "numpy"])
@given(
    keys=st.lists(st.binary(max_size=20) | st.binary(min_size=1020, max_size=1100), max_size=20),
    count=st.integers(2, 70_000),
)
def test_keys_go_where_the_java_client_sends_them(name: str, keys: list[bytes], count: int) -> None:
    table = pa.table({"key": pa.array(keys, pa.binary())})
    made = encoded(table, name, count, columns=Columns(value=None))
    places = {record.key: each.partition for each in made for record in decode_batch(each.batch)}
    assert places == {key: partition_for_key(key, count) for key in keys}


@pytest.mark.parametrize("name", ["numba", "numpy"])
def test_rows_without_a_key_stay_together_for_a_batch_and_move_on(name: str) -> None:
    table = pa.table({"value": pa.array([bytes(90)] * 100)})
    made = encoded(table, name, columns=Columns(key=None), batch_bytes=1061)
    assert [each.records for each in made if each.partition == 1][:2] == [10, 10]
    assert {each.partition for each in made} == {0, 1, 2}
    rounds = encoded(table, name, columns=Columns(key=None), keyless="round_robin")
    assert [(each.partition, each.records) for each in rounds] == [(0, 33), (1, 34), (2, 33)]


def test_turns_go_on_from_one_table_to_the_next() -> None:
    partitioner = Partitioner(3, keyless="round_robin", first=0)
    table = pa.table({"value": pa.array([b"a"])})
    columns = Columns(key=None)
    places = [each.partition for _ in range(4) for each in encode(table, partitioner, now_ms=0, columns=columns)]
    assert places == [0, 1, 2, 0]


def test_a_record_larger_than_a_batch_has_one_of_its_own() -> None:
    table = pa.table({"value": pa.array([b"a", bytes(5000), b"b"])})
    made = encoded(table, "numba", partitions=1, columns=Columns(key=None), batch_bytes=1000)
    assert [each.records for each in made] == [1, 1, 1]
    assert read_header(made[1].batch).size_bytes > 5000
