"""From an address to a connection that is ready for requests: connect, encrypt, agree on versions, log in."""

from __future__ import annotations

import secrets
import socket
import ssl

from bifrost import __version__
from bifrost.client.errors import AuthorizationError, TimedOutError, UnreachableError
from bifrost.client.wire.connection import Address, Connection
from bifrost.client.wire.patience import Deadline
from bifrost.client.wire.scram import ScramExchange
from bifrost.client.wire.security import Security
from bifrost.client.wire.settings import WireSettings
from bifrost.errors import ErrorCode, ProtocolError
from bifrost.protocol.apis import ApiKey
from bifrost.protocol.messages.cluster import ApiVersionsRequest, ApiVersionsResponse
from bifrost.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

_API_VERSIONS_NEWEST = 3
"""Understood since Kafka 2.4. Version 4 adds nothing that matters here."""


def connect(address: Address, settings: WireSettings, tls: ssl.SSLContext | None, deadline: Deadline) -> Connection:
    """A connection that is ready for use. UnreachableError, TimedOutError or AuthorizationError say why not."""
    deadline = deadline.at_most(settings.connect_timeout_ms / 1000)
    connection = Connection(
        _open(address, tls, deadline),
        address,
        client_id=settings.client_id,
        receive_bytes_max=settings.receive_bytes_max,
    )
    try:
        connection.versions = _ask_versions(connection, deadline)
        if settings.security.authenticated:
            _log_in(connection, settings.security, deadline)
    except BaseException:
        connection.close()
        raise
    return connection


def _open(address: Address, tls: ssl.SSLContext | None, deadline: Deadline) -> socket.socket:
    try:
        sock = socket.create_connection(address, timeout=max(deadline.remaining_s(), 0.001))
    except TimeoutError as error:
        raise TimedOutError(
            f"{address} took no connection within {deadline.seconds:.3g} s", "Is the address right, and reachable?"
        ) from error
    except OSError as error:
        reason = "its name is not known" if isinstance(error, socket.gaierror) else error.strerror or str(error)
        raise UnreachableError(
            f"no broker answers at {address}: {reason}",
            "Is it running, and is the address right? `bifrost up` starts one here.",
        ) from error
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return tls.wrap_socket(sock, server_hostname=address.host) if tls else sock
    except ssl.SSLCertVerificationError as error:
        sock.close()
        raise AuthorizationError(
            f"{address} is not who it should be: {error.verify_message}", "Check ssl.ca.location and the address."
        ) from error
    except OSError as error:
        sock.close()
        raise UnreachableError(
            f"{address} does not speak TLS with this client: {error.strerror or error}",
            "Check security.protocol and the ssl.* settings.",
        ) from error
    except BaseException:
        sock.close()
        raise


def _ask_versions(connection: Connection, deadline: Deadline) -> dict[int, tuple[int, int]]:
    answer = connection.ask(_introduction(), ApiVersionsResponse, deadline, version=_API_VERSIONS_NEWEST)
    if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
        answer = connection.ask(_introduction(), ApiVersionsResponse, deadline, version=0)
    return {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}


def _introduction() -> ApiVersionsRequest:
    return ApiVersionsRequest(client_software_name="bifrost", client_software_version=__version__)


def _log_in(connection: Connection, security: Security, deadline: Deadline) -> None:
    if ApiKey.SASL_HANDSHAKE not in connection.versions or ApiKey.SASL_AUTHENTICATE not in connection.versions:
        raise AuthorizationError(
            f"{connection.address} lets nobody log in",
            "Use the address of a SASL listener, or another security.protocol.",
        )
    offered = connection.ask(
        SaslHandshakeRequest(mechanism=security.mechanism), SaslHandshakeResponse, deadline, version=1
    )
    if offered.error_code:
        raise AuthorizationError(
            f"{connection.address} does not take {security.mechanism}",
            f"Set sasl.mechanism to one that it takes: {', '.join(offered.mechanisms)}.",
            code=ErrorCode(offered.error_code).name,
        )
    if security.mechanism == "PLAIN":
        _say(connection, f"\0{security.username}\0{security.password}".encode(), deadline)
        return
    exchange = ScramExchange(security.mechanism, security.username, security.password, secrets.token_hex(16))
    try:
        challenge = _say(connection, exchange.first(), deadline)
        exchange.finish(_say(connection, exchange.answer(challenge), deadline))
    except ProtocolError as error:
        raise AuthorizationError(
            f"logging in at {connection.address} failed: {error}", "Check sasl.mechanism, and who listens there."
        ) from error


def _say(connection: Connection, token: bytes, deadline: Deadline) -> bytes:
    answer = connection.ask(SaslAuthenticateRequest(auth_bytes=token), SaslAuthenticateResponse, deadline)
    if answer.error_code:
        raise AuthorizationError(
            f"logging in at {connection.address} failed: {answer.error_message or 'wrong user or password'}",
            "Check sasl.username, sasl.password and sasl.mechanism.",
            code=ErrorCode(answer.error_code).name,
        )
    return answer.auth_bytes
