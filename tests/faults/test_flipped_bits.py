"""A bit that flips on disk below the recovery point, where no restart looks: readers and followers refuse it by its
checksum, the nodes say what to do, and doing it brings everything back from the other replicas.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import ElectionType
from confluent_kafka import TopicPartition as RdPartition

from bifrost.protocol.batch import CorruptBatchError, iter_headers
from bifrost.protocol.records import Record
from tests.faults.conftest import StartRealm
from tests.faults.damage import flip_index_entries
from tests.faults.journal import Journal
from tests.faults.load import EVERYONE, READERS, Load, present
from tests.faults.realm import BROKERS, Realm
from tests.integration.wire import Wire
from tests.sim.history import GARBAGE, Complaint, Polled
from tests.waiting import eventually

TOPIC = "orders"
OFTEN = {"log.flush.offset.checkpoint.interval.ms": 100, "replica.high.watermark.checkpoint.interval.ms": 100}
"""How often recovery points are saved: a run takes seconds, and a node that has saved none reads everything."""
MANY_SEGMENTS = {"segment_ms": "300", "index_interval_bytes": "500"}


class Damage(NamedTuple):
    """Where a bit was flipped."""

    path: Path
    offset: int
    """The first of its batch."""


@pytest.mark.thorough
@pytest.mark.parametrize("when", ["while it runs", "before it starts again"])
def test_a_leader_with_a_flipped_bit_below_its_recovery_point(start_realm: StartRealm, when: str) -> None:
    realm = start_realm(**OFTEN)
    with Load(realm, partitions=1, writers=EVERYONE, readers=EVERYONE, groups=(), **MANY_SEGMENTS) as load:
        leader = realm.leader(TOPIC)
        wait_for_recovery_point(load, leader)
        if when == "while it runs":
            damage = flip(realm, leader)
        else:
            realm.kill(leader)
            damage = flip(realm, leader)
            realm.start(leader)
            realm.settle(TOPIC)
            make_leader(realm, leader)
        load.flows()  # at the end of the log nobody meets it
        readers_refuse(load, damage)
        follower = next(broker for broker in BROKERS if broker != leader)
        realm.kill(follower)
        lose_replica(realm, follower)
        realm.start(follower)
        refused = f"leader={leader} error=CORRUPT_MESSAGE detail='{TOPIC}-0: checksum at offset {damage.offset}'"
        eventually(lambda: lines_with(realm, follower, refused), "the follower refuses it, and says whose it is")
        assert len(lines_with(realm, follower, "fetched batches refused")) < 10, "not at every attempt"
        assert "stop the leader, remove the partition's directory there" in lines_with(realm, follower, refused)[0]
        assert follower not in realm.in_sync(TOPIC)
        load.flows()
        rebuild(realm, leader, load)
        print(load.finish())
        assert follower in realm.in_sync(TOPIC)
        assert all(is_sound(realm, broker) for broker in BROKERS)


@pytest.mark.thorough
@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_a_follower_with_a_flipped_bit_below_its_recovery_point(start_realm: StartRealm, how: str) -> None:
    """It stays in sync, restarts and all; `bifrost log dump` shows it, and it never spoils what the others have."""
    realm = start_realm(**OFTEN)
    with Load(realm, partitions=1, writers=EVERYONE, readers=EVERYONE, groups=(), **MANY_SEGMENTS) as load:
        follower = next(broker for broker in BROKERS if broker != realm.leader(TOPIC))
        wait_for_recovery_point(load, follower)
        damage = flip(realm, follower)
        load.flows()
        with Wire(realm.node(follower).address) as wire, pytest.raises(CorruptBatchError):
            wire.read(TOPIC)
        (realm.stop if how == "stopped" else realm.kill)(follower)
        load.flows()
        realm.start(follower)
        realm.settle(TOPIC)
        load.flows()
        told = dump(damage.path)
        assert told.returncode == 1
        assert f"wrong checksum base_offset={damage.offset}" in told.stdout
        rebuild(realm, follower, load)
        print(load.finish())
        assert all(is_sound(realm, broker) for broker in BROKERS)


@pytest.mark.thorough
@pytest.mark.parametrize(("suffix", "entry_bytes"), [(".index", 8), (".timeindex", 12)])
def test_indexes_with_flipped_bits_below_the_recovery_point(
    start_realm: StartRealm, suffix: str, entry_bytes: int
) -> None:
    """No restart looks at them either; whoever is led astray by one reads the batches instead, and it is made anew.
    One kind at a time: both are made anew together."""
    realm = start_realm(**OFTEN)
    with Load(realm, partitions=1, writers=EVERYONE, readers=EVERYONE, groups=(), **MANY_SEGMENTS) as load:
        broker = realm.leader(TOPIC)
        wait_for_recovery_point(load, broker)
        realm.kill(broker)
        realm.faults += 1
        sound = flip_index_entries(replica(realm, broker), suffix, entry_bytes)
        end = int(segments(realm, broker)[3].stem)
        below = [path for path in sound if int(path.stem) < end and sound[path]]
        assert below
        load.flows()
        realm.start(broker)
        realm.settle(TOPIC)
        make_leader(realm, broker)
        assert all(path.read_bytes() != sound[path] for path in below), "recovery has made them anew"
        with Wire(realm.node(broker).address) as wire:
            check_places(wire, wire.read(TOPIC), end)
        assert all(path.read_bytes() == sound[path] for path in below)
        assert lines_with(realm, broker, "indexes rebuilt")
        load.flows()
        print(load.finish())


def check_places(wire: Wire, records: list[Record], end: int) -> None:
    """From every offset before `end`, and by every timestamp there, the record is found that is there."""
    assert [record.offset for record in records] == list(range(len(records)))
    for record in records[:end]:
        batches = memoryview(wire.fetch(TOPIC, record.offset).records)
        _, first = next(iter(iter_headers(batches)))
        assert first.base_offset <= record.offset < first.next_offset
        expected = next(one for one in records if one.timestamp >= record.timestamp)
        found = wire.find(TOPIC, record.timestamp)
        assert (found.offset, found.timestamp) == (expected.offset, expected.timestamp)


def flip(realm: Realm, broker: int) -> Damage:
    """In the middle of the second segment, in the bytes of a record."""
    path = segments(realm, broker)[1]
    batches = list(iter_headers(memoryview(path.read_bytes())))
    position, header = batches[len(batches) // 2]
    realm.faults += 1
    with path.open("r+b") as file:
        file.seek(position + header.size_bytes - 10)
        (byte,) = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte ^ 0x10]))
    return Damage(path, header.base_offset)


def wait_for_recovery_point(load: Load, broker: int) -> None:
    """Until nobody has business in the second segment: neither the readers of the load, nor the node when it starts."""
    realm = load.realm
    checkpoint = realm.cluster.node_dir(broker) / "recovery-point-offset-checkpoint"

    def is_beyond() -> bool:
        bases = [int(path.stem) for path in segments(realm, broker)]
        points = [line.split() for line in checkpoint.read_text().splitlines()] if checkpoint.exists() else []
        saved = next((int(words[2]) for words in points if words[:2] == [TOPIC, "0"]), 0)
        return len(bases) > 4 and min(saved, *(reader.positions[0] for reader in load.readers)) > bases[3]

    eventually(is_beyond, "a recovery point beyond the third segment")


def segments(realm: Realm, broker: int) -> list[Path]:
    return sorted(replica(realm, broker).glob("*.log"))


def replica(realm: Realm, broker: int) -> Path:
    return realm.cluster.node_dir(broker) / f"{TOPIC}-0"


def make_leader(realm: Realm, broker: int) -> None:
    """It is the preferred one, since the partition had it as its first leader."""
    admin = realm.admin()
    if realm.leader(TOPIC) != broker:
        admin.elect_leaders(ElectionType.PREFERRED, [RdPartition(TOPIC, 0)]).result(20)
    eventually(lambda: realm.leader(TOPIC) == broker, "the damaged one leads")


def readers_refuse(load: Load, damage: Damage) -> None:
    """Every client that reads from the beginning comes to the damage, says so, and is given nothing of it."""
    journal = Journal()
    late = [READERS[name](name, load.realm.bootstrap, TOPIC, 1, journal) for name in present(EVERYONE)]
    for reader in late:
        reader.start()
    for reader in late:
        eventually(
            lambda reader=reader: any(reader.name in one.detail for one in list(journal.history.of(Complaint))),  # type: ignore[misc]
            f"{reader.name} refuses it",
        )
    for reader in late:
        reader.stop()
        assert reader.positions[0] == damage.offset, f"{reader.name} has read on"
    values = [value for poll in journal.history.of(Polled) for _, value in poll.records]
    assert values, "what comes before it is read"
    assert GARBAGE not in values


def rebuild(realm: Realm, broker: int, load: Load) -> None:
    """As the log says: the others lead while it is away, and it fetches everything anew."""
    realm.stop(broker)
    load.flows()
    lose_replica(realm, broker)
    realm.start(broker)


def lose_replica(realm: Realm, broker: int) -> None:
    realm.faults += 1
    shutil.rmtree(replica(realm, broker))


def is_sound(realm: Realm, broker: int) -> bool:
    return dump(replica(realm, broker)).returncode == 0


def dump(path: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bifrost", "log", "dump", str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def lines_with(realm: Realm, broker: int, words: str) -> list[str]:
    return [line for line in realm.log_path(broker).read_text().splitlines() if words in line]
