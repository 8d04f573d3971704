"""Short ways to change a config and to look at it."""

from __future__ import annotations

from bifrost.errors import ErrorCode
from bifrost.protocol.messages.configs import (
    AlterableConfig,
    AlterConfigsResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.integration.wire import Wire

TOPIC, BROKER = 2, 4


def try_config(wire: Wire, kind: int, resource: str, name: str, value: str | None) -> ErrorCode:
    """Set a config, or with None delete it; the code of the answer."""
    change = AlterableConfig(name=name, config_operation=1 if value is None else 0, value=value)
    wanted = AlterConfigsResource(resource_type=kind, resource_name=resource, configs=[change])
    (answer,) = wire.call(1, IncrementalAlterConfigsRequest(resources=[wanted], validate_only=False)).responses
    return ErrorCode(answer.error_code)


def set_config(wire: Wire, kind: int, resource: str, name: str, value: str | None) -> None:
    assert try_config(wire, kind, resource, name, value) is ErrorCode.NONE


def config_of(wire: Wire, kind: int, resource: str, name: str) -> tuple[str | None, int]:
    """Value and source."""
    wanted = DescribeConfigsResource(resource_type=kind, resource_name=resource, configuration_keys=[name])
    (result,) = wire.call(4, DescribeConfigsRequest(resources=[wanted])).results
    (entry,) = result.configs
    return entry.value, entry.config_source
