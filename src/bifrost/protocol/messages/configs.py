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
