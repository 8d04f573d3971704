"""A consumer asks a node that does not lead: what this node knows, and what is for the leader to say (KIP-392)."""

from __future__ import annotations

import asyncio
import random
from types import SimpleNamespace
from typing import Any

import pytest

from bifrost.broker.connection import Buffers, Connection, Reply
from bifrost.broker.fetch_sessions import FetchSessions
from bifrost.broker.handlers.fetch import fetch
from bifrost.controller.core.records import PartitionCreated, TopicCreated
from bifrost.errors import ErrorCode
from bifrost.peers.names import PASSED_ON
from bifrost.protocol.apis import ApiKey
from bifrost.protocol.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionFetchResult,
    TopicFetchResult,
    decode_response,
    encode_request,
)
from bifrost.protocol.frame import has_flexible_response_header, read_request_header, read_response_header
from bifrost.protocol.records import encode_batch
from bifrost.protocol.wire import ZERO_UUID
from tests.unit.broker.hosting import Hosting
from tests.unit.broker.other_leaders import LEADER, ME, Leaders
from tests.unit.broker.stand_ins import Client, Script, no_quotas, on_loop, turns
from tests.unit.controller.stand_ins import apply, cluster_of, topic_id

NOW = 1_700_000_000_000
EPOCH = 0


class Following(Script):
    """A node that follows broker 2: it has the offsets 2 to 9 of a partition, of which 2 to 5 are committed."""

    def __init__(self, hosting: Hosting) -> None:
        super().__init__()
        self.leaders = Leaders()
        self.partition = hosting.partition("orders")
        self.partition.restart_at(2, EPOCH, NOW)
        for offset in range(2, 10):
            batch = encode_batch([(NOW, None, b"here", ())], base_offset=offset, leader_epoch=EPOCH)
            self.partition.append_fetched(memoryview(batch), EPOCH, NOW)
        self.partition.believe(6, 2, EPOCH)
        self.broker: Any = SimpleNamespace(
            node_id=ME,
            image=hosting.image,
            forwarding=self.leaders.forwarding(hosting.image),
            loop=asyncio.get_running_loop(),
            metadata=hosting.metadata,
            replicas=hosting.replicas,
            on_storage_error=hosting.logs.take_offline,
            quotas=no_quotas(),
            sessions=FetchSessions(10, random.Random(1)),
            settings=hosting.settings,
            waiters=hosting.waiters,
        )
        self.client = Client(self)

    @classmethod
    async def start(cls, isr: tuple[int, ...] = (LEADER, ME)) -> Following:
        image = cluster_of(ME, LEADER)
        created = PartitionCreated(topic_id(100), 0, (LEADER, ME), isr, LEADER, leader_epoch=EPOCH)
        apply(image, [TopicCreated("orders", topic_id(100)), created])
        return cls(await Hosting.start(image=image))

    def dispatch(self, connection: Connection, frame: memoryview) -> Buffers | Reply | None:
        header, at = read_request_header(frame)
        return fetch(self.broker, connection, header, frame, at)

    async def read(
        self, offset: int, *, version: int = 12, client_id: str = "client", wait_ms: int = 0, last_epoch: int = -1
    ) -> None:
        wanted = FetchTopic("orders", ZERO_UUID, [FetchPartition(0, -1, offset, last_epoch, -1, 1 << 20)])
        self._version = version
        self.client.sends(encode_request(version, 1, client_id, FetchRequest(wait_ms, 1, 1 << 20, [wanted])))
        await turns(8)

    @property
    def told(self) -> PartitionFetchResult:
        (frame,) = self.client.peer.answers()
        flexible = has_flexible_response_header(ApiKey.FETCH, self._version)
        _, at = read_response_header(frame, 0, flexible)
        return decode_response(frame, at, self._version).topics[0].partitions[0]

    @property
    def is_passed_on(self) -> bool:
        return bool(self.leaders.links)

    async def leader_says(self, result: PartitionFetchResult) -> None:
        (link,) = self.leaders.links
        link.answer_fetch(FetchResponse([TopicFetchResult("orders", ZERO_UUID, [result])]))
        await turns(8)


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
