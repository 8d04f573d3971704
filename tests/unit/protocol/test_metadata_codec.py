"""The hand-written Metadata encoder, where its bytes are worth reading."""

from __future__ import annotations

from uuid import UUID

import pytest

from bifrost.errors import ProtocolError
from bifrost.protocol.codec import reader
from bifrost.protocol.messages import AUTHORIZED_OPERATIONS_OMITTED
from bifrost.protocol.messages.cluster import MetadataResponse
from bifrost.protocol.metadata import BrokerMetadata, PartitionMetadata, encode_response, encode_topic, read_request
from bifrost.protocol.schema import ZERO_UUID

PARTITION = PartitionMetadata(0, 1, 2, 3, (2, 4), (2,), (4,))


def test_the_oldest_topic() -> None:
    encoded = encode_topic(0, error_code=0, name="t", topic_id=ZERO_UUID, partitions=[PARTITION])
    partition = "0000 00000001 00000002" + "00000002 00000002 00000004" + "00000001 00000002"
    assert encoded == bytes.fromhex("0000 0001 74 00000001" + partition)


def test_the_newest_topic() -> None:
    encoded = encode_topic(13, error_code=0, name="t", topic_id=UUID(int=7), is_internal=True, partitions=[PARTITION])
    partition = "0000 00000001 00000002 00000003" + "03 00000002 00000004" + "02 00000002" + "02 00000004" + "00"
    assert encoded == bytes.fromhex("0000 02 74" + "00" * 15 + "07" + "01 02" + partition + "80000000 00")


def test_an_unknown_id_has_no_name() -> None:
    for version, name in ((12, None), (11, "")):
        topic = encode_topic(version, error_code=100, name=None, topic_id=UUID(int=7))
        response = encode_response(version, brokers=[], cluster_id="c", controller_id=-1, topics=[topic])
        assert reader(MetadataResponse, version)(response, 0)[0].topics[0].name == name


def test_more_replicas_than_one_byte_can_count() -> None:
    crowd = PartitionMetadata(0, 0, 0, 0, range(200), range(127), range(126))
    topic = encode_topic(13, error_code=0, name="t", topic_id=ZERO_UUID, partitions=[crowd, PARTITION, crowd])
    response = encode_response(13, brokers=[], cluster_id=None, controller_id=-1, topics=[topic])
    partitions = reader(MetadataResponse, 13)(response, 0)[0].topics[0].partitions
    assert [len(partition.replica_nodes) for partition in partitions] == [200, 2, 200]
    assert partitions[0].isr_nodes == list(range(127))
    assert partitions[0].offline_replicas == list(range(126))


def test_encoded_topics_are_put_together_as_they_are() -> None:
    topics = [encode_topic(9, error_code=0, name=name, topic_id=ZERO_UUID) for name in ("a", "b")]
    brokers = [BrokerMetadata(1, "h", 9092, "r"), BrokerMetadata(2, "i", 9093)]
    response = encode_response(9, throttle_time_ms=3, brokers=brokers, cluster_id="c", controller_id=1, topics=topics)
    assert topics[0] + topics[1] in response
    message, position = reader(MetadataResponse, 9)(response, 0)
    assert position == len(response)
    assert (message.throttle_time_ms, message.cluster_id, message.controller_id) == (3, "c", 1)
    assert [(broker.host, broker.rack) for broker in message.brokers] == [("h", "r"), ("i", None)]
    assert [topic.name for topic in message.topics] == ["a", "b"]
    assert message.cluster_authorized_operations == AUTHORIZED_OPERATIONS_OMITTED


def test_requests_are_read_from_their_position() -> None:
    request = read_request(b"head" + b"\0\0\0\x01\0\x01t", 4, 0)
    assert request.topics is not None
    assert [topic.name for topic in request.topics] == ["t"]
    assert request.allow_auto_topic_creation
    with pytest.raises(ProtocolError):
        read_request(b"\0\0\0\x01\0\x05t", 0, 0)
