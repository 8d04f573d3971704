"""Answers to Produce that wait for another leader: what it says, or what a client makes the right thing of."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from bifrost.broker.connection import Buffers, Connection, Reply
from bifrost.broker.handlers.produce import produce
from bifrost.broker.inspector import Inspector
from bifrost.controller.core.records import BrokerFenced, PartitionChanged
from bifrost.errors import ErrorCode
from bifrost.protocol.frame import has_flexible_response_header, read_request_header, read_response_header
from bifrost.protocol.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    decode_response,
    encode_request,
)
from bifrost.protocol.records import encode_batch
from bifrost.protocol.wire import ZERO_UUID
from bifrost.types import TopicPartition
from tests.unit.broker.hosting import Hosting
from tests.unit.broker.other_leaders import LEADER, ME, OTHER, Leaders, image_of
from tests.unit.broker.stand_ins import Client, Script, on_loop, turns
from tests.unit.controller.stand_ins import apply, topic_id

VERSION = 10
NOW = 1_700_000_000_000
RETRIED_AS_REFUSED = ErrorCode.NOT_LEADER_OR_FOLLOWER
RETRIED_AS_UNKNOWN = ErrorCode.REQUEST_TIMED_OUT


class Serving(Script):
    """A node that leads partition 1 of "orders" itself; broker 2 leads partition 0, broker 3 partition 2."""

    def __init__(self, hosting: Hosting) -> None:
        super().__init__()
        self.hosting = hosting
        self.leaders = Leaders()
        self.forwarding = self.leaders.forwarding(hosting.image)
        self.broker: Any = SimpleNamespace(
            clock=SimpleNamespace(now_ms=lambda: NOW),
            forwarding=self.forwarding,
            inspector=Inspector(asyncio.get_running_loop(), None),
            lifecycle=SimpleNamespace(leads_until=float("inf")),
            loop=asyncio.get_running_loop(),
            metadata=hosting.metadata,
            node_id=ME,
            replicas=hosting.replicas,
            waiters=hosting.waiters,
        )
        self.client = Client(self)

    @classmethod
    async def start(cls) -> Serving:
        return cls(await Hosting.start(image=image_of(LEADER, ME, OTHER)))

    def dispatch(self, connection: Connection, frame: memoryview) -> Buffers | Reply | None:
        header, at = read_request_header(frame)
        return produce(self.broker, connection, header, frame, at)

    async def write(
        self, *partitions: int, acks: int = -1, timeout_ms: int = 1000, sequence: int | None = None
    ) -> None:
        producer = {} if sequence is None else {"producer_id": 7, "producer_epoch": 0, "base_sequence": sequence}
        batch = bytes(encode_batch([(NOW, None, b"value", ())], **producer))
        data = [PartitionProduceData(index, memoryview(batch)) for index in partitions]
        request = ProduceRequest(None, acks, timeout_ms, [TopicProduceData("orders", ZERO_UUID, data)])
        self.client.sends(encode_request(VERSION, 1, "client", request))
        await turns(8)

    @property
    def told(self) -> list[ProduceResponse]:
        found = []
        for frame in self.client.peer.answers():
            _, at = read_response_header(frame, 0, has_flexible_response_header(0, VERSION))
            found.append(decode_response(frame, at, VERSION))
        return found

    @property
    def codes(self) -> list[list[ErrorCode]]:
        return [[ErrorCode(one.error_code) for one in answer.topics[0].partitions] for answer in self.told]


@on_loop
async def test_the_answer_is_the_leaders() -> None:
    it = await Serving.start()
    await it.write(0)
    assert it.told == []
    it.leaders.links[0].answer_produce(41)
    await turns(8)
    (answer,) = it.told
    (result,) = answer.topics[0].partitions
    assert (result.error_code, result.base_offset) == (0, 41)


@pytest.mark.parametrize("is_lost", [True, False])
@on_loop
async def test_a_partition_that_is_named_twice_is_answered_twice(is_lost: bool) -> None:
    it = await Serving.start()
    await it.write(0, 0)
    if is_lost:
        it.leaders.links[0].lose()
    else:
        it.leaders.links[0].answer_produce(41, times=2)
    await turns(8)
    (answer,) = it.told
    offsets = [-1, -1] if is_lost else [41, 42]
    assert [result.base_offset for result in answer.topics[0].partitions] == offsets


@on_loop
async def test_a_leaders_refusal_is_passed_on_with_word_of_who_leads() -> None:
    """KIP-951: it may be that the leader has changed, and that this node knows."""
    it = await Serving.start()
    await it.write(0)
    it.leaders.links[0].answer_produce(-1, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    await turns(8)
    assert it.codes == [[ErrorCode.NOT_LEADER_OR_FOLLOWER]]
    assert it.told[0].topics[0].partitions[0].current_leader == (LEADER, 0)


@on_loop
async def test_a_leader_that_was_never_reached_is_like_a_wrong_one() -> None:
    """Nothing was stored, and the client should look for another leader."""
    it = await Serving.start()
    it.leaders.is_dead = True
    await it.write(0)
    assert it.codes == [[RETRIED_AS_REFUSED]]


@on_loop
async def test_where_the_answer_is_lost_nobody_claims_that_nothing_was_stored() -> None:
    """librdkafka repeats what timed out as what may have been stored. For NETWORK_EXCEPTION it gives up, and takes it
    for not stored (rd_kafka_err_action, rd_kafka_handle_Produce_error)."""
    it = await Serving.start()
    await it.write(0)
    it.leaders.links[0].lose()
    await turns(8)
    assert it.codes == [[RETRIED_AS_UNKNOWN]]
    (result,) = it.told[0].topics[0].partitions
    assert (result.base_offset, "did not answer" in (result.error_message or "")) == (-1, True)


@on_loop
async def test_of_a_client_that_has_gone_nothing_is_kept() -> None:
    """Neither when its leader fails to answer, nor when this node loses the leadership with its write under way."""
    it = await Serving.start()
    await it.write(0, sequence=0)
    await it.write(1, sequence=0)
    it.client.peer.abort()
    await turns(8)
    partition = it.hosting.replicas.get(TopicPartition("orders", 1))
    partition.resign()
    await turns(8)
    assert it.forwarding.orders == {}


@on_loop
async def test_one_leader_that_is_silent_does_not_spoil_what_others_say() -> None:
    it = await Serving.start()
    await it.write(0, 1, 2)
    assert it.told == []
    to = {link.host: link for link in it.leaders.links}
    to[f"host{OTHER}"].answer_produce(9, index=2)
    to[f"host{LEADER}"].lose()
    await turns(8)
    (answer,) = it.told
    assert [(one.index, one.error_code, one.base_offset) for one in answer.topics[0].partitions] == [
        (0, RETRIED_AS_UNKNOWN, -1),
        (1, 0, 0),
        (2, 0, 9),
    ]


@on_loop
async def test_what_follows_a_refused_write_is_not_passed_to_the_next_leader_before_it() -> None:
    """That one may not know the producer, and would take any of its batches first."""
    it = await Serving.start()
    await it.write(0, sequence=0)
    await it.write(0, sequence=1)
    apply(it.hosting.image, [PartitionChanged(topic_id(100), 0, leader=OTHER, isr=(OTHER,), replicas=(OTHER,))])
    await it.write(0, sequence=2)
    first, *others = it.leaders.links
    assert (len(first.asked), others) == (2, []), "two leaders at a time could take them in any order"
    first.answer_produce(-1, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    first.answer_produce(-1, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    await turns(8)
    assert it.codes == [[ErrorCode.NOT_LEADER_OR_FOLLOWER]] * 3
    await it.write(0, sequence=1)
    assert len(it.leaders.links) == 1, "0 has not come again"
    await it.write(0, sequence=0)
    await it.write(0, sequence=1)
    assert [len(link.asked) for link in it.leaders.links] == [2, 2]


@on_loop
async def test_what_was_refused_here_and_written_elsewhere_holds_nobody_back_when_this_node_leads_again() -> None:
    """A client that knows the cluster sends again to whoever leads, on another connection."""
    it = await Serving.start()
    await it.write(1, sequence=0)
    partition = it.hosting.replicas.get(TopicPartition("orders", 1))
    apply(it.hosting.image, [PartitionChanged(topic_id(100), 1, leader=OTHER, isr=(OTHER,), replicas=(OTHER, ME))])
    partition.follow(OTHER, 1, (OTHER, ME))
    it.leaders.is_dead = True
    await it.write(1, sequence=1)
    await it.write(1, sequence=2)
    for number in (1, 2):
        copy = encode_batch(
            [(NOW, None, b"value", ())],
            base_offset=number,
            leader_epoch=1,
            producer_id=7,
            producer_epoch=0,
            base_sequence=number,
        )
        partition.append_fetched(memoryview(copy), 1, NOW)
    apply(it.hosting.image, [PartitionChanged(topic_id(100), 1, leader=ME, isr=(ME,))])
    partition.lead(2, (OTHER, ME), frozenset({ME}), 3)
    await it.write(1, sequence=4)
    await it.write(1, sequence=3)
    refused, fine = [ErrorCode.NOT_LEADER_OR_FOLLOWER], [ErrorCode.NONE]
    assert it.codes == [fine, refused, refused, refused, fine], "3 is the next, and what follows it is not"


@on_loop
async def test_what_a_leader_that_was_fenced_owed_comes_again_in_order_and_goes_to_the_next() -> None:
    it = await Serving.start()
    for sequence in range(3):
        await it.write(0, sequence=sequence, timeout_ms=60_000)
    fenced = BrokerFenced(LEADER)
    elected = PartitionChanged(topic_id(100), 0, leader=OTHER, isr=(OTHER,), replicas=(OTHER,))
    it.forwarding.on_change(it.hosting.image, apply(it.hosting.image, [fenced, elected]))
    await it.write(0, sequence=3)
    assert it.codes == [*[[RETRIED_AS_UNKNOWN]] * 3, [RETRIED_AS_REFUSED]]
    await it.write(0, sequence=1)
    assert len(it.leaders.links) == 1, "0 has not come again"
    for sequence in range(4):
        await it.write(0, sequence=sequence)
    assert len(it.leaders.links[1].asked) == 4


@on_loop
async def test_what_was_on_a_disk_that_failed_is_passed_to_whoever_leads_it_now() -> None:
    it = await Serving.start()
    it.hosting.replicas.mark_offline(TopicPartition("orders", 0))
    await it.write(0)
    it.leaders.links[0].answer_produce(41)
    await turns(8)
    assert it.codes == [[ErrorCode.NONE]]


@on_loop
async def test_what_a_failed_disk_refused_is_not_overtaken_at_the_next_leader() -> None:
    it = await Serving.start()
    it.hosting.replicas.mark_offline(TopicPartition("orders", 1))
    await it.write(1, sequence=0)
    assert it.codes == [[ErrorCode.KAFKA_STORAGE_ERROR]], "nobody leads it yet"
    apply(it.hosting.image, [PartitionChanged(topic_id(100), 1, leader=OTHER, isr=(OTHER,), replicas=(OTHER, ME))])
    await it.write(1, sequence=1)
    assert it.leaders.links == [], "0 has not come again"
    await it.write(1, sequence=0)
    await it.write(1, sequence=1)
    assert len(it.leaders.links[0].asked) == 2


@on_loop
async def test_answers_leave_in_the_order_of_their_requests() -> None:
    it = await Serving.start()
    await it.write(0)
    await it.write(1)
    assert it.told == []
    it.leaders.links[0].answer_produce(5)
    await turns(8)
    assert [answer.topics[0].partitions[0].base_offset for answer in it.told] == [5, 0]


@pytest.mark.parametrize("is_lost", [True, False])
@on_loop
async def test_where_nobody_waits_for_an_answer_a_failure_ends_the_connection(is_lost: bool) -> None:
    """acks=0. Kafka: KafkaApis closes it, and the client looks who leads."""
    it = await Serving.start()
    await it.write(0, acks=0)
    link = it.leaders.links[0]
    if is_lost:
        link.lose()
    else:
        link.answer_produce(3)
    await turns(8)
    assert it.client.peer.is_closing() == is_lost
    assert it.told == []


@on_loop
async def test_a_client_that_waits_for_nothing_is_stopped_when_its_leader_hangs() -> None:
    it = await Serving.start()
    writes = 0
    while not it.client.peer.reading_paused:
        await it.write(0, acks=0, timeout_ms=60_000)
        writes += 1
        assert writes < 5_000
    assert not it.client.peer.is_closing()
    (link,) = it.leaders.links
    link.answer_produce()
    await turns(8)
    assert not it.client.peer.reading_paused, "it goes on with its leader"
