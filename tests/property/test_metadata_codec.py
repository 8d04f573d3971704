"""The hand-written Metadata encoder says what kio says, in every version."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bifrost.protocol.codec import writer
from bifrost.protocol.messages.cluster import MetadataRequest, MetadataResponse
from bifrost.protocol.metadata import BrokerMetadata, PartitionMetadata, encode_response, encode_topic, read_request

from .declared import kio_bytes, messages

UNHURRIED = settings(deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])

every_version = pytest.mark.parametrize("version", MetadataResponse.versions)


def encode(message: MetadataResponse, version: int) -> bytes:
    """`message` through the hand-written encoder."""
    topics = [
        encode_topic(
            version,
            error_code=topic.error_code,
            name=topic.name,
            topic_id=topic.topic_id,
            is_internal=topic.is_internal,
            partitions=[
                PartitionMetadata(
                    partition.error_code,
                    partition.partition_index,
                    partition.leader_id,
                    partition.leader_epoch,
                    partition.replica_nodes,
                    partition.isr_nodes,
                    partition.offline_replicas,
                )
                for partition in topic.partitions
            ],
            authorized_operations=topic.topic_authorized_operations,
        )
        for topic in message.topics
    ]
    return encode_response(
        version,
        throttle_time_ms=message.throttle_time_ms,
        brokers=[BrokerMetadata(broker.node_id, broker.host, broker.port, broker.rack) for broker in message.brokers],
        cluster_id=message.cluster_id,
        controller_id=message.controller_id,
        topics=topics,
        cluster_authorized_operations=message.cluster_authorized_operations,
        error_code=message.error_code,
    )


@every_version
@settings(UNHURRIED, max_examples=8)
@given(data=st.data())
def test_responses_are_those_of_kio(version: int, data: st.DataObject) -> None:
    message = data.draw(messages(MetadataResponse, version))
    assert encode(message, version) == kio_bytes(message, version) == writer(MetadataResponse, version)(message)


@every_version
@settings(UNHURRIED, max_examples=5)
@given(data=st.data())
def test_requests_are_those_of_kio(version: int, data: st.DataObject) -> None:
    message = data.draw(messages(MetadataRequest, version))
    assert read_request(kio_bytes(message, version), 0, version) == message
