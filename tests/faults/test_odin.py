"""What the quorum of Odins promises, with real processes: a change that was acknowledged is there in the end, one that
was refused is not, every broker says the same, and one Odin decides. Admins are at work all the while, and data flow:
that needs no Odin, as long as brokers stay as they are.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from bifrost.client.wire.connection import Address
from bifrost.client.wire.quorum import ask_controller
from bifrost.protocol.batch import iter_headers
from tests.faults.admins import Admins
from tests.faults.conftest import StartRealm
from tests.faults.load import EVERYONE, Load
from tests.faults.realm import BROKERS, METADATA, ODINS, Realm
from tests.waiting import eventually

SMALL_SNAPSHOTS = {"metadata.log.max.record.bytes.between.snapshots": 2000}


def followers(realm: Realm) -> tuple[int, int]:
    active = realm.active_odin()
    first, second = (odin for odin in ODINS if odin != active)
    return first, second


def test_the_active_odin_is_killed_and_then_a_follower(realm: Realm, clients: tuple[str, ...]) -> None:
    with Admins(realm) as admins, load_of(realm, clients) as load:
        for choose in (realm.active_odin, lambda: followers(realm)[0], realm.active_odin):
            odin = choose()
            realm.kill(odin)
            admins.work()
            load.flows(30)
            realm.start(odin)
        print(load.finish())
        print(admins.finish())


def load_of(realm: Realm, clients: tuple[str, ...]) -> Load:
    return Load(realm, writers=clients, readers=clients, groups=())


@pytest.mark.thorough
def test_the_active_odin_hangs_and_then_a_follower(realm: Realm) -> None:
    with Admins(realm) as admins, load_of(realm, EVERYONE) as load:
        for choose in (realm.active_odin, lambda: followers(realm)[0], realm.active_odin):
            with realm.paused(choose()):
                admins.work()
                load.flows(30)
            admins.work()
        print(load.finish())
        print(admins.finish())


@pytest.mark.thorough
def test_the_active_odin_is_cut_off_and_then_a_follower(linked: Realm) -> None:
    with Admins(linked) as admins, load_of(linked, EVERYONE) as load:
        for choose in (linked.active_odin, lambda: followers(linked)[0], linked.active_odin):
            with linked.parted((choose(),)):
                admins.work()
                load.flows(30)
            admins.work()
        print(load.finish())
        print(admins.finish())


@pytest.mark.thorough
def test_an_odin_that_is_heard_and_hears_nobody_and_one_that_hears_and_is_not_heard(linked: Realm) -> None:
    """One way: the usual end of a cable that is half broken."""
    assert linked.links is not None
    with Admins(linked) as admins, load_of(linked, EVERYONE) as load:
        for heard in (True, False):
            odin = linked.active_odin()
            linked.faults += 1
            for other in (*BROKERS, *ODINS):
                if other != odin:
                    linked.links.cut(*((other, odin) if heard else (odin, other)))
            admins.work()
            load.flows(30)
            linked.links.heal()
            admins.work()
        print(load.finish())
        print(admins.finish())


@pytest.mark.parametrize("how", ["killed", pytest.param("paused", marks=pytest.mark.thorough)])
def test_without_a_majority_nothing_changes_and_data_go_on(realm: Realm, how: str, clients: tuple[str, ...]) -> None:
    with (
        Admins(realm) as admins,
        Load(realm, writers=clients, readers=clients, groups=("classic",)) as load,
    ):
        two = followers(realm)
        if how == "killed":
            realm.kill(*two)
            no_change_without_majority(realm, admins, load)
            realm.start(*two)
        else:
            with realm.paused(*two):
                no_change_without_majority(realm, admins, load)
        admins.work()
        print(load.finish())
        print(admins.finish())


@pytest.mark.thorough
def test_odins_that_are_all_cut_off_from_each_other_accept_nothing(linked: Realm) -> None:
    with Admins(linked) as admins, load_of(linked, EVERYONE) as load:
        with linked.parted(followers(linked), ODINS):
            no_change_without_majority(linked, admins, load)
        admins.work()
        print(load.finish())
        print(admins.finish())


def no_change_without_majority(realm: Realm, admins: Admins, load: Load) -> None:
    """No change is accepted, once those that were under way are over; writes and reads of data go on."""
    before = -1

    def is_quiet() -> bool:
        nonlocal before
        was, before = before, admins.done
        load.flows(100)
        return was == before

    eventually(is_quiet, "nothing accepted")
    load.flows(300)
    assert admins.done == before
    for broker in BROKERS:
        assert load.topic in realm.describe(broker), "metadata are told, as far as they were committed"


@pytest.mark.thorough
def test_all_odins_restart(realm: Realm) -> None:
    with Admins(realm) as admins, load_of(realm, EVERYONE) as load:
        for _ in range(2):
            realm.kill(*ODINS)
            load.flows()
            realm.start(*ODINS)
            admins.work()
        print(load.finish())
        print(admins.finish())


@pytest.mark.parametrize("who", ["follower", pytest.param("active", marks=pytest.mark.thorough)])
def test_a_lost_disk_is_rebuilt_from_the_others(start_realm: StartRealm, who: str, clients: tuple[str, ...]) -> None:
    realm = start_realm(**SMALL_SNAPSHOTS)
    with Admins(realm) as admins, load_of(realm, clients) as load:
        odin = realm.active_odin() if who == "active" else followers(realm)[0]
        realm.kill(odin)
        admins.work()
        realm.lose_disk(odin)
        realm.start(odin)
        admins.work()
        eventually(lambda: caught_up(realm, odin), "the rebuilt one has caught up")
        realm.kill(next(one for one in ODINS if one != odin))
        admins.work()  # by a majority that the rebuilt one is needed for
        load.flows(30)
        realm.start(*realm.down)
        print(load.finish())
        print(admins.finish())


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["log", "checkpoint"])
def test_a_flipped_bit_is_noticed_and_its_member_rebuilt(start_realm: StartRealm, kind: str) -> None:
    realm = start_realm(**SMALL_SNAPSHOTS)
    with Admins(realm) as admins, load_of(realm, EVERYONE) as load:
        eventually(lambda: snapshots(realm, ODINS[0]), "a snapshot")
        for odin in (realm.active_odin(), followers(realm)[0]):
            realm.kill(odin)
            for path in sorted(metadata_dir(realm, odin).glob(f"*.{kind}")):
                if path.stat().st_size > 100:
                    flip(path, path.stat().st_size // 2)
            realm.faults += 1
            realm.start(odin)
            admins.work()
            eventually(lambda odin=odin: caught_up(realm, odin), "the rebuilt one has caught up")  # type: ignore[misc]
            assert list(metadata_dir(realm, odin).glob("*.damaged")), "the damaged files are kept"
            load.flows(30)
        print(load.finish(expected=("CRITICAL",)))
        print(admins.finish(expected=("CRITICAL",)))


def metadata_dir(realm: Realm, odin: int) -> Path:
    return realm.cluster.node_dir(odin) / METADATA


def snapshots(realm: Realm, odin: int) -> list[Path]:
    return list(metadata_dir(realm, odin).glob("*.checkpoint"))


def caught_up(realm: Realm, odin: int) -> bool:
    """It lacks nothing, as the one that leads tells it, and as its own disk shows: an Odin that was forgotten with its
    disk may still be counted for what it once had."""
    host, port = realm.node(realm.active_odin()).address.rsplit(":", 1)
    told = ask_controller(Address(host, int(port)), 5.0)
    if told is None or end_on_disk(realm, odin) < told.high_watermark:
        return False
    return any(voter.id == odin and voter.lag == 0 for voter in told.voters)


def end_on_disk(realm: Realm, odin: int) -> int:
    """Behind the last batch of its log, or behind its newest snapshot."""
    ends = [int(path.name.partition("-")[0]) for path in snapshots(realm, odin)]
    for path in metadata_dir(realm, odin).glob("*.log"):
        ends += [header.next_offset for _, header in iter_headers(path.read_bytes())]
    return max(ends, default=0)


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x10
    path.write_bytes(data)
