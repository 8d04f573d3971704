"""The kernel's network between nodes, by itself and under load: packets that are lost, lines that are narrow, cables
that are pulled. The tests of `test_data_links.py`, `test_odin.py` and `test_truncation.py` run on it, too.
"""

from __future__ import annotations

import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
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


@pytest.fixture
def network() -> Iterator[Namespaces]:
    with Namespaces((ME, OTHER, THIRD)) as network:
        yield network


@pytest.fixture
def ends(network: Namespaces) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A connection between ME and OTHER."""
    with closing(network.inside(OTHER, lambda: socket.create_server((network.address(OTHER), 7)))) as server:
        with closing(network.inside(ME, lambda: socket.create_connection((network.address(OTHER), 7), 10))) as mine:
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
    before = network.passed(ME, OTHER)
    assert seconds_to_send(mine, theirs, data) > 0.7, "50,000 bytes are 400,000 bits"
    after = network.passed(ME, OTHER)
    assert after.bytes - before.bytes >= len(data)
    assert after.waits > before.waits


def test_a_line_that_is_wide_enough_makes_nobody_wait(
    network: Namespaces, ends: tuple[socket.socket, socket.socket]
) -> None:
    network.narrow(ME, OTHER, 1_000_000)
    mine, theirs = ends
    seconds_to_send(mine, theirs, bytes(1000))
    passed = network.passed(ME, OTHER)
    assert passed.bytes >= 1000
    assert passed.waits == 0
    assert network.seconds_to_connect(ME, OTHER, 7) < 1


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
        network = narrow_all(apart, pairs, 256)
        load.flows(200)
        for pair in pairs:  # how much passes on a line is for the placing of leaders to say
            eventually(lambda pair=pair: network.passed(*pair).waits > 0, f"somebody waits for the line {pair}")  # type: ignore[misc]
        check_waited(network, pairs)
        network.heal()
        load.flows()
        print(load.finish())


@pytest.mark.parametrize("direction", ["both", "to odin", "from odin"])
def test_narrow_lines_between_brokers_and_odins(apart: Realm, direction: str) -> None:
    with Load(apart, writers=EVERYONE, readers=EVERYONE) as load:
        there = [(broker, odin) for broker in BROKERS for odin in ODINS if direction != "from odin"]
        back = [(odin, broker) for broker in BROKERS for odin in ODINS if direction != "to odin"]
        # Odins and brokers say little to each other; a line is narrow for them if the news of one topic fills it.
        narrow_all(apart, there, 4)
        network = narrow_all(apart, back, 8)
        load.flows(200)
        apart.create("made-slowly", 30)
        load.flows(200)
        active = apart.active_odin()  # others have little to say
        for ways in (there, back):
            if ways:
                check_waited(network, [way for way in ways if active in way])
        network.heal()
        load.flows()
        print(load.finish())


def narrow_all(realm: Realm, pairs: list[tuple[int, int]], kbit_per_s: int) -> Namespaces:
    assert isinstance(realm.links, Namespaces)
    for source, target in pairs:
        realm.faults += 1
        realm.links.narrow(source, target, kbit_per_s)
    return realm.links


def check_waited(network: Namespaces, ways: list[tuple[int, int]]) -> None:
    """Lines that nobody had to wait for were not narrow."""
    passed = {way: network.passed(*way) for way in ways}
    print(passed)
    assert all(each.bytes > 0 for each in passed.values()), passed
    assert any(each.waits > 0 for each in passed.values()), passed
