"""The kernel's network between nodes, by itself and under load: packets that are lost, lines that are narrow, cables
that are pulled. The tests of `test_data_links.py`, `test_odin.py` and `test_truncation.py` run on it, too.
"""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from tests.faults import namespaces
from tests.faults.load import EVERYONE, Load
from tests.faults.namespaces import Namespaces
from tests.faults.realm import BROKERS, ODINS, Realm
from tests.waiting import eventually

pytestmark = pytest.mark.thorough

TOPIC = "orders"
ME, OTHER, THIRD = 1, 2, 3
CLONE_NEWNET = 0x40000000


@pytest.fixture
def network() -> Iterator[Namespaces]:
    with Namespaces((ME, OTHER, THIRD)) as network:
        yield network


def inside(network: Namespaces, node: int, make: Callable[[], socket.socket]) -> socket.socket:
    """A socket of a node's namespace, which it keeps; a thread that moves there makes it, and ends."""
    made: list[socket.socket | BaseException] = []

    def work() -> None:
        try:
            with open(f"/run/netns/{network.name(node)}") as namespace:
                if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), CLONE_NEWNET) != 0:
                    raise OSError(ctypes.get_errno(), "setns")
            made.append(make())
        except BaseException as error:
            made.append(error)
            raise

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    (found,) = made
    assert isinstance(found, socket.socket), found
    found.settimeout(10)
    return found


@pytest.fixture
def ends(network: Namespaces) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A connection between ME and OTHER."""
    with closing(inside(network, OTHER, lambda: socket.create_server((network.address(OTHER), 7)))) as server:
        with closing(inside(network, ME, lambda: socket.create_connection((network.address(OTHER), 7), 10))) as mine:
            theirs, _ = server.accept()
            with closing(theirs):
                theirs.settimeout(10)
                yield mine, theirs


def is_silent(end: socket.socket) -> bool:
    end.settimeout(0.5)
    try:
        end.recv(100)
    except TimeoutError:
        return True
    finally:
        end.settimeout(10)
    return False


def test_a_way_that_is_cut_loses_packets_and_the_other_direction_does_not(
    network: Namespaces, ends: tuple[socket.socket, socket.socket]
) -> None:
    mine, theirs = ends
    network.cut(ME, OTHER)
    mine.sendall(b"lost")
    theirs.sendall(b"heard")
    assert mine.recv(100) == b"heard"
    assert is_silent(theirs)
    network.heal()
    assert theirs.recv(100) == b"lost", "TCP sends it again"


def test_who_is_parted_from_one_reaches_the_third_and_a_pulled_cable_ends_all(
    network: Namespaces, ends: tuple[socket.socket, socket.socket]
) -> None:
    mine, theirs = ends
    network.part((ME,), (THIRD,))
    mine.sendall(b"hello")
    assert theirs.recv(100) == b"hello"
    network.pull(OTHER)
    mine.sendall(b"more")
    theirs.sendall(b"more")
    assert is_silent(mine)
    assert is_silent(theirs)
    network.heal()
    assert mine.recv(100) == theirs.recv(100) == b"more"


def test_a_narrow_way_takes_its_time_and_the_other_direction_does_not(
    network: Namespaces, ends: tuple[socket.socket, socket.socket]
) -> None:
    network.narrow(ME, OTHER, 400)
    mine, theirs = ends
    data = bytes(50_000)
    assert seconds_to_send(theirs, mine, data) < seconds_to_send(mine, theirs, data)
    assert seconds_to_send(mine, theirs, data) > 0.7, "50,000 bytes are 400,000 bits"


def seconds_to_send(source: socket.socket, target: socket.socket, data: bytes) -> float:
    started = time.monotonic()
    sender = threading.Thread(target=source.sendall, args=(data,))
    sender.start()
    received = 0
    while received < len(data):
        received += len(target.recv(65536))
    sender.join()
    return time.monotonic() - started


def test_nothing_is_left_behind_and_what_a_killed_run_left_is_swept(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    with monkeypatch.context() as other:
        other.setattr(os, "getpid", lambda: ended.pid)
        left = Namespaces((ME,))
        left.__enter__()
    assert f"bifrost-{ended.pid}-{ME}" in names()
    with Namespaces((ME,)) as network:
        assert names() == {network.name(ME)} | {name for name in names() if f"-{os.getpid()}-" not in name}
        assert f"bifrost-{ended.pid}-{ME}" not in names()
    assert not any(f"-{os.getpid()}-" in name for name in names())
    for pid in (ended.pid, os.getpid()):
        assert subprocess.run(["ip", "link", "show", f"bf{pid}"], capture_output=True, check=False).returncode != 0


def names() -> set[str]:
    told = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    return {line.split()[0] for line in told.splitlines() if line}


def test_where_there_are_no_namespaces_the_tests_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespaces.shutil, "which", lambda _tool: None)
    with pytest.raises(pytest.skip.Exception, match="no network namespaces: no `ip` here"):
        Namespaces((ME,)).__enter__()


def test_pulled_cables_of_a_leader_and_of_the_active_odin(apart: Realm) -> None:
    """Unlike a link that is cut, this keeps clients out as well: their connections hang, and none is refused."""
    with Load(apart, writers=EVERYONE, readers=EVERYONE, min_insync_replicas="2") as load:
        for node in (apart.leader(TOPIC), apart.active_odin()):
            assert isinstance(apart.links, Namespaces)
            apart.faults += 1
            apart.links.pull(node)
            with apart.unreachable(node):
                if node in BROKERS:
                    eventually(lambda node=node: apart.leader(TOPIC) != node, "another leader")  # type: ignore[misc]
                load.flows()
            apart.links.heal()
            load.flows()
        print(load.finish())


@pytest.mark.parametrize("where", ["between brokers", "from the leader", "to the leader"])
def test_narrow_lines_between_brokers(apart: Realm, where: str) -> None:
    """Replication waits for the line, and writers for replication."""
    with Load(apart, writers=EVERYONE, readers=EVERYONE) as load:
        leader = apart.leader(TOPIC)
        pairs = [(source, target) for source in BROKERS for target in BROKERS if source != target]
        if where != "between brokers":
            end = 0 if where == "from the leader" else 1
            pairs = [pair for pair in pairs if pair[end] == leader]
        narrow_all(apart, pairs)
        load.flows(200)
        assert isinstance(apart.links, Namespaces)
        apart.links.heal()
        load.flows()
        print(load.finish())


@pytest.mark.parametrize("direction", ["both", "to odin", "from odin"])
def test_narrow_lines_between_brokers_and_odins(apart: Realm, direction: str) -> None:
    with Load(apart, writers=EVERYONE, readers=EVERYONE) as load:
        pairs = [(broker, odin) for broker in BROKERS for odin in ODINS if direction != "from odin"]
        pairs += [(odin, broker) for broker in BROKERS for odin in ODINS if direction != "to odin"]
        narrow_all(apart, pairs)
        load.flows(200)
        apart.create("made-slowly", 1)
        load.flows(200)
        assert isinstance(apart.links, Namespaces)
        apart.links.heal()
        load.flows()
        print(load.finish())


def narrow_all(realm: Realm, pairs: list[tuple[int, int]]) -> None:
    assert isinstance(realm.links, Namespaces)
    for source, target in pairs:
        realm.faults += 1
        realm.links.narrow(source, target, 256)
