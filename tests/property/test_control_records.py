"""Control records of the metadata log, against kio, and damaged."""

from __future__ import annotations

import importlib
import struct
from typing import Any

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st
from kio.records.readers import read_batch

from bifrost.protocol.batch import CorruptBatchError, read_header
from bifrost.protocol.control_records import (
    ControlRecord,
    KRaftVersion,
    LeaderChange,
    SnapshotFooter,
    SnapshotHeader,
    Voters,
    control_batch,
    decode_control,
    encode_control,
    read_control_batch,
)
from tests.property import codec_oracle as oracle
from tests.property.declared import messages, to_kio

KINDS = {
    LeaderChange: (2, "leader_change_message", "LeaderChangeMessage"),
    SnapshotHeader: (3, "snapshot_header_record", "SnapshotHeaderRecord"),
    SnapshotFooter: (4, "snapshot_footer_record", "SnapshotFooterRecord"),
    KRaftVersion: (5, "k_raft_version_record", "KRaftVersionRecord"),
    Voters: (6, "voters_record", "VotersRecord"),
}
EVERY_VERSION = pytest.mark.parametrize(
    ("cls", "version"), [(cls, version) for cls in KINDS for version in cls.versions]
)
OFFSETS = st.integers(0, (1 << 63) - 1)
EPOCHS = st.integers(0, (1 << 31) - 1)
TIMES = st.integers(0, 1 << 44)


@EVERY_VERSION
@oracle.FEW_EXAMPLES
@given(data=st.data())
def test_keys_and_values_are_kafkas_and_read_back_equal(
    cls: type[ControlRecord], version: int, data: st.DataObject
) -> None:
    number, module, name = KINDS[cls]
    kio_type: Any = getattr(importlib.import_module(f"kio.schema.{module}.v{version}.data"), name)
    record = data.draw(messages(cls, version))
    key, value = encode_control(record, version=version)
    assert key == struct.pack(">hh", 0, number)
    assert value == oracle.write(to_kio(record, version, kio_type, version=version))
    assert decode_control(key, value) == record


@EVERY_VERSION
@oracle.FEW_EXAMPLES
@given(data=st.data(), base_offset=OFFSETS, leader_epoch=EPOCHS, timestamp=TIMES)
def test_a_batch_holds_one_record_and_is_marked_as_control(
    cls: type[ControlRecord], version: int, data: st.DataObject, base_offset: int, leader_epoch: int, timestamp: int
) -> None:
    record = data.draw(messages(cls, version))
    batch = control_batch(
        record, base_offset=base_offset, leader_epoch=leader_epoch, timestamp=timestamp, version=version
    )
    assert read_control_batch(batch) == [record]
    header = read_header(batch)
    assert (header.is_control, header.is_transactional, header.record_count) == (True, False, 1)
    theirs, size = read_batch(bytes(batch), 0)
    assert size == len(batch)
    assert (theirs.base_offset, theirs.partition_leader_epoch, theirs.attributes) == (base_offset, leader_epoch, 1 << 5)
    assert (theirs.producer_id, theirs.producer_epoch, theirs.base_sequence) == (-1, -1, -1)
    assert (theirs.base_timestamp, theirs.max_timestamp, theirs.last_offset_delta) == (timestamp, timestamp, 0)
    (only,) = theirs.records
    assert (only.offset, only.key, only.value, only.headers) == (
        base_offset,
        *encode_control(record, version=version),
        (),
    )


@EVERY_VERSION
@oracle.FEW_EXAMPLES
@given(data=st.data())
def test_a_value_cut_short_is_refused(cls: type[ControlRecord], version: int, data: st.DataObject) -> None:
    key, value = encode_control(data.draw(messages(cls, version)), version=version)
    for end in range(0, len(value), 1 + len(value) // 60):
        with pytest.raises(CorruptBatchError):
            decode_control(key, value[:end])


@EVERY_VERSION
@oracle.FEW_EXAMPLES
@given(data=st.data())
def test_damage_behind_a_right_checksum_is_a_corrupt_batch(
    cls: type[ControlRecord], version: int, data: st.DataObject
) -> None:
    record = data.draw(messages(cls, version))
    batch = control_batch(record, base_offset=0, leader_epoch=1, timestamp=0, version=version)
    for position in data.draw(st.lists(st.integers(61, len(batch) - 1), min_size=1, max_size=4)):
        batch[position] = data.draw(st.integers(0, 255))
    struct.pack_into(">I", batch, 17, crc32c(batch[21:]))
    try:
        read_control_batch(batch)
    except CorruptBatchError:
        pass
