"""The brokers of a cluster, those that are fenced among them, which librdkafka does not tell of."""

from __future__ import annotations

from collections import Counter

from bifrost.client.descriptions import BrokerDescription
from bifrost.client.wire.cluster import Cluster
from bifrost.client.wire.failures import TryAgain, from_code
from bifrost.client.wire.patience import Deadline
from bifrost.errors import ErrorCode
from bifrost.protocol.messages.cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    MetadataRequest,
    MetadataResponse,
)


def describe_brokers(cluster: Cluster, deadline: Deadline) -> list[BrokerDescription]:
    """As the first broker that answers knows them. Clusters before KIP-1073 name only those that are not fenced."""

    def attempt() -> list[BrokerDescription]:
        answer = cluster.ask_any(DescribeClusterRequest(include_fenced_brokers=True), DescribeClusterResponse, deadline)
        if answer.error_code:
            failure = from_code(answer.error_code, detail=answer.error_message, bootstrap=str(cluster))
            raise TryAgain(failure) if ErrorCode(answer.error_code).retriable else failure
        metadata = cluster.ask_any(MetadataRequest(topics=None), MetadataResponse, deadline)
        partitions = [partition for topic in metadata.topics for partition in topic.partitions]
        leaders = Counter(partition.leader_id for partition in partitions)
        replicas = Counter(replica for partition in partitions for replica in partition.replica_nodes)
        return [
            BrokerDescription(
                id=broker.broker_id,
                host=broker.host,
                port=broker.port,
                rack=broker.rack,
                fenced=broker.is_fenced,
                controller=broker.broker_id == answer.controller_id,
                leaders=leaders[broker.broker_id],
                replicas=replicas[broker.broker_id],
            )
            for broker in sorted(answer.brokers, key=lambda each: each.broker_id)
        ]

    return cluster.persist(attempt, deadline, even_if_unreachable=False)
