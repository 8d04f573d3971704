"""Small files, byte for byte as Kafka writes and reads them."""

from __future__ import annotations

from uuid import UUID

import pytest

from bifrost.log.checkpoints import (
    CorruptCheckpointError,
    decode_clean_shutdown,
    decode_epochs,
    decode_offsets,
    decode_properties,
    decode_topic_id,
    decode_uuid,
    encode_clean_shutdown,
    encode_epochs,
    encode_offsets,
    encode_properties,
    encode_topic_id,
    encode_uuid,
)
from bifrost.types import TopicPartition


def test_offset_checkpoints() -> None:
    offsets = {TopicPartition("a", 0): 5, TopicPartition("b.c-d", 12): 1 << 40}
    assert encode_offsets(offsets) == b"0\n2\na 0 5\nb.c-d 12 1099511627776\n"
    assert decode_offsets(encode_offsets(offsets)) == offsets
    assert decode_offsets(b"") == {}
    assert decode_offsets(b"0\n0\n") == {}


def test_epoch_checkpoints() -> None:
    assert encode_epochs([(0, 0), (3, 100)]) == b"0\n2\n0 0\n3 100\n"
    assert decode_epochs(b"0\n2\n0 0\n3 100\n") == [(0, 0), (3, 100)]


@pytest.mark.parametrize(
    "data",
    [
        b"1\n0\n",
        b"0\n",
        b"0\n2\na 0 5\n",
        b"0\n1\na 0\n",
        b"0\n1\na 0 -5\n",
        b"0\n1\na 0 x\n",
        b"0\nx\n",
        b"\xff",
        b"0\n1\na 0 " + b"9" * 5000 + b"\n",
    ],
)
def test_a_damaged_offset_checkpoint_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptCheckpointError):
        decode_offsets(data)


@pytest.mark.parametrize("data", [b"0\n2\n3 0\n2 5\n", b"0\n2\n1 5\n2 5\n", b"0\n1\n1 5 6\n"])
def test_epochs_that_do_not_rise_are_refused(data: bytes) -> None:
    with pytest.raises(CorruptCheckpointError):
        decode_epochs(data)


def test_the_clean_shutdown_marker() -> None:
    assert encode_clean_shutdown(27) == b'{"version":0,"brokerEpoch":27}'
    assert decode_clean_shutdown(b'{"version":0,"brokerEpoch":27}') == 27
    for data in (b"", b"{}", b"[]", b"nonsense", b'{"brokerEpoch":null}'):
        assert decode_clean_shutdown(data) == -1


def test_meta_properties_as_kafka_writes_them() -> None:
    data = b"#\n#Mon Jan 06 10:00:00 UTC 2025\nversion=1\ndirectory.id=abc\n\n! note\ncluster.id = x=y\nnode.id=1\n"
    assert decode_properties(data) == {"version": "1", "directory.id": "abc", "cluster.id": "x=y", "node.id": "1"}
    assert encode_properties({"version": "1", "node.id": "7"}) == b"node.id=7\nversion=1\n"
    with pytest.raises(CorruptCheckpointError):
        decode_properties(b"\xff\xfe")


def test_topic_ids_are_base64url() -> None:
    metadata_topic = UUID(int=1)
    assert encode_uuid(metadata_topic) == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert decode_uuid("AAAAAAAAAAAAAAAAAAAAAQ") == metadata_topic
    assert encode_topic_id(metadata_topic) == b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"
    assert decode_topic_id(encode_topic_id(metadata_topic) + b"\n") == metadata_topic


@pytest.mark.parametrize(
    "data", [b"", b"version: 1\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ", b"version: 0\ntopic_id: ???", b"\xff"]
)
def test_an_unreadable_topic_id_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptCheckpointError):
        decode_topic_id(data)
