"""Who is let in. Pure.

Three doors: a token, where there is one; the name under which this node was called, where it listens on this machine
alone, so that no page on the web can come in by a name that leads here (DNS rebinding); and for anything that changes
something, that no page of another site sent it (browsers say so in `Origin`).
"""

from __future__ import annotations

from hmac import compare_digest
from typing import Final

from bifrost.errors import ApiError, ErrorCode
from bifrost.settings.listeners import is_loopback

OPEN_PATHS: Final = frozenset({"/", "/docs", "/openapi.json", "/healthz", "/readyz"})
"""What can be had without a token: none of it tells anything of the cluster's content."""
_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class Access:
    """The rules of one listener."""

    def __init__(self, host: str, token: str | None) -> None:
        self._is_local = is_loopback(host)
        self._names = {host, "localhost"}
        self._token = token.encode() if token else None

    def check(self, method: str, path: str, *, host: str | None, origin: str | None, authorization: str | None) -> None:
        """ApiError with the reason, which never says how far a guess was right."""
        name = _host_name(host or "")
        if self._is_local and name not in self._names and not is_loopback(name):
            raise ApiError(
                ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
                "this Odin answers to the names of this machine only; call it by its address",
            )
        if method not in _READS and origin is not None and origin.partition("://")[2] != host:
            raise ApiError(
                ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "a page of another site may not change anything here"
            )
        if self._token is not None and path not in OPEN_PATHS and not self._is_right(authorization):
            raise ApiError(
                ErrorCode.SASL_AUTHENTICATION_FAILED, "send the token of this Odin: `Authorization: Bearer TOKEN`"
            )

    def _is_right(self, authorization: str | None) -> bool:
        scheme, _, token = (authorization or "").partition(" ")
        right = compare_digest(token.strip().encode(), self._token or b"")
        return scheme.lower() == "bearer" and right


def _host_name(host: str) -> str:
    """What comes before the port, without the brackets of an IPv6 address."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if ":" in host else host
