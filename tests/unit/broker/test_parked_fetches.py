"""A consumer that waits at a leader is answered when there is something for it, and not before."""

from __future__ import annotations

from bifrost.controller.core.records import PartitionCreated, TopicCreated
from bifrost.errors import ErrorCode
from bifrost.log.config import FlushPolicy
from bifrost.protocol.records import encode_batch
from bifrost.types import NodeId
from tests.unit.broker.hosting import Hosting
from tests.unit.broker.other_leaders import LEADER, ME
from tests.unit.broker.reading import Reading
from tests.unit.broker.stand_ins import on_loop, turns, until
from tests.unit.controller.stand_ins import apply, cluster_of, topic_id

FOLLOWER = LEADER
NOW = 1_700_000_000_000


class Leading(Reading):
    """A node that leads, under `flush.policy=ack`, what broker 2 follows."""

    @classmethod
    async def start(cls) -> Leading:
        image = cluster_of(ME, FOLLOWER)
        created = PartitionCreated(topic_id(100), 0, (ME, FOLLOWER), (ME, FOLLOWER), ME)
        apply(image, [TopicCreated("orders", topic_id(100)), created])
        return cls(await Hosting.start(image=image, policy=FlushPolicy.ACK))

    async def write_and_sync(self) -> None:
        batch = memoryview(encode_batch([(NOW, None, b"here", ())]))
        self.partition.append(batch, acks=-1, api_version=9, transactional_id=None, now_ms=NOW)
        await until(lambda: self.partition.is_synced)
        await turns(8)

    async def copy(self, offset: int, start_offset: int = 0) -> None:
        """The follower holds everything below."""
        self.partition.on_replica_fetch(FOLLOWER, 1, offset, 0.0, start_offset)
        await turns(8)


@on_loop
async def test_what_only_the_leaders_disk_has_wakes_no_reader() -> None:
    """Under flush.policy=ack its own sync mostly comes before its followers': each reader would ask twice."""
    it = await Leading.start()
    await it.read(0, wait_ms=60_000)
    await it.write_and_sync()
    assert it.client.peer.answers() == []
    await it.copy(1)
    assert bytes(it.told.records or b"").count(b"here") == 1


@on_loop
async def test_what_followers_delete_wakes_no_reader() -> None:
    it = await Leading.start()
    await it.write_and_sync()
    await it.copy(1)
    await it.read(1, wait_ms=60_000)
    it.partition.begin_at(1)
    await it.copy(1, start_offset=1)
    it.partition.on_brokers_changed()
    await turns(8)
    assert it.client.peer.answers() == []


@on_loop
async def test_who_is_woken_and_finds_nothing_sleeps_on() -> None:
    it = await Leading.start()
    await it.read(0, wait_ms=60_000)
    it.partition.wake()
    await turns(8)
    assert it.client.peer.answers() == []


@on_loop
async def test_a_leader_that_is_deposed_says_so_to_whoever_waits() -> None:
    it = await Leading.start()
    await it.read(0, wait_ms=60_000, version=10)
    it.partition.follow(NodeId(FOLLOWER), 1, (ME, FOLLOWER))
    await turns(8)
    assert it.told.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
