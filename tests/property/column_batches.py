"""Batches as brokers keep them, drawn at random, and the rows that the plain codec finds in them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from bifrost.protocol.batch import read_header
from bifrost.protocol.compression import Codec
from bifrost.protocol.records import Record, decode_batch, encode_batch

TOPIC, PARTITION = "readings", 3
FIELDS = st.none() | st.binary(max_size=40) | st.binary(min_size=100, max_size=300)
HEADERS = st.lists(st.tuples(st.text(max_size=6), st.none() | st.binary(max_size=70)), max_size=4)
TIMES = st.integers(-1, 1 << 41)


@st.composite
def batches(draw: st.DrawFn, base_offset: int = 0) -> tuple[bytes, int]:
    """One batch, some of its records compacted away, and the offset behind it."""
    offset = base_offset
    records = []
    for _ in range(draw(st.integers(1, 12))):
        offset += draw(st.sampled_from([0, 0, 0, 1, 70, 9000]))  # compaction leaves gaps
        records.append(Record(offset, draw(TIMES), draw(FIELDS), draw(FIELDS), draw(HEADERS)))
        offset += 1
    kind = draw(st.integers(0, 1))
    batch = encode_batch(
        records, base_offset=base_offset, codec=draw(st.sampled_from(Codec)), timestamp_type=kind, producer_id=7
    )
    return bytes(batch), offset


@st.composite
def logs(draw: st.DrawFn) -> list[bytes]:
    """Several batches one behind the other."""
    offset = draw(st.integers(0, 1 << 40))
    found = []
    for _ in range(draw(st.integers(1, 5))):
        batch, offset = draw(batches(offset))
        found.append(batch)
    return found


def plain_rows(log: list[bytes]) -> list[dict[str, Any]]:
    """What `decode` must find, read one record at a time."""
    rows = []
    for batch in log:
        append_time = read_header(batch).is_append_time
        rows += [
            {
                "key": record.key,
                "value": record.value,
                "topic": TOPIC,
                "partition": PARTITION,
                "offset": record.offset,
                "timestamp": record.timestamp * 1000,
                "timestampType": int(append_time),
                "headers": [{"key": name, "value": value} for name, value in record.headers],
            }
            for record in decode_batch(batch)
        ]
    return rows
