"""Frames and the headers at their start, for the side that answers and for the side that asks.

A frame is a 4-byte length, a header and a body. Headers carry tagged fields where the message is flexible, which only
the table in `apis` can tell; what these say is skipped. Nothing here reads a body or keeps a connection's state.
`read_request_header` runs once for every request, so it is written for speed.
"""

from __future__ import annotations

from functools import cache
from struct import Struct, error
from typing import Final, NamedTuple

from bifrost.errors import ProtocolError
from bifrost.protocol.apis import FLEXIBLE_SINCE, NEVER_FLEXIBLE, ApiKey
from bifrost.protocol.wire import Buffer, skip_tags

LENGTH_BYTES: Final = 4

_REQUEST: Final = Struct(">hhih")
_REQUEST_FRAME: Final = Struct(">ihhih")
_RESPONSE: Final = Struct(">i")
_RESPONSE_FRAME: Final = Struct(">ii")
_RESPONSE_FRAME_FLEXIBLE: Final = Struct(">iix")

_new = tuple.__new__  # half the price of calling the class


class RequestHeader(NamedTuple):
    """Who asks what. The key and the version are as they came: they may be ones that nobody knows."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    throttle_ms: int | None = None
    """What a broker that counts what clients use makes of the request: for how long the client is told to wait. It does
    not travel; None: nobody counts."""


def is_flexible(api_key: int, api_version: int) -> bool:
    """Whether bodies of this version, and the headers of its requests, have tagged fields (KIP-482)."""
    return api_version >= FLEXIBLE_SINCE.get(api_key, NEVER_FLEXIBLE)


@cache
def has_flexible_response_header(api_key: int, api_version: int) -> bool:
    """As `is_flexible`, except for ApiVersions: its client does not know yet what the broker speaks (KIP-511)."""
    return api_key != ApiKey.API_VERSIONS and is_flexible(api_key, api_version)


def read_request_header(buffer: Buffer, position: int = 0) -> tuple[RequestHeader, int]:
    """The header at `position`, which is just after the frame's length, and the position of the body.

    The buffer ends where the frame does. The client id is not compact in any version, so that ApiVersions requests from
    the future can be read too.
    """
    try:
        api_key, api_version, correlation_id, length = _REQUEST.unpack_from(buffer, position)
        start = position + _REQUEST.size
        if length >= 0:
            position = start + length
            client_id = str(buffer[start:position], "utf-8")
        elif length == -1:
            position = start
            client_id = None
        else:
            raise ValueError(f"client id of length {length}")
        if api_version >= FLEXIBLE_SINCE.get(api_key, NEVER_FLEXIBLE):
            position = skip_tags(buffer, position) if buffer[position] else position + 1
        elif position > len(buffer):
            raise ValueError("the client id does not fit into the frame")
    except (error, ValueError, IndexError) as problem:
        raise ProtocolError(f"request header: {problem}") from problem
    return _new(RequestHeader, (api_key, api_version, correlation_id, client_id, None)), position


def response_prefix(correlation_id: int, flexible_header: bool, body_bytes: int) -> bytes:
    """What goes before a response body of `body_bytes`: the frame's length and the header."""
    if flexible_header:
        return _RESPONSE_FRAME_FLEXIBLE.pack(body_bytes + 5, correlation_id)
    return _RESPONSE_FRAME.pack(body_bytes + 4, correlation_id)


def encode_request(api_key: int, api_version: int, correlation_id: int, client_id: str | None, body: Buffer) -> bytes:
    """A whole request frame."""
    client = b"" if client_id is None else client_id.encode()
    tags = b"\0" if is_flexible(api_key, api_version) else b""
    prefix = _REQUEST_FRAME.pack(
        _REQUEST.size + len(client) + len(tags) + len(body),
        api_key,
        api_version,
        correlation_id,
        -1 if client_id is None else len(client),
    )
    return b"".join((prefix, client, tags, body))


def read_response_header(buffer: Buffer, position: int, flexible_header: bool) -> tuple[int, int]:
    """The correlation id at `position`, which is just after the frame's length, and the position of the body."""
    try:
        (correlation_id,) = _RESPONSE.unpack_from(buffer, position)
        position += _RESPONSE.size
        return correlation_id, skip_tags(buffer, position) if flexible_header else position
    except (error, ValueError, IndexError) as problem:
        raise ProtocolError(f"response header: {problem}") from problem
