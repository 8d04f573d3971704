"""Which features a cluster has, and at which levels they are (KIP-584): what ApiVersions tells besides versions."""

from __future__ import annotations

from bifrost import __version__
from bifrost.client.descriptions import Feature
from bifrost.client.wire.cluster import Cluster
from bifrost.client.wire.failures import from_code
from bifrost.client.wire.patience import Deadline
from bifrost.protocol.messages.cluster import ApiVersionsRequest, ApiVersionsResponse


def describe_features(cluster: Cluster, deadline: Deadline) -> list[Feature]:
    """As the first broker that answers knows them; a level that is not set is 0."""
    request = ApiVersionsRequest(client_software_name="bifrost", client_software_version=__version__)

    def attempt() -> list[Feature]:
        answer = cluster.ask_any(request, ApiVersionsResponse, deadline)
        if answer.error_code:
            raise from_code(answer.error_code, bootstrap=str(cluster))
        levels = {one.name: one.max_version_level for one in answer.finalized_features}
        return [
            Feature(one.name, levels.get(one.name, 0), one.min_version, one.max_version)
            for one in sorted(answer.supported_features, key=lambda each: each.name)
        ]

    return cluster.persist(attempt, deadline, even_if_unreachable=False)
