"""Settings: Kafka's names in, what is wrong said."""

from __future__ import annotations

import ssl

import pytest

from bifrost.client.errors import ConfigError
from bifrost.client.wire.security import read_security, tls_context
from bifrost.client.wire.settings import isolation_number, read_settings


def test_names_of_java_and_of_librdkafka_are_understood() -> None:
    settings = read_settings(
        {
            "client.id": "spark",
            "request.timeout.ms": "1000",
            "fetch.max.wait.ms": 7,
            "message.timeout.ms": 9,
            "isolation.level": "read_committed",
            "fetch.max.bytes": 5,
        }
    )
    assert settings.fetch_bytes_max == 5
    assert (settings.client_id, settings.request_timeout_ms, settings.fetch_wait_ms) == ("spark", 1000, 7)
    assert (settings.delivery_timeout_ms, settings.isolation_level) == (9, "read_committed")


def test_names_that_mean_nothing_here_are_ignored() -> None:
    ignored = {"group.id": "g", "key.deserializer": "x", "queued.min.messages": 1, "enable.auto.commit": False}
    assert read_settings(ignored) == read_settings({})


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"request.timeout": 1}, "no client of Kafka has a setting request.timeout. Did you mean request.timeout.ms?"),
        ({"flux.capacitor": 1}, "no client of Kafka has a setting flux.capacitor. Leave it out"),
        ({"request.timeout.ms": "soon"}, "request.timeout.ms is 'soon'. Give it a whole number"),
        ({"request.timeout.ms": 0}, "request.timeout.ms is 0. Give it at least 1"),
        ({"client.id": 5}, "client.id is 5"),
        ({"isolation.level": "commited"}, "no isolation level 'commited'. Did you mean read_committed"),
        ({"security.protocol": "SLS"}, "no security.protocol SLS. Did you mean SSL"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}, "no sasl.mechanism GSSAPI here. Use one of"),
        ({"security.protocol": "SASL_SSL"}, "SASL_SSL needs a user"),
        ({"security.protocol": "SSL", "ssl.truststore.location": "a.jks"}, "names a Java store.*Convert it to PEM"),
    ],
)
def test_what_is_wrong_is_said(given: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        read_settings(given)


def test_isolation_levels_have_numbers() -> None:
    assert [isolation_number(name) for name in ("read_uncommitted", "read_committed")] == [0, 1]
    with pytest.raises(ConfigError):
        isolation_number("serializable")


def test_credentials_as_java_writes_them() -> None:
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="a\\"b";'
    found = read_security({"security.protocol": "sasl_plaintext", "sasl.jaas.config": jaas})
    assert (found.username, found.password, found.authenticated, found.encrypted) == ("me", 'a"b', True, False)
    assert 'a"b' not in repr(found)


def test_tls_checks_names_and_certificates_unless_told_otherwise() -> None:
    strict = tls_context(read_security({"security.protocol": "SSL"}))
    assert (strict.check_hostname, strict.verify_mode) == (True, ssl.CERT_REQUIRED)
    algorithm = {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": ""}
    lenient = tls_context(read_security(algorithm))
    assert (lenient.check_hostname, lenient.verify_mode) == (False, ssl.CERT_REQUIRED)
    blind = tls_context(read_security({"security.protocol": "SSL", "enable.ssl.certificate.verification": False}))
    assert (blind.check_hostname, blind.verify_mode) == (False, ssl.CERT_NONE)
    with pytest.raises(ConfigError, match="TLS cannot be set up"):
        tls_context(read_security({"security.protocol": "SSL", "ssl.ca.location": "/no/such/file"}))
