"""The wire client over TLS and with passwords, against Apache Kafka: Bifrost's own listeners are plain so far."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from bifrost.client.errors import AuthorizationError, BifrostError, UnreachableError
from bifrost.client.wire import WireClient
from bifrost.protocol.batch import iter_headers
from bifrost.protocol.records import decode_batch, encode_batch
from tests.compat import oracle, wire
from tests.compat.cache import Unavailable
from tests.compat.conftest import FOREIGN, skip_without
from tests.waiting import eventually

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(bool(FOREIGN), reason="needs listeners of its own"),
    pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl for certificates"),
]
QUICK = {"socket.connection.setup.timeout.ms": 5_000}
LISTENERS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
NOW_MS = time.time_ns() // 1_000_000
JAAS = "org.apache.kafka.common.security."


def _certificates(folder: Path) -> tuple[Path, Path]:
    """An authority, and a key with the certificate that it gave to 127.0.0.1, as Kafka wants them: in one file."""
    authority, key, request, certificate = (folder / f"{name}.pem" for name in ("ca", "key", "request", "certificate"))
    names, store = folder / "names.cnf", folder / "store.pem"
    names.write_text("subjectAltName=IP:127.0.0.1\n")
    new = ["openssl", "req", "-newkey", "rsa:2048", "-nodes", "-subj"]
    sign = ["openssl", "x509", "-req", "-days", "2", "-CAcreateserial", "-extfile", str(names)]
    for command in (
        [*new, "/CN=authority", "-x509", "-days", "2", "-keyout", str(folder / "ca.key"), "-out", str(authority)],
        [*new, "/CN=broker", "-keyout", str(key), "-out", str(request)],
        [*sign, "-in", str(request), "-CA", str(authority), "-CAkey", str(folder / "ca.key"), "-out", str(certificate)],
    ):
        subprocess.run(command, check=True, capture_output=True, timeout=60)
    store.write_text(key.read_text() + certificate.read_text())
    return authority, store


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, str], Path]]:
    """Addresses by protocol, and the authority's certificate."""
    folder = tmp_path_factory.mktemp("secured")
    authority, store = _certificates(folder)
    ports = {name: oracle.free_port() for name in (*LISTENERS, "CONTROLLER")}
    settings = {
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "advertised.listeners": ",".join(f"{name}://127.0.0.1:{ports[name]}" for name in LISTENERS),
        "listener.security.protocol.map": ",".join((*(f"{name}:{name}" for name in LISTENERS), "CONTROLLER:PLAINTEXT")),
        "controller.quorum.voters": f"{oracle.NODE_ID}@127.0.0.1:{ports['CONTROLLER']}",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(store),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    }
    for listener in ("sasl_plaintext", "sasl_ssl"):
        prefix = f"listener.name.{listener}."
        settings[f"{prefix}plain.sasl.jaas.config"] = f'{JAAS}plain.PlainLoginModule required user_me="se,cr=et";'
        for mechanism in ("scram-sha-256", "scram-sha-512"):
            settings[f"{prefix}{mechanism}.sasl.jaas.config"] = f"{JAAS}scram.ScramLoginModule required;"
    try:
        node = Node(folder / "kafka", settings)
        node.start()
    except Unavailable as error:
        skip_without(error)
    try:
        _add_users(f"127.0.0.1:{ports['PLAINTEXT']}")
        wire.create_topic(f"127.0.0.1:{ports['PLAINTEXT']}", "t", 1, None)
        yield {name: f"127.0.0.1:{ports[name]}" for name in LISTENERS}, authority
    finally:
        node.stop()


class Node(oracle.KafkaNode):
    """A node whose settings have names in which underscores are underscores."""

    def __init__(self, directory: Path, settings: dict[str, str]) -> None:
        super().__init__(directory)
        self._settings = settings


def _add_users(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        user = UserScramCredentialUpsertion("me", ScramCredentialInfo(mechanism, 4096), b"se,cr=et")
        for done in admin.alter_user_scram_credentials([user]).values():
            done.result(30)


def write_and_read(client: WireClient) -> None:
    value = b"v" * 200_000
    with client, client.producer() as producer:
        pending = [producer.append("t", 0, encode_batch([(NOW_MS, None, value, ())]), 1) for _ in range(20)]
        start = pending[0].result(60).base_offset
        producer.flush(60)
        found = [
            record.value
            for fetched in client.fetch("t", 0, start, start + 20)
            for position, header in iter_headers(fetched.data)
            for record in decode_batch(fetched.data[position : position + header.size_bytes])
        ]
    assert found == [value] * 20


def user(mechanism: str, password: str = "se,cr=et") -> dict[str, str]:
    return {"sasl.mechanism": mechanism, "sasl.username": "me", "sasl.password": password}


@pytest.mark.parametrize("mechanism", [None, "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("encrypted", [False, True])
def test_batches_go_in_and_out(mechanism: str | None, encrypted: bool, secured: tuple[dict[str, str], Path]) -> None:
    addresses, authority = secured
    protocol = {(False, False): "PLAINTEXT", (False, True): "SSL", (True, False): "SASL_PLAINTEXT"}.get(
        (mechanism is not None, encrypted), "SASL_SSL"
    )
    settings = {
        "security.protocol": protocol,
        "ssl.ca.location": str(authority),
        **(user(mechanism) if mechanism else {}),
    }

    def known() -> bool:
        """A SCRAM user is there a moment after it was made."""
        try:
            return bool(WireClient(addresses[protocol], settings).topics())
        except AuthorizationError:
            return False

    eventually(known, "the user may log in")
    write_and_read(WireClient(addresses[protocol], settings))


def test_a_certificate_in_the_settings_themselves(secured: tuple[dict[str, str], Path]) -> None:
    addresses, authority = secured
    with WireClient(addresses["SSL"], {"security.protocol": "SSL", "ssl.ca.pem": authority.read_text()}) as client:
        assert client.partitions("t") == [0]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_wrong_password(mechanism: str, secured: tuple[dict[str, str], Path]) -> None:
    address = secured[0]["SASL_PLAINTEXT"]
    settings = {"security.protocol": "SASL_PLAINTEXT", **user(mechanism, "wrong"), **QUICK}
    with pytest.raises(AuthorizationError, match=f"logging in at {address} failed: .*Check sasl.username"):
        WireClient(address, settings).topics()


def test_the_wrong_protocol_is_named(secured: tuple[dict[str, str], Path]) -> None:
    addresses, authority = secured
    with pytest.raises(AuthorizationError, match=f"{addresses['SSL']} is not who it should be.*ssl.ca.location"):
        WireClient(addresses["SSL"], {"security.protocol": "SSL", **QUICK}).topics()
    with pytest.raises(UnreachableError, match=r"security\.protocol"):
        WireClient(addresses["SSL"], QUICK).topics()
    tls = {"security.protocol": "SSL", "ssl.ca.location": str(authority), "socket.connection.setup.timeout.ms": 1_000}
    with pytest.raises(BifrostError, match=addresses["PLAINTEXT"]):
        WireClient(addresses["PLAINTEXT"], tls).topics()
    with pytest.raises(AuthorizationError, match=r"does not take SCRAM-SHA-256|lets nobody log in|failed"):
        WireClient(addresses["PLAINTEXT"], {"security.protocol": "SASL_PLAINTEXT", **user("SCRAM-SHA-256")}).topics()
