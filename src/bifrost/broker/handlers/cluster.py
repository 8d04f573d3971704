"""ApiVersions and DescribeCluster: who is here, and what is spoken."""

from __future__ import annotations

import re

from bifrost.broker.context import ControllerContext, RequestContext
from bifrost.broker.handlers.features import tell_features
from bifrost.broker.registry import announced, api, controller_api
from bifrost.errors import ApiError, ErrorCode
from bifrost.protocol.apis import ApiKey
from bifrost.protocol.messages.cluster import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from bifrost.raft.wire import NOBODY

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_BROKERS, _CONTROLLERS = 1, 2
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


def _not_described(_request: DescribeClusterRequest, code: ErrorCode, detail: str) -> DescribeClusterResponse:
    return DescribeClusterResponse(error_code=code, error_message=detail)


@api(ApiKey.DESCRIBE_CLUSTER, versions=range(3), on_error=_not_described)
def describe_cluster(ctx: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    """v1 says whether brokers or controllers are meant, which only listeners of their own tell (KIP-919); v2 may ask
    for fenced brokers (KIP-1073)."""
    _check_endpoint_type(ctx.version, request.endpoint_type, _BROKERS)
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


@controller_api(ApiKey.DESCRIBE_CLUSTER, versions=range(3), on_error=_not_described)
def describe_controllers(ctx: ControllerContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    """v1 asks for controllers (KIP-919): those who vote, and which of them leads as far as this node knows."""
    _check_endpoint_type(ctx.version, request.endpoint_type, _CONTROLLERS)
    voters = ctx.odin.voters
    leader = ctx.odin.member.core.leader
    response = DescribeClusterResponse(
        endpoint_type=_CONTROLLERS,
        cluster_id=ctx.odin.replica.image.cluster_id or "",
        controller_id=NOBODY if leader not in voters else leader,
        brokers=[DescribeClusterBroker(broker_id=node, host=host, port=port) for node, (host, port) in voters.items()],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response


def _check_endpoint_type(version: int, asked: int, here: int) -> None:
    """Kafka: AuthHelper.computeDescribeClusterResponse. v0 cannot say whom it means, and means brokers."""
    if asked == here:
        return
    if asked not in (_BROKERS, _CONTROLLERS):
        raise ApiError(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"there are no endpoints of type {asked}")
    code = ErrorCode.INVALID_REQUEST if version == 0 else ErrorCode.MISMATCHED_ENDPOINT_TYPE
    raise ApiError(code, f"this is a {'broker' if here == _BROKERS else 'controller'}'s listener")
