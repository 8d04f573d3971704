"""The identity of the cluster: given once, checked at every start."""

from __future__ import annotations

from bifrost.controller.core.decision import Decision
from bifrost.controller.core.image import MetadataImage
from bifrost.controller.core.records import ClusterCreated
from bifrost.errors import ApiError, ErrorCode


def open_cluster(image: MetadataImage, cluster_id: str) -> Decision[None]:
    """Give a new cluster its id, or make sure that an old one has this id."""
    if image.cluster_id is None:
        return Decision([ClusterCreated(cluster_id)], None)
    if image.cluster_id != cluster_id:
        raise ApiError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"the metadata log belongs to cluster {image.cluster_id}, not to {cluster_id}",
        )
    return Decision((), None)
