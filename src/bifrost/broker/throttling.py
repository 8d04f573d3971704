"""Telling clients to wait: the throttle time in answers, of this node and of the controller that it asked.

Only answers to requests that are counted come here, which is while somebody is limited (`quotas`). Where a version of
an API has a throttle time, it is what its answer begins with.
"""

from __future__ import annotations

from functools import cache
from struct import Struct
from typing import Final

from bifrost.broker.connection import Connection
from bifrost.protocol.frame import RequestHeader, has_flexible_response_header, read_response_header
from bifrost.protocol.messages import response_class
from bifrost.protocol.schema import Message, fields_of

_WAIT: Final = Struct(">i")
_FIELD: Final = "throttle_time_ms"
_METADATA_SINCE: Final = 3
"""Answers to Metadata come encoded."""


def told_to_wait(connection: Connection, header: RequestHeader, answer: Message | bytes) -> Message | bytes:
    """The answer with what its client has to wait, by this node's count or the controller's, whichever is longer.

    For its own count the node has muted the client when the request came.
    """
    wait_ms = header.throttle_ms or 0
    if isinstance(answer, bytes):
        is_told = wait_ms and header.api_version >= _METADATA_SINCE
        return _WAIT.pack(wait_ms) + answer[_WAIT.size :] if is_told else answer
    controllers = getattr(answer, _FIELD, 0)
    if controllers > wait_ms:
        connection.mute(controllers)
    elif wait_ms and hasattr(answer, _FIELD):
        setattr(answer, _FIELD, wait_ms)
    return answer


def passed_on(connection: Connection, header: RequestHeader, frame: bytes) -> bytes:
    """The same for an answer of the controller's, header and all."""
    api_key, version = header.api_key, header.api_version
    if not _begins_with_wait(api_key, version):
        return frame
    _, at = read_response_header(frame, 0, has_flexible_response_header(api_key, version))
    (controllers,) = _WAIT.unpack_from(frame, at)
    wait_ms = header.throttle_ms or 0
    if controllers > wait_ms:
        connection.mute(controllers)
    elif wait_ms:
        return frame[:at] + _WAIT.pack(wait_ms) + frame[at + _WAIT.size :]
    return frame


@cache
def _begins_with_wait(api_key: int, version: int) -> bool:
    first = fields_of(response_class(api_key))[0]
    return first.name == _FIELD and first.present(version)
