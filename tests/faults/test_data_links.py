"""Links between brokers, and between brokers and Odins, are cut and slowed under load, both ways and one way."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.faults.links import Links
from tests.faults.load import EVERYONE, Load
from tests.faults.realm import BROKERS, ODINS, Realm
from tests.sim.history import Acknowledged
from tests.waiting import eventually

TOPIC = "orders"
SLOW_S = 0.3


def others_than(node: int) -> tuple[int, ...]:
    return tuple(broker for broker in BROKERS if broker != node)


def test_a_leader_cut_off_from_everybody(linked: Realm, clients: tuple[str, ...]) -> None:
    """Others lead; clients still reach the one that is cut off, and may have asked it before."""
    with Load(linked, writers=clients, readers=clients, groups=("consumer",)) as load:
        leader = linked.leader(TOPIC)
        with linked.parted((leader,)):
            eventually(lambda: leader_told_by(linked, others_than(leader)[0]) not in (-1, leader), "another leader")
            load.flows()
        load.flows()
        print(load.finish())


def leader_told_by(realm: Realm, broker: int) -> int:
    return realm.describe(broker)[TOPIC][0][0]


@pytest.mark.thorough
def test_a_follower_cut_off_from_its_leader_leaves_the_replicas_in_sync(linked: Realm) -> None:
    with Load(linked, writers=EVERYONE, readers=EVERYONE) as load:
        leader = linked.leader(TOPIC)
        follower = others_than(leader)[0]
        with linked.parted((leader,), (follower,)):
            eventually(lambda: follower not in linked.in_sync(TOPIC), "the follower is out")
            load.flows()
        eventually(lambda: follower in linked.in_sync(TOPIC), "the follower is back")
        load.flows()
        print(load.finish())


@pytest.mark.thorough
@pytest.mark.parametrize("direction", ["to the leader", "from the leader"])
def test_a_link_of_brokers_that_is_cut_one_way(linked: Realm, direction: str) -> None:
    assert linked.links is not None
    with Load(linked, writers=EVERYONE, readers=EVERYONE) as load:
        leader = linked.leader(TOPIC)
        follower = others_than(leader)[0]
        linked.faults += 1
        linked.links.cut(*((follower, leader) if direction == "to the leader" else (leader, follower)))
        eventually(lambda: follower not in linked.in_sync(TOPIC), "the follower is out")
        load.flows()
        linked.links.heal()
        load.flows()
        print(load.finish())


@pytest.mark.thorough
@pytest.mark.parametrize("direction", ["both", "to odin", "from odin"])
def test_a_leader_cut_off_from_the_quorum_alone(linked: Realm, direction: str) -> None:
    """Its followers still fetch from it, and it must know by itself when it may not lead any more."""
    assert linked.links is not None
    with Load(linked, writers=EVERYONE, readers=EVERYONE) as load:
        leader = linked.leader(TOPIC)
        linked.faults += 1
        for odin in ODINS:
            if direction != "from odin":
                linked.links.cut(leader, odin)
            if direction != "to odin":
                linked.links.cut(odin, leader)
        eventually(lambda: leader_told_by(linked, others_than(leader)[0]) not in (-1, leader), "another leader")
        load.flows()
        linked.links.heal()
        load.flows()
        print(load.finish())


@pytest.mark.thorough
def test_the_active_odin_cut_off_from_all_brokers(linked: Realm) -> None:
    """It still has its majority; so brokers whose sessions end are out, until the link is back."""
    with Load(linked, writers=EVERYONE, readers=EVERYONE) as load:
        said = linked.from_now_on(*ODINS)
        with linked.parted((linked.active_odin(),), BROKERS):
            eventually(lambda: fenced(said) == {str(broker) for broker in BROKERS}, "all brokers are missed", 30)
        load.flows()
        print(load.finish())


def fenced(said: Callable[[str], list[str]]) -> set[str]:
    """The brokers of which Odins have said that they are counted out."""
    return {line.split("id=")[1].split()[0] for line in said("broker fenced")}


@pytest.mark.thorough
def test_slow_links_between_brokers(linked: Realm) -> None:
    assert linked.links is not None
    with Load(linked, writers=EVERYONE, readers=EVERYONE) as load:
        for source in BROKERS:
            for target in others_than(source):
                linked.faults += 1
                linked.links.slow(source, target, 0.1)
        load.flows(200)
        for source in BROKERS:
            for target in others_than(source):
                check_slow(linked, source, target, 0.1)
        linked.links.heal()
        load.flows()
        print(load.finish())


@pytest.mark.thorough
@pytest.mark.parametrize("direction", ["both", "to odin", "from odin"])
def test_slow_links_between_brokers_and_odins(linked: Realm, direction: str) -> None:
    """Heartbeats and the metadata log take their time, and less than a session: nobody is counted out."""
    assert linked.links is not None
    with Load(linked, writers=EVERYONE, readers=EVERYONE) as load:
        said = linked.from_now_on(*ODINS)
        pairs = [(broker, odin) for broker in BROKERS for odin in ODINS if direction != "from odin"]
        pairs += [(odin, broker) for broker in BROKERS for odin in ODINS if direction != "to odin"]
        for source, target in pairs:
            linked.faults += 1
            linked.links.slow(source, target, SLOW_S)
        load.flows(200)
        started = time.monotonic()
        linked.create("made-slowly", 1)  # through brokers that the quorum hears late, or that hear it late
        assert time.monotonic() - started >= SLOW_S
        load.flows(200)
        assert not fenced(said), "a slow broker was taken for a dead one"
        active = linked.active_odin()
        for source, target in pairs:
            if active in (source, target):  # who is not active has little to say
                check_slow(linked, source, target, SLOW_S)
        linked.links.heal()
        load.flows()
        print(load.finish())


@pytest.mark.thorough
@pytest.mark.parametrize("direction", ["to the leader", "from the leader"])
def test_a_link_of_brokers_that_is_slow_one_way(linked: Realm, direction: str) -> None:
    """The follower stays in sync, and every write waits for it."""
    assert linked.links is not None
    with Load(linked, writers=EVERYONE, readers=EVERYONE) as load:
        leader = linked.leader(TOPIC)
        for follower in others_than(leader):
            linked.faults += 1
            linked.links.slow(*((follower, leader) if direction == "to the leader" else (leader, follower)), SLOW_S)
        slow_from = load.journal.now()
        load.flows(200)
        assert linked.in_sync(TOPIC) == BROKERS
        for follower in others_than(leader):
            check_slow(
                linked, *((follower, leader) if direction == "to the leader" else (leader, follower)), delay_s=SLOW_S
            )
        waited = [
            one.at - one.asked_at
            for one in list(load.journal.history.of(Acknowledged))
            if one.asked_at > slow_from and one.place.partition == 0
        ]
        assert min(waited) >= SLOW_S, "a write was acknowledged that its followers cannot have had yet"
        linked.links.heal()
        load.flows()
        print(load.finish())


def check_slow(realm: Realm, source: int, target: int, delay_s: float) -> None:
    """What was said on this way has really been late; where the kernel holds it up, a packet of our own tells."""
    if isinstance(realm.links, Links):
        late = realm.links.late(source, target)
        assert late.bytes > 0, f"nothing was held up from {source} to {target}"
        assert delay_s <= late.least_s < 100, f"held up for {late.least_s} s from {source} to {target}"
    else:
        assert realm.links is not None
        port = int(realm.node(target).address.rsplit(":", 1)[1])
        assert realm.links.seconds_to_connect(source, target, port) >= delay_s
