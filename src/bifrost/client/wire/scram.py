"""The client's half of SCRAM (RFC 5802, RFC 7677) as Kafka uses it: texts in, texts out.

The server proves that it knows the password too: `finish` checks it. Never logs or keeps the password.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode
from binascii import Error as Base64Error

from bifrost.errors import ProtocolError

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
ITERATIONS_MIN = 4096
ITERATIONS_MAX = 1 << 20
"""A hostile server must not keep us busy for hours."""


class ScramExchange:
    """One login: `first`, then `answer` to the server's challenge, then `finish` with its last word."""

    def __init__(self, mechanism: str, username: str, password: str, nonce: str) -> None:
        self._hash = HASHES[mechanism]
        self._password = password
        self._nonce = nonce
        name = username.replace("=", "=3D").replace(",", "=2C")
        self._first_bare = f"n={name},r={nonce}"
        self._server_signature = b""

    def first(self) -> bytes:
        """What we say first."""
        return f"n,,{self._first_bare}".encode()

    def answer(self, challenge: bytes) -> bytes:
        """The proof that we know the password."""
        fields = _fields(challenge)
        try:
            nonce, salt, iterations = fields["r"], b64decode(fields["s"], validate=True), int(fields["i"])
        except (KeyError, ValueError, Base64Error) as error:
            raise ProtocolError(f"SCRAM challenge: {error!r}") from error
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise ProtocolError("SCRAM challenge: the nonce is not an answer to ours")
        if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            raise ProtocolError(f"SCRAM challenge: {iterations} iterations")
        salted = hashlib.pbkdf2_hmac(self._hash, self._password.encode(), salt, iterations)
        client_key = self._mac(salted, b"Client Key")
        without_proof = f"c=biws,r={nonce}"
        said = f"{self._first_bare},{challenge.decode()},{without_proof}".encode()
        signature = self._mac(hashlib.new(self._hash, client_key).digest(), said)
        proof = bytes(left ^ right for left, right in zip(client_key, signature))
        self._server_signature = self._mac(self._mac(salted, b"Server Key"), said)
        return f"{without_proof},p={b64encode(proof).decode()}".encode()

    def finish(self, final: bytes) -> None:
        """Raises `ProtocolError` unless the server knows the password as well."""
        fields = _fields(final)
        if "e" in fields:
            raise ProtocolError(f"SCRAM: the server says {fields['e']}")
        if not hmac.compare_digest(fields.get("v", "").encode(), b64encode(self._server_signature)):
            raise ProtocolError("SCRAM: the server does not know the password")

    def _mac(self, key: bytes, message: bytes) -> bytes:
        return hmac.new(key, message, self._hash).digest()


def _fields(message: bytes) -> dict[str, str]:
    try:
        parts = message.decode().split(",")
    except UnicodeDecodeError as error:
        raise ProtocolError("SCRAM: not a text") from error
    return {part[0]: part[2:] for part in parts if part[1:2] == "="}
