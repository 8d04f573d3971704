"""Changing configs of topics, brokers and groups: what is refused, with which error, and what is recorded.

Refusals carry the codes of Kafka's ConfigAdminManager, through which a broker is asked, and of its
ConfigurationControlManager, which stores: the configs of a topic are INVALID_CONFIG, those of a broker INVALID_REQUEST
(KAFKA-13609). One bad resource does not spoil the others of its request; one bad config spoils its resource.
Deciding reads the image and changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from bifrost.controller.core.configs import check_broker_configs, check_sizes, check_topic_configs, current_settings
from bifrost.controller.core.decision import Decision
from bifrost.controller.core.image import BROKER_RESOURCE, EVERY_BROKER, GROUP_RESOURCE, TOPIC_RESOURCE, MetadataImage
from bifrost.controller.core.names import check_topic_name
from bifrost.controller.core.records import ConfigChanged, MetadataRecord
from bifrost.errors import ApiError, ErrorCode
from bifrost.settings import Kind, Settings
from bifrost.settings.broker import keys
from bifrost.settings.group import check_group_configs, group_keys
from bifrost.settings.keys import Key
from bifrost.settings.topic import topic_keys

RECORDS_MAX: Final = 10_000
"""Of one request (Kafka: QuorumController.MAX_RECORDS_PER_USER_OP)."""


class Operation(IntEnum):
    """What to do with one config; the numbers are those of the wire (Kafka: AlterConfigOp)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigChange(NamedTuple):
    """One config to change; the operation is as it came, and may be none of ours."""

    name: str
    value: str | None
    operation: int = Operation.SET


class ResourceChange(NamedTuple):
    """The changes of one topic, broker or group; "" is every broker."""

    resource_type: int
    resource_name: str
    changes: Sequence[ConfigChange]


class AlteredResource(NamedTuple):
    """The answer for one resource."""

    resource_type: int
    resource_name: str
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


def alter_configs(
    image: MetadataImage,
    settings: Settings,
    wanted: Sequence[ResourceChange],
    *,
    replace: bool = False,
    validate_only: bool = False,
) -> Decision[list[AlteredResource]]:
    """Change the configs of each resource; with `replace`, those that are not mentioned go."""
    times_named = Counter((one.resource_type, one.resource_name) for one in wanted)
    records: list[MetadataRecord] = []
    results: list[AlteredResource] = []
    for one in wanted:
        resource = (one.resource_type, one.resource_name)
        try:
            if times_named[resource] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, f"{one.resource_name or 'it'} is named more than once")
            _check_form(one.changes)
            current = image.configs.get(resource, {})
            start = {} if replace else current
            if one.resource_type == TOPIC_RESOURCE:
                target = _topic_target(image, settings, one, start)
            elif one.resource_type == BROKER_RESOURCE:
                target = _broker_target(image, settings, one, start)
            elif one.resource_type == GROUP_RESOURCE:
                target = _group_target(image, settings, one, start)
            else:
                raise ApiError(
                    ErrorCode.INVALID_REQUEST, f"resources of type {one.resource_type} have no configs to change here"
                )
        except ApiError as error:
            results.append(AlteredResource(*resource, error.code, error.detail))
            continue
        records += _differences(resource, current, target)
        if len(records) > RECORDS_MAX:
            raise ApiError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
        results.append(AlteredResource(*resource))
    return Decision(() if validate_only else records, results)


def _check_form(changes: Sequence[ConfigChange]) -> None:
    """What is wrong with a request whatever it is about."""
    names = Counter(change.name for change in changes)
    twice = [name for name, times in names.items() if times > 1]
    if twice:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"named more than once: {', '.join(twice)}")
    for name, value, operation in changes:
        if operation not in Operation.__members__.values():
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{name}: there is no operation {operation}")
        if value is None and operation != Operation.DELETE:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{name} has no value; delete the config to use the default")


def _topic_target(
    image: MetadataImage, settings: Settings, wanted: ResourceChange, start: Mapping[str, str]
) -> dict[str, str]:
    """All configs of the topic as they will be."""
    known = {name: spec.key for name, spec in topic_keys().items()}
    target = _after(start, wanted.changes, known)
    name = wanted.resource_name
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "a topic without a name; configs for all topics are the brokers'")
    check_topic_name(name)
    target = check_topic_configs(current_settings(image, settings), target.items())
    if name not in image.topics:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name} does not exist")
    return target


def _broker_target(
    image: MetadataImage, settings: Settings, wanted: ResourceChange, start: Mapping[str, str]
) -> dict[str, str]:
    """All stored configs of the node, or of every node, as they will be. A controller is one, too (KIP-919)."""
    name = wanted.resource_name
    if name != EVERY_BROKER and name not in map(str, image.brokers) and name not in _controllers(settings):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"there is no broker {name}, and no controller")
    target = _after(start, wanted.changes, keys())
    check_sizes(target.items())
    return check_broker_configs(image, settings, name, target)


def _controllers(settings: Settings) -> set[str]:
    """The ids of those who vote; whoever decides is one of them."""
    return {str(settings.node_id), *(voter.partition("@")[0] for voter in settings.controller_quorum_voters)}


def _group_target(
    image: MetadataImage, settings: Settings, wanted: ResourceChange, start: Mapping[str, str]
) -> dict[str, str]:
    """All configs of the group as they will be; they may be there before it is (KIP-848)."""
    if not wanted.resource_name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "a group without a name; configs for all groups are the brokers'")
    target = _after(start, wanted.changes, {name: spec.key for name, spec in group_keys().items()})
    check_sizes(target.items())
    try:
        return check_group_configs(current_settings(image, settings), target)
    except ValueError as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from None


def _after(start: Mapping[str, str], changes: Sequence[ConfigChange], known: Mapping[str, Key]) -> dict[str, str]:
    """The configs once every change was made; whether their values will do is not looked at."""
    target = dict(start)
    for name, value, operation in changes:
        if operation == Operation.DELETE:
            target.pop(name, None)
        elif operation == Operation.SET:
            target[name] = value or ""
        else:
            target[name] = _merged(known.get(name), name, target.get(name), value or "", operation)
    return target


def _merged(key: Key | None, name: str, current: str | None, value: str, operation: int) -> str:
    """The list with items added or taken away. A config that is not set starts from its default, inherited or not."""
    if key is None or key.kind is not Kind.LIST:
        raise ApiError(
            ErrorCode.INVALID_CONFIG, f"{name} is not a list; only lists are appended to and subtracted from"
        )
    before = (current if current is not None else key.format(key.default)) or ""
    items = [item for item in before.split(",") if item]
    given = [item.strip() for item in value.split(",")]
    if operation == Operation.SUBTRACT:
        return ",".join(item for item in items if item not in given)
    return ",".join(dict.fromkeys([*items, *given]))


def _differences(
    resource: tuple[int, str], current: Mapping[str, str], target: Mapping[str, str]
) -> list[ConfigChanged]:
    return [
        ConfigChanged(*resource, name, target.get(name))
        for name in dict.fromkeys([*current, *target])
        if current.get(name) != target.get(name)
    ]
