"""Addresses where nobody answers: told within a moment, with the reason."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from time import monotonic

import pytest

import bifrost


@pytest.fixture
def not_kafka() -> Iterator[str]:
    """Something that accepts connections and speaks something else."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def silent() -> Iterator[str]:
    """Something that accepts connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_nobody_there() -> None:
    started = monotonic()
    with pytest.raises(bifrost.UnreachableError, match=r"no broker answers at 127\.0\.0\.1:1 \(connection refused\)"):
        bifrost.Admin("127.0.0.1:1", timeout_s=60).topics()
    assert monotonic() - started < 30, "it was retried until the time was up"


def test_no_host_of_that_name() -> None:
    with pytest.raises(bifrost.UnreachableError, match="no host of that name is known"):
        bifrost.Admin("nowhere.invalid:9092", timeout_s=60).cluster()


def test_somebody_else_there(not_kafka: str) -> None:
    with pytest.raises(bifrost.UnreachableError, match="does not speak Kafka's protocol"):
        bifrost.Admin(not_kafka, timeout_s=60).groups()


def test_somebody_silent_there(silent: str) -> None:
    with pytest.raises(bifrost.TimedOutError, match=r"did not answer within 0\.5 s"):
        bifrost.Admin(silent, timeout_s=0.5).topics()


def test_a_setting_that_librdkafka_does_not_know() -> None:
    with pytest.raises(bifrost.ConfigError, match=r"Did you mean session\.timeout\.ms\?"):
        bifrost.Admin("127.0.0.1:1", config={"session.timeout.mss": 1})
