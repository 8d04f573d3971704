"""A real broker inside your tests.

from bifrost.testing import Cluster

with Cluster() as cluster:
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap})
"""

from bifrost.testing.cluster import Cluster

__all__ = ["Cluster"]
