"""A leader that hangs for longer than its session and wakes: others lead by then, and it accepts nothing more."""

from __future__ import annotations

import threading
import time

import pytest

from bifrost.errors import ErrorCode
from bifrost.protocol.records import encode_batch
from tests.faults.conftest import StartRealm
from tests.faults.load import EVERYONE, Load
from tests.faults.realm import BROKERS, ODINS, Realm
from tests.integration.wire import ClosedByPeerError, Wire
from tests.waiting import eventually

TOPIC = "orders"


@pytest.mark.parametrize("acks", [1, pytest.param(-1, marks=pytest.mark.thorough)])
def test_a_leader_that_wakes_after_its_session_accepts_nothing(
    start_realm: StartRealm, clients: tuple[str, ...], acks: int
) -> None:
    """Also from producers that ask for its own acknowledgement alone, and whose requests wait for it to wake."""
    realm = start_realm(**{"leader.forwarding.enable": False})  # so that whatever it takes, it has taken itself
    with Load(realm, writers=clients, readers=clients, groups=("classic",)) as load:
        leader = realm.leader(TOPIC)
        told: list[int] = []
        with Wire(realm.node(leader).address) as wire, realm.paused(leader):
            senders = [threading.Thread(target=send_to, args=(realm, leader, told, acks)) for _ in range(3)]
            for _ in range(5):
                wire.send_produce(TOPIC, stray_batch(), acks=acks)
            for sender in senders:
                sender.start()
            eventually(lambda: realm.leader(TOPIC) != leader, "another leader")
            load.flows()
            realm.cluster.resume(leader)
            told += [receive(wire) for _ in range(5)]
        for sender in senders:
            sender.join()
        assert set(told) - {ErrorCode.NETWORK_EXCEPTION}, "it has answered nobody, so it was not asked"
        assert ErrorCode.NONE not in told, "it has accepted writes as a leader that it was no more"
        print(load.finish())


def stray_batch() -> bytes:
    """What no writer of the load has written: seen anywhere, it is garbage."""
    return bytes(encode_batch([(int(time.time() * 1000), None, b"stray", ())]))


def send_to(realm: Realm, broker: int, told: list[int], acks: int) -> None:
    """Keep asking this broker alone to write, from before it wakes until a moment after."""
    for _ in range(20):
        try:
            with Wire(realm.node(broker).address) as wire:
                wire.send_produce(TOPIC, stray_batch(), acks=acks)
                told.append(receive(wire))
        except (OSError, ClosedByPeerError):
            told.append(ErrorCode.NETWORK_EXCEPTION)


def receive(wire: Wire) -> int:
    wire.socket.settimeout(30)
    try:
        return int(wire.receive_produce()[1].topics[0].partitions[0].error_code)
    except (TimeoutError, ClosedByPeerError):
        return int(ErrorCode.NETWORK_EXCEPTION)


@pytest.mark.thorough
def test_leaders_and_odins_that_hang_under_load(realm: Realm) -> None:
    with Load(realm, writers=EVERYONE, readers=EVERYONE, min_insync_replicas="2") as load:
        for _ in range(2):
            leader = realm.leader(TOPIC)
            with realm.paused(leader):
                eventually(lambda leader=leader: leader_seen_by_others(realm, leader) != leader, "another leader")  # type: ignore[misc]
                load.flows()
            load.flows()
            with realm.paused(realm.active_odin()):
                load.flows()
            load.flows()
        print(load.finish())


def leader_seen_by_others(realm: Realm, paused: int) -> int:
    assert not realm.node(paused).is_running
    return realm.leader(TOPIC)


@pytest.mark.thorough
def test_everybody_hangs_for_longer_than_all_sessions(realm: Realm) -> None:
    """As a machine does that was suspended, and wakes."""
    with Load(realm, writers=EVERYONE, readers=EVERYONE) as load:
        with realm.paused(*BROKERS, *ODINS):
            threading.Event().wait(5)  # nothing can be asked that would tell when it is enough
        load.flows()
        print(load.finish())
