"""What a leader wrote and nobody else has goes when it comes back after a clean election, and nothing else does."""

from __future__ import annotations

from pathlib import Path

from bifrost.errors import ErrorCode
from bifrost.protocol.records import encode_batch
from tests.faults.load import Load
from tests.faults.realm import BROKERS, Realm
from tests.integration.wire import NOW, Wire
from tests.waiting import eventually

TOPIC = "orders"
STRAY = b"written by a leader that nobody followed"


def test_a_tail_that_was_never_committed_is_cut_when_its_leader_comes_back(
    linked: Realm, clients: tuple[str, ...]
) -> None:
    """Cut off from everybody, it still takes writes, those with acks=1 for good: as far as it knows it leads."""
    with Load(linked, partitions=1, writers=clients, readers=clients, groups=()) as load:
        leader = linked.leader(TOPIC)
        with linked.parted((leader,)):
            first = write_stray(linked, leader)
            linked.kill(leader)
            tail = stored(linked, leader)
            assert STRAY in tail, "it has stored what nobody else has"
            others = [broker for broker in BROKERS if broker != leader]
            assert all(STRAY not in stored(linked, broker) for broker in others)
            eventually(lambda: linked.leader(TOPIC) in others, "another leader")
            load.flows()
        linked.start(leader)
        print(load.finish())
        assert any(f"log parts from its leader's tp={TOPIC}-0" in line for line in lines(linked.log_path(leader)))
        assert first < end_of(linked), "others have written at the offsets of the tail"
        kept = stored(linked, leader)
        assert STRAY not in kept, "the tail is gone"
        assert all(stored(linked, broker) == kept for broker in others), "replicas are equal, byte for byte"


def write_stray(realm: Realm, leader: int) -> int:
    """Some batches that this leader alone acknowledges; where they begin. No writer of the load has written them, so
    that a reader who sees one finds garbage."""
    with Wire(realm.node(leader).address) as wire:
        told = [wire.produce(TOPIC, bytes(encode_batch([(NOW, None, STRAY, ())])), acks=1) for _ in range(3)]
        assert [one.error_code for one in told] == [ErrorCode.NONE] * 3
        first: int = told[0].base_offset
        assert wire.fetch(TOPIC, 0).high_watermark <= first, "nobody has followed it there"
    return first


def stored(realm: Realm, broker: int) -> bytes:
    """What the partition's files hold, in one piece: where segments end is every replica's own business."""
    folder = realm.cluster.node_dir(broker) / f"{TOPIC}-0"
    return b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))


def end_of(realm: Realm) -> int:
    with Wire(realm.node(realm.leader(TOPIC)).address) as wire:
        end: int = wire.find(TOPIC, -1).offset
    return end


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines()
