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
    epoch = request.member_epoch
    if _is_blank(request.member_id) and (version >= 1 or epoch > JOINING or epoch == LEFT):
        raise _invalid("the member id must not be empty")
    if _is_blank(request.group_id):
        raise _invalid("the group id must not be empty")
    if _is_blank(request.instance_id):
        raise _invalid("the instance id must not be empty")
    if _is_blank(request.rack_id):
        raise _invalid("the rack id must not be empty")
    if epoch == JOINING:
        _check_join(request)
    elif epoch == LEFT_FOR_A_WHILE and request.instance_id is None:
        raise _invalid("only a static member may leave for a while, and it needs an instance id")
    elif epoch < LEFT_FOR_A_WHILE:
        raise _invalid(f"{epoch} is no member epoch")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise ApiError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"there is no assignor {request.server_assignor}, only {', '.join(assignors)}",
        )


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise _invalid("who joins must name its rebalance timeout")
    if request.topic_partitions != []:
        raise _invalid("who joins must own nothing, and say so")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid("who joins must name topics or a regular expression")


def _is_blank(value: str | None) -> bool:
    return value is not None and not value.strip()


def _invalid(detail: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, detail)
