"""DescribeConfigs, AlterConfigs in both forms, ListConfigResources: what is set, where, and changing it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from bifrost.broker.context import ControllerContext, RequestContext
from bifrost.broker.odin import Odin
from bifrost.broker.registry import admin_api, api, controller_api
from bifrost.controller.core.config_changes import AlteredResource, ConfigChange, ResourceChange
from bifrost.controller.core.image import BROKER_RESOURCE, EVERY_BROKER, GROUP_RESOURCE, TOPIC_RESOURCE
from bifrost.controller.core.names import check_topic_name
from bifrost.errors import ApiError, ErrorCode
from bifrost.protocol.apis import ApiKey
from bifrost.protocol.messages.configs import (
    AlterConfigsResourceResponse,
    ConfigResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from bifrost.protocol.messages.legacy_configs import AlterConfigsRequest, AlterConfigsResponse
from bifrost.settings import ConfigEntry, describe_broker, describe_every_broker, describe_group

_CONFIG_RESOURCES: Final = (TOPIC_RESOURCE, BROKER_RESOURCE, 8, 16, GROUP_RESOURCE)
"""What Kafka knows of; the rest are loggers of brokers and client metrics."""


@api(ApiKey.DESCRIBE_CONFIGS, versions=range(1, 5))
def describe_configs(ctx: RequestContext, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """v1 synonyms (KIP-226); v3 types and documentation (KIP-569); v4 is flexible."""
    return _answer(ctx.broker.odin, request)


@controller_api(ApiKey.DESCRIBE_CONFIGS, versions=range(1, 5))
def describe_configs_at_controller(ctx: ControllerContext, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """The same by what this node has heard of, and of itself (KIP-919)."""
    return _answer(ctx.odin, request)


def _answer(odin: Odin, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(results=[_describe(odin, request, resource) for resource in request.resources])


def _describe(odin: Odin, request: DescribeConfigsRequest, resource: DescribeConfigsResource) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        resource_type=resource.resource_type, resource_name=resource.resource_name, error_message=""
    )
    try:
        entries = _entries(odin, resource)
    except ApiError as error:
        result.error_code = error.code
        result.error_message = error.detail
        return result
    wanted = resource.configuration_keys
    result.configs = [_encode(entry, request) for entry in entries if not wanted or entry.name in wanted]
    return result


def _entries(odin: Odin, resource: DescribeConfigsResource) -> list[ConfigEntry]:
    live, image, name = odin.live, odin.replica.image, resource.resource_name
    if resource.resource_type == TOPIC_RESOURCE:
        check_topic_name(name)
        if name not in image.topics:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return live.topic_describer().describe(image.topic_configs(name))
    if resource.resource_type == BROKER_RESOURCE:
        if name == EVERY_BROKER:
            return describe_every_broker(live.of_every_broker)
        me = odin.member.me
        if name != str(me):
            raise ApiError(ErrorCode.INVALID_REQUEST, f"node {name} is not this one; ask it, this is {me}")
        return describe_broker(
            live.started_with, dynamic_broker=live.of_this_broker, dynamic_default=live.of_every_broker
        )
    if resource.resource_type == GROUP_RESOURCE:
        if not name:
            raise ApiError(ErrorCode.INVALID_REQUEST, "a group without a name")
        return describe_group(
            live.started_with,
            image.group_configs(name),
            dynamic_broker=live.of_this_broker,
            dynamic_default=live.of_every_broker,
        )
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


def _altered(results: Iterable[AlteredResource]) -> list[AlterConfigsResourceResponse]:
    return [
        AlterConfigsResourceResponse(
            resource_type=one.resource_type,
            resource_name=one.resource_name,
            error_code=one.error,
            error_message=one.message,
        )
        for one in results
    ]


def _refused(
    request: IncrementalAlterConfigsRequest | AlterConfigsRequest, code: ErrorCode, detail: str
) -> list[AlterConfigsResourceResponse]:
    return _altered(AlteredResource(one.resource_type, one.resource_name, code, detail) for one in request.resources)


@admin_api(
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    versions=range(2),
    on_error=lambda *refusal: IncrementalAlterConfigsResponse(responses=_refused(*refusal)),
)
async def incremental_alter_configs(
    ctx: ControllerContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """Sets, deletes, and changes lists by items (KIP-339). v1 is flexible."""
    wanted = [
        ResourceChange(
            one.resource_type,
            one.resource_name,
            [ConfigChange(config.name, config.value, config.config_operation) for config in one.configs],
        )
        for one in request.resources
    ]
    altered = await ctx.odin.controller.alter_configs(wanted, validate_only=request.validate_only)
    return IncrementalAlterConfigsResponse(responses=_altered(altered))


@admin_api(
    ApiKey.ALTER_CONFIGS,
    versions=range(3),
    on_error=lambda *refusal: AlterConfigsResponse(responses=_refused(*refusal)),
)
async def alter_configs(ctx: ControllerContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
    """Replaces: whatever is not mentioned goes back to its default. v2 is flexible."""
    wanted = [
        ResourceChange(
            one.resource_type, one.resource_name, [ConfigChange(config.name, config.value) for config in one.configs]
        )
        for one in request.resources
    ]
    altered = await ctx.odin.controller.alter_configs(wanted, replace=True, validate_only=request.validate_only)
    return AlterConfigsResponse(responses=_altered(altered))


@api(ApiKey.LIST_CONFIG_RESOURCES, versions=range(2))
def list_config_resources(ctx: RequestContext, request: ListConfigResourcesRequest) -> ListConfigResourcesResponse:
    """v0 lists client metrics, of which there are none here (KIP-714); v1 every type (KIP-1142)."""
    if ctx.version == 0:
        return ListConfigResourcesResponse()
    image = ctx.broker.image
    names: dict[int, Iterable[str]] = dict.fromkeys(_CONFIG_RESOURCES, ())
    names |= {TOPIC_RESOURCE: image.topics, BROKER_RESOURCE: map(str, image.live_brokers())}
    names[GROUP_RESOURCE] = [name for kind, name in image.configs if kind == GROUP_RESOURCE]
    types = dict.fromkeys(request.resource_types or _CONFIG_RESOURCES)
    if any(each not in names for each in types):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_type=each, resource_name=name) for each in types for name in names[each]
        ]
    )
