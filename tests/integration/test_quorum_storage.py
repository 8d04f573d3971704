"""What six nodes keep of their metadata: snapshots instead of a log that only grows, and, where a disk has lost
something, what the others still have."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from bifrost.controller.core.image import MetadataImage
from bifrost.testing import Cluster
from bifrost.testing.cluster import AnyNode
from bifrost.testing.embedded import EmbeddedNode
from tests.integration.test_quorum import admin_of, create
from tests.waiting import eventually

METADATA = "__cluster_metadata-0"


class SmallRealm(Cluster):
    """Takes a snapshot after every few changes."""

    def __init__(self, folder: Path) -> None:
        super().__init__(
            brokers=3, odins=3, data_dir=folder, **{"metadata.log.max.record.bytes.between.snapshots": 500}
        )
        self._names = {f"odin-{index}": node for index, node in enumerate(self.odins)}
        self._names |= {f"broker-{index}": node for index, node in enumerate(self.brokers)}
        self._created = 0

    def active(self) -> list[AnyNode]:
        """The Odin that decides, if one does."""
        found = self.active_odin()
        return [] if found is None else [found]

    def end(self) -> None:
        for node in (*self.brokers, *self.odins):
            node.kill()

    def admin(self, broker: int) -> AdminClient:
        return admin_of(self, broker)

    def files(self, name: str) -> Path:
        return self.node_dir(self._names[name].id) / METADATA

    def asides(self, name: str) -> list[Path]:
        return sorted(self.files(name).glob("*.damaged"))

    def is_tidy(self, name: str) -> bool:
        """The log begins where a snapshot ends, and those before the last two are gone."""
        return self.begins_at(name) > 0 and 1 <= len(list(self.files(name).glob("*.checkpoint"))) <= 2

    def begins_at(self, name: str) -> int:
        """Of the log on its disk."""
        return min(int(path.stem) for path in self.files(name).glob("*.log"))

    def grow(self, topics: int = 10) -> None:
        admin = self.admin(1)
        for _ in range(topics):
            self._created += 1
            create(admin, f"topic-{self._created}")

    def image(self, name: str) -> MetadataImage:
        embedded = self._names[name]
        assert isinstance(embedded, EmbeddedNode)
        node = embedded._node
        assert node is not None
        assert node._odin is not None
        return node._odin.replica.image

    def agree(self, *names: str) -> bool:
        images = [self.image(name) for name in names or self._names]
        return all(image == images[0] and len(image.topics) == self._created for image in images)

    def name_of(self, node: AnyNode) -> str:
        return next(name for name, one in self._names.items() if one is node)

    def followers(self) -> list[str]:
        (active,) = self.active()
        return [self.name_of(odin) for odin in self.odins if odin is not active]

    def __getitem__(self, name: str) -> AnyNode:
        return self._names[name]


@pytest.fixture
def realm(tmp_path: Path) -> Iterator[SmallRealm]:
    realm = SmallRealm(tmp_path)
    realm.start()
    yield realm
    realm.end()


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x10
    path.write_bytes(data)


def test_everybody_takes_snapshots_and_forgets_the_log_before_them(realm: SmallRealm) -> None:
    realm.grow(20)
    for name in realm._names:
        eventually(lambda name=name: realm.is_tidy(name))  # type: ignore[misc]
    eventually(realm.agree)


def test_whoever_is_behind_the_log_gets_a_snapshot(realm: SmallRealm) -> None:
    realm.grow(2)
    late, other = realm.followers()
    realm[late].kill()
    end = max(int(path.stem) for path in realm.files(late).glob("*.log"))
    realm.grow(30)
    eventually(lambda: all(realm.begins_at(realm.name_of(odin)) > end for odin in realm.active()))
    realm[late].start()
    eventually(lambda: realm.agree(late, other))
    (active,) = realm.active()
    active.kill()
    eventually(lambda: bool(realm.active()))  # which takes the vote of the one that was behind
    realm.grow(1)


def test_a_broker_that_lost_its_metadata_gets_it_from_the_quorum(realm: SmallRealm) -> None:
    realm.grow(20)
    realm["broker-0"].kill()
    shutil.rmtree(realm.files("broker-0"))
    (active,) = realm.active()
    eventually(lambda: realm.begins_at(realm.name_of(active)) > 0)
    realm["broker-0"].start()
    eventually(lambda: realm.agree("broker-0", realm.name_of(active)))
    realm.grow(3)
    eventually(realm.agree)


def test_a_snapshot_is_where_a_restart_begins(realm: SmallRealm) -> None:
    realm.grow(20)
    for name in realm._names:
        eventually(lambda name=name: realm.begins_at(name) > 0)  # type: ignore[misc]
    for node in realm._names.values():
        node.kill()
    for name in realm._names:
        assert realm.begins_at(name) > 0
    realm.start()
    eventually(realm.agree)
    realm.grow(3)


def damage_log(folder: Path) -> None:
    flip(min(folder.glob("*.log"), key=lambda path: (path.stat().st_size == 0, path.name)), 80)


def damage_votes(folder: Path) -> None:
    flip(folder / "quorum-state", (folder / "quorum-state").read_bytes().index(b"leaderEpoch") + 13)


def damage_snapshots(folder: Path) -> None:
    for path in folder.glob("*.checkpoint"):
        flip(path, path.stat().st_size // 2)


@pytest.mark.parametrize("damage", [damage_log, damage_votes, damage_snapshots])
@pytest.mark.parametrize("who", ["odin", "broker-0"])
def test_a_damaged_member_is_rebuilt_from_the_others(
    realm: SmallRealm, damage: object, who: str, caplog: pytest.LogCaptureFixture
) -> None:
    realm.grow(20)
    damaged = realm.followers()[0] if who == "odin" else who
    eventually(lambda: realm.agree(damaged) and realm.is_tidy(damaged))
    realm[damaged].kill()
    before = {path.name: path.read_bytes() for path in realm.files(damaged).iterdir()}
    assert callable(damage)
    damage(realm.files(damaged))
    realm[damaged].start()
    assert "begun anew" in caplog.text
    kept = {path.name.removesuffix(".damaged") for path in realm.asides(damaged)}
    assert {name for name in before if name.endswith((".log", ".checkpoint"))} <= kept
    eventually(lambda: realm.agree(damaged, realm.name_of(realm.active()[0])))
    if who == "odin":
        next(odin for odin in realm.odins if odin not in (realm[damaged], *realm.active())).kill()
    realm.grow(1)  # by a majority that the rebuilt one is needed for


def test_a_damaged_newest_snapshot_costs_no_vote(realm: SmallRealm, caplog: pytest.LogCaptureFixture) -> None:
    realm.grow(20)
    damaged = realm.followers()[0]
    eventually(lambda: realm.begins_at(damaged) > 0)
    realm[damaged].kill()
    newest = max(realm.files(damaged).glob("*.checkpoint"))
    flip(newest, newest.stat().st_size // 2)
    realm[damaged].start()
    assert "metadata snapshot damaged" in caplog.text
    assert [path.name for path in realm.asides(damaged)] == [f"{newest.name}.damaged"]
    eventually(lambda: realm.agree(damaged, realm.name_of(realm.active()[0])))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # its thread ends by an error
@pytest.mark.parametrize("position", [72, 200])
def test_a_leader_that_cannot_read_its_log_stops_and_is_rebuilt(
    tmp_path: Path, position: int, caplog: pytest.LogCaptureFixture
) -> None:
    realm = SmallRealm(tmp_path)
    for node in realm._names.values():
        node.settings["metadata.log.max.record.bytes.between.snapshots"] = "1000000"
    realm.start()
    realm.grow(5)
    (active,) = realm.active()
    damaged = realm.name_of(active)
    realm["broker-0"].kill()
    shutil.rmtree(realm.files("broker-0"))
    flip(realm.files(damaged) / f"{0:020d}.log", position)
    realm["broker-0"].start()  # reads it all, from whoever can read it
    assert "committed metadata is damaged" in caplog.text
    eventually(lambda: active not in realm.active() and bool(realm.active()))
    active.kill()
    active.start()
    assert realm.asides(damaged)
    realm.grow(1)
    eventually(realm.agree)
    realm.end()
