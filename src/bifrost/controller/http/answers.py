"""Refusals as HTTP has them: a status for each of Kafka's errors, and a body that says what is wrong in words. Pure.

What will be different in a moment is 503 with `Retry-After`, and says HOGO LO, which is "please wait" in the dialect of
this house, with what is being waited for.
"""

from __future__ import annotations

from typing import Final

import msgspec

from bifrost.controller.http.leaders import WaitError
from bifrost.errors import ApiError, ErrorCode

HOGO_LO: Final = "HOGO LO"
RETRY_AFTER_S: Final = 1

_STATUS: Final = {
    ErrorCode.SASL_AUTHENTICATION_FAILED: 401,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: 403,
    ErrorCode.POLICY_VIOLATION: 403,
    ErrorCode.TOPIC_DELETION_DISABLED: 403,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 404,
    ErrorCode.UNKNOWN_TOPIC_ID: 404,
    ErrorCode.BROKER_ID_NOT_REGISTERED: 404,
    ErrorCode.RESOURCE_NOT_FOUND: 404,
    ErrorCode.LISTENER_NOT_FOUND: 404,
    ErrorCode.TOPIC_ALREADY_EXISTS: 409,
    ErrorCode.MESSAGE_TOO_LARGE: 413,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: 429,
    ErrorCode.UNKNOWN_SERVER_ERROR: 500,
}
_WAITING_FOR: Final = {
    ErrorCode.NOT_CONTROLLER: "the Odins to agree on an active one",
    ErrorCode.LEADER_NOT_AVAILABLE: "a leader",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "the new leader to take over",
    ErrorCode.FENCED_LEADER_EPOCH: "the new leader to take over",
    ErrorCode.UNKNOWN_LEADER_EPOCH: "the new leader to take over",
    ErrorCode.BROKER_NOT_AVAILABLE: "a broker that does not answer",
    ErrorCode.OFFSET_NOT_AVAILABLE: "the new leader to catch up",
    ErrorCode.REQUEST_TIMED_OUT: "an answer",
    ErrorCode.KAFKA_STORAGE_ERROR: "a disk",
}


class ErrorView(msgspec.Struct, omit_defaults=True):
    """What is wrong, with Kafka's name for it."""

    error: str
    message: str
    status: str | None = None
    """HOGO LO: please wait."""
    waiting_for: str | None = None


class Refusal(msgspec.Struct):
    """An answer that is none."""

    status: int
    headers: dict[str, str]
    body: ErrorView


def refusal(error: ApiError) -> Refusal:
    view = ErrorView(error.code.name, error.detail or error.code.name)
    waiting_for = error.waiting_for if isinstance(error, WaitError) else _WAITING_FOR.get(error.code)
    if waiting_for is not None:
        view.status, view.waiting_for = HOGO_LO, waiting_for
        return Refusal(503, {"Retry-After": str(RETRY_AFTER_S)}, view)
    status = _STATUS.get(error.code, 400)
    headers = {401: {"WWW-Authenticate": "Bearer"}, 429: {"Retry-After": str(RETRY_AFTER_S)}}.get(status, {})
    return Refusal(status, headers, view)
