"""ApiVersions and DescribeCluster: who is here, and what is spoken."""

from __future__ import annotations

import re

from bifrost.broker.context import RequestContext
from bifrost.broker.handlers.features import tell_features
from bifrost.broker.registry import announced, api
from bifrost.errors import ApiError, ErrorCode
from bifrost.protocol.apis import ApiKey
from bifrost.protocol.messages.cluster import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_BROKERS = 1
CLUSTER_OPERATIONS = sum(1 << operation for operation in (5, 7, 8, 9, 10, 11, 12))
"""Everything that can be done to a cluster (AclOperation 5 and 7 to 12), since there is no access control yet."""


@api(
    ApiKey.API_VERSIONS,
    versions=range(5),
    on_error=lambda _request, code, _detail: ApiVersionsResponse(error_code=code, api_keys=[]),
)
def api_versions(ctx: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """v3 names the client's software (KIP-511); v4 allows features that start at 0."""
    check_software(ctx.version, request)
    return tell_features(ApiVersionsResponse(api_keys=announced()), ctx.broker.image, ctx.version)


def check_software(version: int, request: ApiVersionsRequest) -> None:
    """Refuse a client whose software has a name that no metric could have (KIP-511)."""
    if version >= 3:
        for text in (request.client_software_name, request.client_software_version):
            if not _SOFTWARE.fullmatch(text):
                raise ApiError(ErrorCode.INVALID_REQUEST, f"client software {text!r}")


@api(
    ApiKey.DESCRIBE_CLUSTER,
    versions=range(3),
    on_error=lambda _request, code, detail: DescribeClusterResponse(error_code=code, error_message=detail),
)
def describe_cluster(ctx: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    """v1 may ask for controllers (KIP-919), whom only their own listener names; v2 for fenced brokers (KIP-1073)."""
    if request.endpoint_type != _BROKERS:
        code = ErrorCode.MISMATCHED_ENDPOINT_TYPE if request.endpoint_type == 2 else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        raise ApiError(code, "this is a broker's listener")
    metadata, listener = ctx.broker.metadata, ctx.connection.listener
    told = [(broker, False) for broker in metadata.brokers(listener)]
    if request.include_fenced_brokers:
        told += [(broker, True) for broker in metadata.fenced_brokers(listener)]
    response = DescribeClusterResponse(
        cluster_id=metadata.cluster_id,
        controller_id=metadata.controller_id,
        brokers=[
            DescribeClusterBroker(
                broker_id=broker.node_id, host=broker.host, port=broker.port, rack=broker.rack, is_fenced=is_fenced
            )
            for broker, is_fenced in sorted(told)
        ],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response
