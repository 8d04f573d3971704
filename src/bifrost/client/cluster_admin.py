"""The part of `Admin` that knows the brokers."""

from __future__ import annotations

from typing import Any

from bifrost.client.descriptions import Broker, ClusterDescription, Health, judge
from bifrost.client.topic_admin import TopicAdmin


class ClusterAdmin(TopicAdmin):
    """The cluster as a whole."""

    def cluster(self) -> ClusterDescription:
        """The brokers that are up.

        >>> len(admin.cluster().brokers)
        1
        """
        found = self._ask(lambda client: client.describe_cluster(**self._limits()))
        controller = found.controller.id if found.controller is not None and found.controller.id >= 0 else None
        return ClusterDescription(
            found.cluster_id or "", controller, tuple(sorted(map(_broker, found.nodes), key=lambda each: each.id))
        )

    def health(self) -> Health:
        """What is missing: partitions without a leader or with too few replicas, brokers that are not there."""
        return judge(self.cluster(), self._describe(self._topic_names()))


def _broker(node: Any) -> Broker:
    return Broker(node.id, node.host, node.port, node.rack or None)
