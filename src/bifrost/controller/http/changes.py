"""Changes as HTTP clients ask for them, in Kafka's messages, and Kafka's answers as values or errors. Pure.

The messages are those that brokers pass on to the active Odin: there is one way to change metadata.
"""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec

from bifrost.controller.core.image import BROKER_RESOURCE, TOPIC_RESOURCE
from bifrost.errors import ApiError, ErrorCode
from bifrost.protocol.messages.configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from bifrost.protocol.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

BODY_BYTES_MAX: Final = 1 << 20
_TIMEOUT_MS: Final = 10_000
_SET: Final = 0
_DELETE: Final = 1
_INT32_MAX: Final = (1 << 31) - 1
_INT16_MAX: Final = (1 << 15) - 1

ConfigValue = str | int | float | bool | None
T = TypeVar("T")


class NewTopicBody(msgspec.Struct, forbid_unknown_fields=True):
    """A topic to create. Without `partitions` and `replication_factor` the cluster's defaults hold."""

    topic: str
    partitions: int = -1
    replication_factor: int = -1
    assignments: list[list[int]] = []
    """Which brokers hold each partition, the preferred leader first; in place of the two above."""
    configs: dict[str, ConfigValue] = {}
    validate_only: bool = False
    """Check it, and create nothing."""


class CreatedTopicView(msgspec.Struct):
    topic: str
    topic_id: str
    partitions: int
    replication_factor: int


ConfigsBody = dict[str, ConfigValue]
"""Configs to set, by name; null takes one away."""


def read_body(body: bytes, kind: type[T]) -> T:
    """ApiError(INVALID_REQUEST) says what is wrong with it, and where."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"the body is not as it should be: {error}") from None


def creation(body: NewTopicBody) -> CreateTopicsRequest:
    _check_range("partitions", body.partitions, _INT32_MAX)
    _check_range("replication_factor", body.replication_factor, _INT16_MAX)
    for broker in (one for replicas in body.assignments for one in replicas):
        _check_range("assignments", broker, _INT32_MAX)
    return CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=body.topic,
                num_partitions=body.partitions,
                replication_factor=body.replication_factor,
                assignments=[
                    CreatableReplicaAssignment(partition_index=index, broker_ids=replicas)
                    for index, replicas in enumerate(body.assignments)
                ],
                configs=[CreatableTopicConfig(name=name, value=_text(one)) for name, one in body.configs.items()],
            )
        ],
        timeout_ms=_TIMEOUT_MS,
        validate_only=body.validate_only,
    )


def created(answer: CreateTopicsResponse) -> CreatedTopicView:
    (one,) = answer.topics
    _check(one.error_code, one.error_message)
    return CreatedTopicView(one.name, one.topic_id.hex, one.num_partitions, one.replication_factor)


def deletion(name: str) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=_TIMEOUT_MS)


def check_deleted(answer: DeleteTopicsResponse) -> None:
    (one,) = answer.responses
    _check(one.error_code, one.error_message)


def alteration(resource: str, name: str, configs: ConfigsBody) -> IncrementalAlterConfigsRequest:
    if not configs:
        raise ApiError(ErrorCode.INVALID_REQUEST, 'name at least one config, such as {"retention.ms": 60000}')
    return IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=TOPIC_RESOURCE if resource == "topic" else BROKER_RESOURCE,
                resource_name=name,
                configs=[
                    AlterableConfig(
                        name=config, config_operation=_DELETE if value is None else _SET, value=_text(value)
                    )
                    for config, value in configs.items()
                ],
            )
        ],
        validate_only=False,
    )


def check_altered(answer: IncrementalAlterConfigsResponse) -> None:
    (one,) = answer.responses
    _check(one.error_code, one.error_message)


def _check(code: int, message: str | None) -> None:
    if code:
        raise ApiError(ErrorCode(code), message or "")


def _check_range(field: str, value: int, most: int) -> None:
    if not -1 <= value <= most:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{field}: {value} is out of range")


def _text(value: ConfigValue) -> str | None:
    """As a properties file would have it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return None if value is None else str(value)
