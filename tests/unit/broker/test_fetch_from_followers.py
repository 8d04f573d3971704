"""A consumer asks a node that does not lead: what this node knows, and what is for the leader to say (KIP-392)."""

from __future__ import annotations

import pytest

from bifrost.controller.core.records import PartitionCreated, TopicCreated
from bifrost.errors import ErrorCode
from bifrost.peers.names import PASSED_ON
from bifrost.protocol.fetch import PartitionFetchResult
from bifrost.protocol.records import encode_batch
from tests.unit.broker.hosting import Hosting
from tests.unit.broker.other_leaders import LEADER, ME
from tests.unit.broker.reading import Reading
from tests.unit.broker.stand_ins import on_loop, turns
from tests.unit.controller.stand_ins import apply, cluster_of, topic_id

NOW = 1_700_000_000_000
EPOCH = 0


class Following(Reading):
    """A node that follows broker 2: it has the offsets 2 to 9 of a partition, of which 2 to 5 are committed."""

    def __init__(self, hosting: Hosting) -> None:
        super().__init__(hosting)
        self.partition.restart_at(2, EPOCH, NOW)
        for offset in range(2, 10):
            batch = encode_batch([(NOW, None, b"here", ())], base_offset=offset, leader_epoch=EPOCH)
            self.partition.append_fetched(memoryview(batch), EPOCH, NOW)
        self.partition.believe(6, 2, EPOCH)

    @classmethod
    async def start(cls, isr: tuple[int, ...] = (LEADER, ME)) -> Following:
        image = cluster_of(ME, LEADER)
        created = PartitionCreated(topic_id(100), 0, (LEADER, ME), isr, LEADER, leader_epoch=EPOCH)
        apply(image, [TopicCreated("orders", topic_id(100)), created])
        return cls(await Hosting.start(image=image))


@on_loop
async def test_a_follower_in_sync_serves_what_it_knows_to_be_committed() -> None:
    it = await Following.start()
    await it.read(4)
    assert not it.is_passed_on
    assert (it.told.error_code, it.told.high_watermark) == (0, 6)
    assert bytes(it.told.records or b"").count(b"here") == 2


@on_loop
async def test_what_it_has_but_does_not_know_to_be_committed_is_waited_for() -> None:
    it = await Following.start()
    await it.read(8, wait_ms=60_000)
    assert not it.is_passed_on
    assert it.client.peer.answers() == []
    it.partition.believe(9, 2, EPOCH)
    await turns(8)
    assert bytes(it.told.records or b"").count(b"here") == 1


@on_loop
async def test_a_reader_that_wants_much_at_a_time_waits_for_it_here_as_at_a_leader() -> None:
    it = await Following.start()
    await it.read(6, wait_ms=60_000, min_bytes=150)
    it.partition.believe(7, 2, EPOCH)
    it.partition.believe(8, 2, EPOCH)
    await turns(8)
    assert it.client.peer.answers() == [], "two batches of 72 bytes"
    it.partition.believe(9, 2, EPOCH)
    await turns(8)
    assert bytes(it.told.records or b"").count(b"here") == 3


@pytest.mark.parametrize("offset", [1, 11], ids=["before its log", "beyond its log"])
@on_loop
async def test_what_it_has_not_got_is_for_the_leader_to_say(offset: int) -> None:
    """A consumer that hears that there is no such offset starts anew, though its leader has it."""
    it = await Following.start()
    await it.read(offset)
    await it.leader_says(PartitionFetchResult(0, high_watermark=20, records=b"there"))
    assert (it.told.error_code, it.told.high_watermark, bytes(it.told.records or b"")) == (0, 20, b"there")


@pytest.mark.parametrize("last_epoch", [EPOCH, EPOCH + 1])
@on_loop
async def test_a_follower_that_lacks_the_end_of_an_epoch_does_not_tell_of_a_loss(last_epoch: int) -> None:
    """KIP-595: a consumer would go back to where that epoch ended."""
    it = await Following.start()
    await it.read(11, last_epoch=last_epoch)
    assert it.is_passed_on
    assert it.client.peer.answers() == []


@on_loop
async def test_what_the_leader_has_not_got_either_is_out_of_range() -> None:
    it = await Following.start()
    await it.read(1)
    await it.leader_says(PartitionFetchResult(0, ErrorCode.OFFSET_OUT_OF_RANGE))
    assert it.told.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@on_loop
async def test_who_is_not_in_sync_serves_nothing() -> None:
    """Its readers would be as late as it is."""
    it = await Following.start(isr=(LEADER,))
    await it.read(4)
    await it.leader_says(PartitionFetchResult(0, high_watermark=20, records=b"there"))
    assert (it.told.high_watermark, bytes(it.told.records or b"")) == (20, b"there")


@on_loop
async def test_readers_that_know_of_leaders_only_are_not_served_by_others() -> None:
    it = await Following.start()
    await it.read(4, version=10)
    assert it.is_passed_on


@pytest.mark.parametrize(
    ("isr", "offset", "code"),
    [
        ((LEADER, ME), 11, ErrorCode.OFFSET_NOT_AVAILABLE),
        ((LEADER, ME), 1, ErrorCode.OFFSET_NOT_AVAILABLE),
        ((LEADER,), 4, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
@on_loop
async def test_where_nothing_is_passed_on_the_client_goes_to_the_leader_itself(
    isr: tuple[int, ...], offset: int, code: ErrorCode
) -> None:
    """Clients turn to the leader at either code; none of them looks for another offset."""
    it = await Following.start(isr)
    await it.read(offset, client_id=PASSED_ON)
    assert not it.is_passed_on
    assert it.told.error_code == code


@on_loop
async def test_what_the_leader_said_is_not_mixed_with_what_has_come_meanwhile() -> None:
    it = await Following.start()
    await it.read(11)
    for offset in (10, 11):
        batch = encode_batch([(NOW, None, b"here", ())], base_offset=offset, leader_epoch=EPOCH)
        it.partition.append_fetched(memoryview(batch), EPOCH, NOW)
    it.partition.believe(12, 2, EPOCH)
    await it.leader_says(PartitionFetchResult(0, high_watermark=20, records=b"there"))
    assert (it.told.high_watermark, bytes(it.told.records or b"")) == (20, b"there")


@on_loop
async def test_a_leader_is_asked_to_wait_for_as_much_and_as_long_as_the_client_wants() -> None:
    it = await Following.start(isr=(LEADER,))
    await it.read(4, wait_ms=60_000, min_bytes=100)
    assert [(one.max_wait_ms, one.min_bytes) for one in it.asked] == [(60_000, 100)]
    await it.leader_says(PartitionFetchResult(0, high_watermark=20))
    assert (it.told.error_code, it.told.high_watermark) == (0, 20), "its time was over"


@on_loop
async def test_what_was_on_a_disk_that_failed_is_for_the_leader_to_serve() -> None:
    it = await Following.start()
    it.broker.replicas.mark_offline(it.partition.tp)
    await it.read(4)
    await it.leader_says(PartitionFetchResult(0, high_watermark=20, records=b"there"))
    assert (it.told.error_code, bytes(it.told.records or b"")) == (0, b"there")


@on_loop
async def test_where_nothing_is_passed_on_a_failed_disk_is_named() -> None:
    it = await Following.start()
    it.broker.replicas.mark_offline(it.partition.tp)
    await it.read(4, client_id=PASSED_ON)
    assert it.told.error_code == ErrorCode.KAFKA_STORAGE_ERROR
