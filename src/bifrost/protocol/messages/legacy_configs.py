"""AlterConfigs, which replaces all configs of a resource. Apart from the others: its parts have their names."""

from bifrost.protocol.apis import ApiKey
from bifrost.protocol.messages.configs import AlterConfigsResourceResponse
from bifrost.protocol.schema import I8, I32, Message, Struct


class AlterableConfig(Struct):
    name: str
    value: str | None


class AlterConfigsResource(Struct):
    resource_type: I8
    resource_name: str
    configs: list[AlterableConfig]


class AlterConfigsRequest(Message, api=ApiKey.ALTER_CONFIGS, versions=range(3), flexible=2):
    resources: list[AlterConfigsResource]
    validate_only: bool


class AlterConfigsResponse(Message, api=ApiKey.ALTER_CONFIGS, versions=range(3), flexible=2):
    throttle_time_ms: I32 = 0
    responses: list[AlterConfigsResourceResponse]
