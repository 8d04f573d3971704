"""How to prove who we are and to check who they are: TLS contexts and credentials, from settings.

Certificates are PEM files, or PEM texts in the settings themselves. Java's names are understood for stores of type PEM;
a Java key store has to be converted first, which the error says how to do.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from tempfile import NamedTemporaryFile
from typing import Final

from bifrost.client.errors import ConfigError, nearest

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_JAAS: Final = re.compile(r'(username|password)\s*=\s*"((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class Security:
    """What a connection does between connecting and its first request."""

    protocol: str = "PLAINTEXT"
    mechanism: str = "PLAIN"
    username: str = ""
    password: str = ""
    verify: bool = True
    check_hostname: bool = True
    ca_location: str = ""
    ca_pem: str = ""
    certificate_location: str = ""
    certificate_pem: str = ""
    key_location: str = ""
    key_pem: str = ""
    key_password: str = ""
    ciphers: str = ""

    @property
    def encrypted(self) -> bool:
        return self.protocol in ("SSL", "SASL_SSL")

    @property
    def authenticated(self) -> bool:
        return self.protocol.startswith("SASL_")

    def __repr__(self) -> str:
        return f"Security({self.protocol}{f', {self.mechanism}' if self.authenticated else ''})"


def read_security(given: Mapping[str, object]) -> Security:
    """The security settings among all settings. ConfigError names what is wrong."""

    def text(*names: str) -> str:
        return next((str(given[name]) for name in names if given.get(name) is not None), "")

    protocol = text("security.protocol").upper() or "PLAINTEXT"
    if protocol not in PROTOCOLS:
        raise ConfigError(f"no security.protocol {protocol}", nearest(protocol, PROTOCOLS) or f"Use {PROTOCOLS}.")
    mechanism = text("sasl.mechanism", "sasl.mechanisms").upper() or "PLAIN"
    username, password = text("sasl.username"), text("sasl.password")
    if protocol.startswith("SASL_"):
        if mechanism not in MECHANISMS:
            raise ConfigError(f"no sasl.mechanism {mechanism} here", f"Use one of {', '.join(MECHANISMS)}.")
        for name, value in _JAAS.findall(text("sasl.jaas.config")):
            plain = re.sub(r"\\(.)", r"\1", value)
            username, password = (plain, password) if name == "username" else (username, plain)
        if not username:
            raise ConfigError(f"{protocol} needs a user", "Set sasl.username and sasl.password, or sasl.jaas.config.")
    for store in ("ssl.truststore", "ssl.keystore"):
        if text(f"{store}.location") and text(f"{store}.type").upper() != "PEM":
            raise ConfigError(
                f"{store}.location names a Java store, which only Java reads",
                f"Convert it to PEM (keytool, then openssl pkcs12) and set {store}.type=PEM.",
            )
    algorithm = "ssl.endpoint.identification.algorithm"
    return Security(
        protocol=protocol,
        mechanism=mechanism,
        username=username,
        password=password,
        verify=text("enable.ssl.certificate.verification").lower() != "false",
        check_hostname=algorithm not in given or text(algorithm).lower() not in ("", "none"),
        ca_location=text("ssl.ca.location", "ssl.truststore.location"),
        ca_pem=text("ssl.ca.pem", "ssl.truststore.certificates"),
        certificate_location=text("ssl.certificate.location", "ssl.keystore.location"),
        certificate_pem=text("ssl.certificate.pem", "ssl.keystore.certificate.chain"),
        key_location=text("ssl.key.location", "ssl.keystore.location"),
        key_pem=text("ssl.key.pem", "ssl.keystore.key"),
        key_password=text("ssl.key.password"),
        ciphers=text("ssl.cipher.suites"),
    )


def tls_context(security: Security) -> ssl.SSLContext:
    """A context that checks brokers against the given authorities, or those of this machine."""
    try:
        context = ssl.create_default_context(
            cafile=security.ca_location or None, cadata=security.ca_pem.replace("\\n", "\n") or None
        )
        if not security.verify or not security.check_hostname:
            context.check_hostname = False
        if not security.verify:
            context.verify_mode = ssl.CERT_NONE
        if security.ciphers:
            context.set_ciphers(security.ciphers.replace(",", ":"))
        if security.certificate_pem:
            _load_texts(context, security)
        elif security.certificate_location:
            key = security.key_location or security.certificate_location
            context.load_cert_chain(security.certificate_location, key, password=lambda: security.key_password)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise ConfigError(f"TLS cannot be set up: {error}", "Check ssl.* and that the files are PEM.") from error
    return context


def _load_texts(context: ssl.SSLContext, security: Security) -> None:
    """OpenSSL takes a client's certificate from a file only."""
    with NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(f"{security.certificate_pem}\n{security.key_pem}\n".replace("\\n", "\n"))
        file.flush()
        context.load_cert_chain(file.name, password=lambda: security.key_password)
