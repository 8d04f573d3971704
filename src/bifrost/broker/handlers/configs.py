"""DescribeConfigs: what is set, where it was set, and what it would be otherwise."""

from __future__ import annotations

from bifrost.broker.context import RequestContext
from bifrost.broker.registry import api
from bifrost.controller.core.image import BROKER_RESOURCE, EVERY_BROKER, TOPIC_RESOURCE
from bifrost.controller.core.names import check_topic_name
from bifrost.errors import ApiError, ErrorCode
from bifrost.protocol.apis import ApiKey
from bifrost.protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from bifrost.settings import ConfigEntry, describe_broker, describe_topic


@api(ApiKey.DESCRIBE_CONFIGS, versions=range(1, 5))
def describe_configs(ctx: RequestContext, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """v1 synonyms (KIP-226); v3 types and documentation (KIP-569); v4 is flexible."""
    return DescribeConfigsResponse(results=[_describe(ctx, request, resource) for resource in request.resources])


def _describe(
    ctx: RequestContext, request: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        resource_type=resource.resource_type, resource_name=resource.resource_name, error_message=""
    )
    try:
        entries = _entries(ctx, resource)
    except ApiError as error:
        result.error_code = error.code
        result.error_message = error.detail
        return result
    wanted = resource.configuration_keys
    result.configs = [_encode(entry, request) for entry in entries if not wanted or entry.name in wanted]
    return result


def _entries(ctx: RequestContext, resource: DescribeConfigsResource) -> list[ConfigEntry]:
    broker, image, name = ctx.broker, ctx.broker.controller.image, resource.resource_name
    stored = image.configs
    everywhere = stored.get((BROKER_RESOURCE, EVERY_BROKER), {})
    here = stored.get((BROKER_RESOURCE, str(broker.node_id)), {})
    if resource.resource_type == TOPIC_RESOURCE:
        check_topic_name(name)
        if name not in image.topics:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        overrides = image.topic_configs(name)
        return describe_topic(broker.settings, overrides, dynamic_broker=here, dynamic_default=everywhere)
    if resource.resource_type == BROKER_RESOURCE:
        if name == EVERY_BROKER:
            every = describe_broker(broker.settings, dynamic_default=everywhere)
            return [entry for entry in every if entry.name in everywhere]
        if name != str(broker.node_id):
            raise ApiError(
                ErrorCode.INVALID_REQUEST, f"broker {name} is not this one; ask it, this is {broker.node_id}"
            )
        return describe_broker(broker.settings, dynamic_broker=here, dynamic_default=everywhere)
    raise ApiError(ErrorCode.INVALID_REQUEST, f"config resources of type {resource.resource_type} are not known here")


def _encode(entry: ConfigEntry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=synonym.source)
            for synonym in (entry.synonyms if request.include_synonyms else ())
        ],
        config_type=entry.kind,
        documentation=entry.documentation if request.include_documentation else None,
    )
