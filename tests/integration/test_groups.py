"""`subscribe()` with real clients: groups share the work, and go on where they committed whatever happens."""

from __future__ import annotations

import contextlib
import itertools
import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bifrost.coordinator.core.records import OffsetCommitKey, OffsetCommitValue, read_key, read_value
from bifrost.coordinator.router import OFFSETS_TOPIC, partition_for
from bifrost.errors import ErrorCode
from bifrost.protocol.messages.group_admin import DeleteGroupsRequest, ListGroupsRequest
from bifrost.protocol.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
)
from bifrost.protocol.messages.groups import FindCoordinatorRequest
from bifrost.protocol.messages.topics import DeleteTopicsRequest
from bifrost.testing import Cluster
from tests.integration.conftest import create_topic
from tests.integration.group_clients import CONSUMERS, GroupConsumer, Place
from tests.integration.wire import ClosedByPeerError, Wire, batch
from tests.waiting import eventually

pytestmark = [
    pytest.mark.xdist_group("groups"),
    pytest.mark.filterwarnings("ignore:read_text is deprecated:DeprecationWarning"),
]

QUICK = {
    "group_initial_rebalance_delay_ms": 0,
    "group_min_session_timeout_ms": 1_000,
    "group_consumer_heartbeat_interval_ms": 300,
    "group_consumer_assignment_interval_ms": 0,
}
CLIENT = pytest.mark.parametrize("client", CONSUMERS)
_numbers = itertools.count()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(**QUICK) as running:
        yield running


@pytest.fixture
def group() -> str:
    return f"g-{next(_numbers)}"


@contextlib.contextmanager
def member(client: str, cluster: Cluster, group: str, *topics: str) -> Iterator[GroupConsumer]:
    consumer = CONSUMERS[client](cluster.bootstrap, group, list(topics))
    try:
        yield consumer
    finally:
        consumer.close()


def write(cluster: Cluster, topic: str, count: int, partitions: int = 1) -> None:
    with Wire(cluster.bootstrap) as wire:
        for partition in range(partitions):
            assert wire.produce(topic, batch(*[b"v"] * count), partition=partition).error_code == 0


@CLIENT
def test_subscribe_reads_everything_once(client: str, cluster: Cluster, topic: Callable[..., str], group: str) -> None:
    name = topic(3)
    write(cluster, name, 50, 3)
    with member(client, cluster, group, name) as consumer:
        found = consumer.read(150)
    assert sorted(found) == [(name, partition, offset) for partition in range(3) for offset in range(50)]


@CLIENT
def test_who_comes_back_goes_on_where_the_group_committed(
    client: str, cluster: Cluster, topic: Callable[..., str], group: str
) -> None:
    name = topic()
    write(cluster, name, 10)
    with member(client, cluster, group, name) as consumer:
        consumer.read(10)
        consumer.commit()
    write(cluster, name, 5)
    with member(client, cluster, group, name) as consumer:
        assert consumer.read(5) == [(name, 0, offset) for offset in range(10, 15)]


@CLIENT
def test_without_a_commit_everything_is_read_again(
    client: str, cluster: Cluster, topic: Callable[..., str], group: str
) -> None:
    name = topic()
    write(cluster, name, 10)
    for _ in range(2):
        with member(client, cluster, group, name) as consumer:
            assert consumer.read(10)[0] == (name, 0, 0)


@pytest.mark.parametrize("clients", [("confluent", "confluent"), ("confluent-848",) * 2, ("kafka-python", "aiokafka")])
def test_two_members_share_the_partitions_and_one_takes_over(
    clients: tuple[str, str], cluster: Cluster, topic: Callable[..., str], group: str
) -> None:
    name = topic(4)
    readers = [CONSUMERS[client](cluster.bootstrap, group, [name]) for client in clients]
    try:
        owned = settle(cluster, readers, name)
        assert owned[0] | owned[1] == set(range(4))
        assert not owned[0] & owned[1]
        assert all(owned)
        readers[0].close()
        survivor = readers.pop()
        readers.clear()
        readers.append(survivor)
        eventually(lambda: {place[1] for place in read_all(cluster, [survivor], name)[0]} == set(range(4)), 60)
    finally:
        for reader in readers:
            reader.close()


def read_all(cluster: Cluster, readers: list[GroupConsumer], topic: str) -> list[list[Place]]:
    """Write to every partition, and let everybody poll for a while."""
    write(cluster, topic, 1, 4)
    return [[place for _ in range(4) for place in reader.poll()] for reader in readers]


def settle(cluster: Cluster, readers: list[GroupConsumer], topic: str) -> list[set[int]]:
    """The partitions of each member once both have some."""
    owned: list[set[int]] = []

    def shared() -> bool:
        owned[:] = [{place[1] for place in places} for places in read_all(cluster, readers, topic)]
        return all(owned) and not owned[0] & owned[1] and len(owned[0] | owned[1]) == 4

    eventually(shared, 90)
    return owned


@pytest.mark.parametrize("way", ["stop", "kill"])
@CLIENT
def test_a_group_goes_on_after_a_restart_of_the_node(client: str, way: str) -> None:
    with Cluster(**QUICK, offsets_topic_num_partitions=5) as cluster:
        with Wire(cluster.bootstrap) as wire:
            create_topic(wire, "t")
        write(cluster, "t", 10)
        with member(client, cluster, "g", "t") as consumer:
            consumer.read(10)
            consumer.commit()
        getattr(cluster, way)(0)
        cluster.restart(0)
        write(cluster, "t", 5)
        with member(client, cluster, "g", "t") as consumer:
            assert consumer.read(5) == [("t", 0, offset) for offset in range(10, 15)]


def test_a_member_does_not_notice_a_restart_of_the_node(group: str) -> None:
    with Cluster(**QUICK, offsets_topic_num_partitions=5) as cluster:
        with Wire(cluster.bootstrap) as wire:
            create_topic(wire, "t")
        write(cluster, "t", 10)
        with member("confluent", cluster, group, "t") as consumer:
            consumer.read(10)
            consumer.commit()
            cluster.restart(0)
            write(cluster, "t", 5)
            assert consumer.read(5) == [("t", 0, offset) for offset in range(10, 15)]
            consumer.commit()
        with Wire(cluster.bootstrap) as wire:
            assert committed(wire, group) == 15


class Committer(threading.Thread):
    """Commits one offset after the other until the node is gone."""

    def __init__(self, address: str, group: str, first: int) -> None:
        super().__init__(daemon=True)
        self._address = address
        self.group = group
        self.asked = self.answered = first
        self.progress = threading.Event()

    def run(self) -> None:
        try:
            with Wire(self._address) as wire:
                while True:
                    self.asked += 1
                    code = commit(wire, self.group, self.asked)
                    if code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                        continue
                    assert code == 0, ErrorCode(code)
                    self.answered = self.asked
                    if self.answered % 20 == 0:
                        self.progress.set()
        except (ClosedByPeerError, ConnectionError):
            return


def commit(wire: Wire, group: str, offset: int, **fields: Any) -> int:
    version = 4 if "retention_time_ms" in fields else 8
    partitions = [OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)]
    topics = [OffsetCommitRequestTopic(name="t", partitions=partitions)]
    (answer,) = wire.call(version, OffsetCommitRequest(group_id=group, topics=topics, **fields)).topics
    return int(answer.partitions[0].error_code)


def committed(wire: Wire, group: str) -> int:
    """The group's offset; -1 for none, -2 while nobody can tell."""
    wanted = [OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
    answer = wire.call(7, OffsetFetchRequest(group_id=group, topics=wanted))
    if answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        return -2
    assert answer.error_code == 0, ErrorCode(answer.error_code)
    return int(answer.topics[0].partitions[0].committed_offset)


@pytest.mark.parametrize("policy", ["ack", "os"])
def test_a_node_that_is_killed_loses_no_commit_that_it_answered(policy: str) -> None:
    rng = random.Random(policy)
    with Cluster(processes=True, flush_policy=policy, offsets_topic_num_partitions=3) as cluster:
        with Wire(cluster.bootstrap) as wire:
            create_topic(wire, "t")
            wire.call(2, FindCoordinatorRequest(key="g"))
        first = dict.fromkeys(("a", "b", "c"), 0)
        for _ in range(3):
            committers = [Committer(cluster.bootstrap, group, first[group]) for group in first]
            for one in committers:
                one.start()
            for _ in range(rng.randrange(1, 5)):
                assert committers[0].progress.wait(20)
                committers[0].progress.clear()
            cluster.kill(0)
            for one in committers:
                one.join(20)
                assert not one.is_alive()
            cluster.restart(0)
            with Wire(cluster.bootstrap) as wire:
                for one in committers:
                    eventually(lambda one=one: committed(wire, one.group) != -2)  # type: ignore[misc]
                    found = committed(wire, one.group)
                    assert one.answered <= found <= one.asked, "neither lost, nor made up"
                    first[one.group] = found


def last_records(wire: Wire, group: str) -> dict[OffsetCommitKey, OffsetCommitValue | None]:
    """What the topic itself says of the group's offsets, as other tools would read it."""
    found: dict[Any, Any] = {}
    for record in wire.read(OFFSETS_TOPIC, partition=partition_for(group, 50)):
        key = read_key(record.key or b"")
        if isinstance(key, OffsetCommitKey) and key.group == group:
            value = None if record.value is None else read_value(key, record.value)
            found[key.topic, key.partition] = value
    return found


@pytest.fixture(scope="module")
def forgetful() -> Iterator[Cluster]:
    with Cluster(**QUICK, offsets_retention_check_interval_ms=50) as cluster, Wire(cluster.bootstrap) as wire:
        create_topic(wire, "t")
        wire.call(2, FindCoordinatorRequest(key="g"))
        yield cluster


class TestForgetting:
    """Whatever takes an offset back leaves a tombstone, so that no restart brings it back."""

    def test_outdated_offsets_go(self, forgetful: Cluster, group: str) -> None:
        with Wire(forgetful.bootstrap) as wire:
            assert commit(wire, group, 5, retention_time_ms=1) == 0
            eventually(lambda: committed(wire, group) == -1)
            assert last_records(wire, group) == {("t", 0): None}
            listed = wire.call(4, ListGroupsRequest()).groups
            assert group not in {one.group_id for one in listed}

    def test_deleted_groups_go(self, forgetful: Cluster, group: str) -> None:
        with Wire(forgetful.bootstrap) as wire:
            assert commit(wire, group, 5) == 0
            (found,) = last_records(wire, group).values()
            assert found is not None
            assert found.offset == 5
            (result,) = wire.call(2, DeleteGroupsRequest(groups_names=[group])).results
            assert result.error_code == 0
            assert last_records(wire, group) == {("t", 0): None}

    def test_offsets_of_a_deleted_topic_go(self, group: str) -> None:
        with Cluster(**QUICK) as cluster, Wire(cluster.bootstrap) as wire:
            create_topic(wire, "t")
            wire.call(2, FindCoordinatorRequest(key="g"))
            assert commit(wire, group, 5) == 0
            wire.call(5, DeleteTopicsRequest(topic_names=["t"], timeout_ms=10_000))
            create_topic(wire, "t")
            assert committed(wire, group) == -1
            assert last_records(wire, group) == {("t", 0): None}
