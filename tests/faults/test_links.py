"""The network between nodes, by itself: what passes, what waits, and who is who."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tests.faults import links as links_module
from tests.faults.links import Links, owner_of

ME, OTHER = 1, 2


class Echo:
    """A node that says back what it hears."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._echo, args=(connection,), daemon=True).start()

    @staticmethod
    def _echo(connection: socket.socket) -> None:
        with connection:
            while data := connection.recv(1000):
                connection.sendall(data)

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            self._socket.shutdown(socket.SHUT_RDWR)  # else whoever waits to accept keeps it open
        self._socket.close()


@pytest.fixture
def echo() -> Iterator[Echo]:
    node = Echo()
    yield node
    node.close()


@pytest.fixture
def links() -> Iterator[Links]:
    with Links(lambda: {ME: os.getpid()}) as links:
        yield links


def dial(links: Links, echo: Echo) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", links.door(OTHER, echo.port)), timeout=10)
    connection.sendall(b"hello")
    assert connection.recv(100) == b"hello"
    return connection


def is_silent(connection: socket.socket) -> bool:
    connection.settimeout(0.3)
    try:
        connection.recv(100)
    except TimeoutError:
        return True
    finally:
        connection.settimeout(10)
    return False


@pytest.mark.parametrize("way", [(ME, OTHER), (OTHER, ME)])
def test_a_cut_direction_holds_everything_until_it_heals(links: Links, echo: Echo, way: tuple[int, int]) -> None:
    with dial(links, echo) as connection:
        links.cut(*way)
        connection.sendall(b"more")
        assert is_silent(connection)
        links.heal()
        assert connection.recv(100) == b"more"


def test_a_pair_that_is_parted_leaves_the_others_alone(links: Links, echo: Echo) -> None:
    with dial(links, echo) as connection:
        links.part((ME,), (7,))
        connection.sendall(b"more")
        assert connection.recv(100) == b"more"
        links.part((OTHER,), (ME,))
        connection.sendall(b"again")
        assert is_silent(connection)


def test_an_end_is_told_to_the_other_side(links: Links, echo: Echo) -> None:
    door = links.door(OTHER, echo.port)
    echo.close()
    with socket.create_connection(("127.0.0.1", door), timeout=10) as connection:
        assert connection.recv(100) == b""


def test_a_slow_link_takes_its_time(links: Links, echo: Echo) -> None:
    with dial(links, echo) as connection:
        links.slow(ME, OTHER, 0.2)
        started = time.monotonic()
        connection.sendall(b"more")
        assert connection.recv(100) == b"more"
        assert time.monotonic() - started >= 0.2
    assert links.late(ME, OTHER).bytes == len(b"more")
    assert 0.2 <= links.late(ME, OTHER).least_s < 5
    assert links.late(OTHER, ME).bytes == 0, "and the other direction was not held up"


def test_who_is_not_found_at_once_is_looked_for_again(
    links: Links, echo: Echo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody whom nobody knows would pass through every cut."""
    looks = iter([None, None])
    monkeypatch.setattr(links_module, "owner_of", lambda _port, _pids: next(looks, ME))
    with dial(links, echo) as connection:
        links.cut(ME, OTHER)
        connection.sendall(b"more")
        assert is_silent(connection)


def test_who_is_not_found_at_all_does_not_pass(echo: Echo) -> None:
    with Links(dict) as links:
        with socket.create_connection(("127.0.0.1", links.door(OTHER, echo.port)), timeout=10) as connection:
            assert connection.recv(100) == b""


def test_who_knocks_is_known_by_its_process(echo: Echo) -> None:
    with socket.create_connection(("127.0.0.1", echo.port)) as connection:
        port = connection.getsockname()[1]
        assert owner_of(port, {ME: os.getpid()}) == ME
        assert owner_of(port, {ME: os.getppid()}) is None
