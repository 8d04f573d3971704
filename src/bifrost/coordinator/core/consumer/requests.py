"""Whether a heartbeat makes sense by itself, before anybody asks which group it is for.

The order of the checks is Kafka's, since the first one that fails names the error
(GroupCoordinatorService.throwIfConsumerGroupHeartbeatRequestIsInvalid).
"""

from __future__ import annotations

from collections.abc import Collection

from bifrost.coordinator.core.consumer.member import JOINING, LEFT, LEFT_FOR_A_WHILE
from bifrost.errors import ApiError, ErrorCode
from bifrost.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest


def check_heartbeat(request: ConsumerGroupHeartbeatRequest, version: int, assignors: Collection[str]) -> None:
    """Raises what Kafka answers."""
    if version >= 1 or request.member_epoch > JOINING or request.member_epoch == LEFT:
        _refuse_blank(request.member_id, "member id")
    _refuse_blank(request.group_id, "group id")
    _refuse_blank(request.instance_id, "instance id")
    _refuse_blank(request.rack_id, "rack id")
    if request.member_epoch == JOINING:
        _check_join(request)
    elif request.member_epoch == LEFT_FOR_A_WHILE:
        _refuse(request.instance_id is None, "only a static member may leave for a while, and it needs an instance id")
    else:
        _refuse(request.member_epoch < LEFT_FOR_A_WHILE, f"{request.member_epoch} is no member epoch")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise ApiError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"there is no assignor {request.server_assignor}, only {', '.join(assignors)}",
        )


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    _refuse(request.rebalance_timeout_ms == -1, "who joins must name its rebalance timeout")
    _refuse(request.topic_partitions != [], "who joins must own nothing, and say so")
    no_subscription = request.subscribed_topic_names is None and request.subscribed_topic_regex is None
    _refuse(no_subscription, "who joins must name topics or a regular expression")


def _refuse_blank(value: str | None, name: str) -> None:
    _refuse(value is not None and not value.strip(), f"the {name} must not be empty")


def _refuse(condition: bool, detail: str) -> None:
    if condition:
        raise ApiError(ErrorCode.INVALID_REQUEST, detail)
