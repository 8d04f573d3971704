"""Configuration of topics, brokers and groups."""

# ruff: noqa: RUF012 - an empty list as default is not shared: msgspec makes a new one for every message

from typing import Annotated

from bifrost.protocol.apis import ApiKey
from bifrost.protocol.schema import I8, I16, I32, Message, Struct, since


class DescribeConfigsResource(Struct):
    resource_type: I8
    resource_name: str
    # Null asks for every key.
    configuration_keys: list[str] | None = None


class DescribeConfigsRequest(Message, api=ApiKey.DESCRIBE_CONFIGS, versions=range(1, 5), flexible=4):
    """v1 adds synonyms (KIP-226), v3 types and documentation (KIP-569)."""

    resources: list[DescribeConfigsResource]
    include_synonyms: bool = False
    include_documentation: Annotated[bool, since(3)] = False


class DescribeConfigsSynonym(Struct):
    name: str
    value: str | None
    source: I8


class DescribeConfigsResourceResult(Struct):
    name: str
    # Null hides a sensitive value.
    value: str | None
    read_only: bool = False
    config_source: I8 = -1
    is_sensitive: bool = False
    synonyms: list[DescribeConfigsSynonym] = []
    config_type: Annotated[I8, since(3)] = 0
    documentation: Annotated[str | None, since(3)] = None


class DescribeConfigsResult(Struct):
    error_code: I16 = 0
    error_message: str | None = None
    resource_type: I8
    resource_name: str
    configs: list[DescribeConfigsResourceResult] = []


class DescribeConfigsResponse(Message, api=ApiKey.DESCRIBE_CONFIGS, versions=range(1, 5), flexible=4):
    throttle_time_ms: I32 = 0
    results: list[DescribeConfigsResult]


class AlterableConfig(Struct):
    name: str
    # 0 set, 1 delete, 2 append, 3 subtract.
    config_operation: I8
    value: str | None


class AlterConfigsResource(Struct):
    resource_type: I8
    resource_name: str
    configs: list[AlterableConfig]


class IncrementalAlterConfigsRequest(Message, api=ApiKey.INCREMENTAL_ALTER_CONFIGS, versions=range(2), flexible=1):
    """KIP-339."""

    resources: list[AlterConfigsResource]
    validate_only: bool


class AlterConfigsResourceResponse(Struct):
    error_code: I16 = 0
    error_message: str | None = None
    resource_type: I8
    resource_name: str


class IncrementalAlterConfigsResponse(Message, api=ApiKey.INCREMENTAL_ALTER_CONFIGS, versions=range(2), flexible=1):
    throttle_time_ms: I32 = 0
    responses: list[AlterConfigsResourceResponse]


class ListConfigResourcesRequest(Message, api=ApiKey.LIST_CONFIG_RESOURCES, versions=range(2), flexible=0):
    """v0 asks for client metrics (KIP-714), v1 for resources of any type (KIP-1142)."""

    # Empty asks for every type.
    resource_types: Annotated[list[I8], since(1)] = []


class ConfigResource(Struct):
    resource_name: str
    resource_type: Annotated[I8, since(1)] = 16


class ListConfigResourcesResponse(Message, api=ApiKey.LIST_CONFIG_RESOURCES, versions=range(2), flexible=0):
    throttle_time_ms: I32 = 0
    error_code: I16 = 0
    config_resources: list[ConfigResource] = []
