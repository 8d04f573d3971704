"""Brokers and Odins are killed and restarted under load: nothing acknowledged is lost, and clients go on."""

from __future__ import annotations

import pytest

from tests.faults.load import EVERYONE, Load
from tests.faults.realm import BROKERS, ODINS, Realm

TOPIC = "orders"


def test_a_killed_leader_and_the_active_odin(realm: Realm) -> None:
    with Load(realm, writers=("confluent", "python"), readers=("confluent", "python")) as load:
        leader = realm.leader(TOPIC)
        realm.kill(leader)
        load.flows()
        realm.start(leader)
        odin = realm.active_odin()
        realm.kill(odin)
        load.flows()
        realm.start(odin)
        print(load.finish())


@pytest.mark.thorough
def test_two_brokers_one_after_the_other(realm: Realm) -> None:
    with Load(realm, writers=EVERYONE, readers=EVERYONE) as load:
        first = realm.leader(TOPIC)
        realm.kill(first)
        load.flows()
        second = realm.leader(TOPIC)
        realm.kill(second)
        load.flows()
        realm.start(first)
        load.flows()
        realm.start(second)
        print(load.finish())


@pytest.mark.thorough
def test_everything_at_once(realm: Realm) -> None:
    with Load(realm, writers=EVERYONE, readers=EVERYONE) as load:
        for _ in range(2):
            realm.kill(*BROKERS, *ODINS)
            realm.start(*BROKERS, *ODINS)
            load.flows()
        print(load.finish())


@pytest.mark.thorough
def test_all_brokers_at_once_while_the_quorum_lives(realm: Realm) -> None:
    with Load(realm, writers=EVERYONE, readers=EVERYONE) as load:
        for _ in range(3):
            realm.kill(*BROKERS)
            realm.start(*BROKERS)
            load.flows(30)
        print(load.finish())


@pytest.mark.thorough
def test_leaders_killed_again_and_again(realm: Realm) -> None:
    with Load(realm, writers=EVERYONE, readers=EVERYONE, min_insync_replicas="2") as load:
        for _ in range(6):
            leader = realm.leader(TOPIC)
            realm.kill(leader)
            load.flows(20)
            realm.start(leader)
        print(load.finish())


@pytest.mark.thorough
def test_a_rolling_restart(realm: Realm) -> None:
    """In good order: every node gives away what it leads, and nobody waits for anybody's session."""
    with Load(realm, writers=EVERYONE, readers=EVERYONE) as load:
        for node in (*BROKERS, *ODINS):
            realm.stop(node)
            load.flows(20)
            realm.start(node)
            realm.settle(TOPIC)
        print(load.finish())
