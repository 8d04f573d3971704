"""Logging in: which mechanism, then its tokens (KIP-152)."""

# ruff: noqa: RUF012 - an empty list as default is not shared: msgspec makes a new one for every message

from typing import Annotated

from bifrost.protocol.apis import ApiKey
from bifrost.protocol.schema import I16, I64, Message, since


class SaslHandshakeRequest(Message, api=ApiKey.SASL_HANDSHAKE, versions=range(2)):
    """After v0 tokens follow without frames of their own; after v1 they travel in SaslAuthenticate."""

    mechanism: str


class SaslHandshakeResponse(Message, api=ApiKey.SASL_HANDSHAKE, versions=range(2)):
    error_code: I16 = 0
    mechanisms: list[str] = []


class SaslAuthenticateRequest(Message, api=ApiKey.SASL_AUTHENTICATE, versions=range(3), flexible=2):
    auth_bytes: bytes


class SaslAuthenticateResponse(Message, api=ApiKey.SASL_AUTHENTICATE, versions=range(3), flexible=2):
    error_code: I16 = 0
    error_message: str | None = None
    auth_bytes: bytes = b""
    # After this time the client has to log in again on the same connection (KIP-368).
    session_lifetime_ms: Annotated[I64, since(1)] = 0
