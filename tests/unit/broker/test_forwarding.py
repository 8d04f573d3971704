"""What is passed on arrives in the order it was sent in, once, and costs a bounded amount of memory."""

from __future__ import annotations

import asyncio

import pytest

from bifrost.broker.forwarding import UNDER_WAY_BYTES_MAX, Forwarding, Leader
from bifrost.controller.core.image import MetadataImage
from bifrost.controller.core.records import BrokerFenced, BrokerUnregistered
from bifrost.peers.connection import PeerError
from bifrost.peers.names import PASSED_ON
from bifrost.protocol.fetch import FetchRequest, FetchResponse
from bifrost.protocol.produce import ProduceResponse
from tests.unit.broker.other_leaders import LEADER, ME, OTHER, Leaders, image_of, write
from tests.unit.broker.stand_ins import PRODUCE, Client, on_loop, request, turns
from tests.unit.controller.stand_ins import apply

VERSION = 9


class Passing:
    """A node whose client writes to what another one leads."""

    def __init__(self, image: MetadataImage | None = None) -> None:
        self.leaders = Leaders()
        self.client = Client()
        self.forwarding: Forwarding = self.leaders.forwarding(image or image_of(LEADER))
        self.answers: list[ProduceResponse] = []
        self.errors: list[PeerError] = []

    def write(self, value: bytes, *, timeout_ms: int = 1000) -> None:
        asked = self.forwarding.produce(
            self.client.connection, LEADER, write(value, timeout_ms=timeout_ms), version=VERSION
        )

        async def relay() -> None:
            try:
                self.answers.append(await asked)
            except PeerError as error:
                self.errors.append(error)

        self.forwarding.spawn(self.client.connection, relay())

    @property
    def offsets(self) -> list[int]:
        return [answer.topics[0].partitions[0].base_offset for answer in self.answers]


def test_it_knows_who_leads_and_that_it_is_not_asked_itself() -> None:
    async def run() -> None:
        forwarding = Leaders().forwarding(image_of(LEADER, ME, -1))
        assert forwarding.leader_of("orders", 0) == Leader(LEADER, 0)
        for topic, partition in (("orders", 1), ("orders", 2), ("orders", 3), ("unknown", 0), (None, 0)):
            assert forwarding.leader_of(topic, partition) is None

    asyncio.run(run())


@on_loop
async def test_a_request_is_passed_on_once() -> None:
    forwarding = Leaders().forwarding(image_of(LEADER))
    assert forwarding.is_for_others("somebody")
    assert forwarding.is_for_others(None)
    assert not forwarding.is_for_others(PASSED_ON)
    it = Passing()
    it.write(b"a")
    await turns(8)
    assert [header.client_id for header, _ in it.leaders.links[0].asked] == [PASSED_ON]


@on_loop
async def test_answers_reach_those_who_asked() -> None:
    it = Passing()
    for value in (b"a", b"b", b"c"):
        it.write(value)
    await turns(8)
    (link,) = it.leaders.links
    assert (link.host, link.values) == (f"host{LEADER}", [b"a", b"b", b"c"])
    for offset in (7, 8, 9):
        link.answer_produce(offset)
    await turns(8)
    assert it.offsets == [7, 8, 9]


@on_loop
async def test_nobody_overtakes_those_who_wait_for_the_way_to_open() -> None:
    """Above all not who comes in the very moment in which it opens."""
    it = Passing()
    it.leaders.gate = asyncio.Event()
    sent = [b"%d" % number for number in range(20)]
    for number, value in enumerate(sent):
        it.write(value)
        if number == 5:
            it.leaders.gate.set()
        if number >= 5:
            await turns(1)
    await turns(8)
    assert it.leaders.links[0].values == sent


@on_loop
async def test_a_request_has_left_when_the_call_returns() -> None:
    it = Passing()
    it.write(b"first")
    await turns(8)
    it.write(b"second")
    assert it.leaders.links[0].values == [b"first", b"second"]


@on_loop
async def test_each_client_has_a_way_of_its_own() -> None:
    it, other = Passing(), Client()
    it.write(b"mine")
    theirs = it.forwarding.spawn(
        other.connection, _await(it.forwarding.produce(other.connection, LEADER, write(b"theirs"), VERSION))
    )
    await turns(8)
    assert [link.values for link in it.leaders.links] == [[b"mine"], [b"theirs"]]
    theirs.cancel()


async def _await(answer: object) -> None:
    await answer  # type: ignore[misc]


@on_loop
async def test_who_cannot_be_reached_has_not_been_asked() -> None:
    it = Passing()
    it.leaders.is_dead = True
    it.write(b"a")
    it.write(b"b")
    await turns(8)
    assert [error.unsent for error in it.errors] == [True, True]


@on_loop
async def test_a_leader_without_an_address_has_not_been_asked() -> None:
    image = image_of(LEADER)
    del image.brokers[LEADER]
    it = Passing(image)
    it.write(b"a")
    await turns(8)
    assert [error.unsent for error in it.errors] == [True]


@on_loop
async def test_whose_answer_is_lost_may_have_been_heard() -> None:
    it = Passing()
    it.write(b"a")
    it.write(b"b")
    await turns(8)
    it.leaders.links[0].answer_produce(5)
    it.leaders.links[0].lose()
    await turns(8)
    assert it.offsets == [5]
    assert [error.unsent for error in it.errors] == [False]


@on_loop
async def test_a_leader_that_does_not_answer_in_time_may_have_heard_too() -> None:
    it = Passing()
    it.write(b"a", timeout_ms=-4_990)  # so that the grace is over in 10 ms
    while not it.errors:
        await turns(8)
    assert [error.unsent for error in it.errors] == [False]
    assert it.leaders.links[0].is_aborted, "an answer that comes later is nobody's"


@on_loop
async def test_nobody_waits_for_a_leader_that_is_fenced() -> None:
    image = image_of(LEADER)
    it = Passing(image)
    it.write(b"a", timeout_ms=60_000)
    await turns(8)
    it.forwarding.on_change(image, apply(image, [BrokerFenced(OTHER)]))
    await turns(8)
    assert it.errors == [], "that is another one"
    it.forwarding.on_change(image, apply(image, [BrokerFenced(LEADER)]))
    it.write(b"b")
    await turns(8)
    assert [error.unsent for error in it.errors] == [False], "it may have been heard"
    assert it.leaders.links[0].is_aborted
    assert it.leaders.links[1].values == [b"b"]


@on_loop
async def test_nobody_waits_for_the_way_to_a_leader_that_is_not_there_any_more() -> None:
    image = image_of(LEADER)
    it = Passing(image)
    it.leaders.gate = asyncio.Event()
    it.write(b"a", timeout_ms=60_000)
    await turns(8)
    it.forwarding.on_change(image, apply(image, [BrokerUnregistered(LEADER, image.brokers[LEADER].epoch)]))
    await turns(8)
    assert [error.unsent for error in it.errors] == [True]


@on_loop
async def test_an_answer_that_makes_no_sense_is_none() -> None:
    it = Passing()
    it.write(b"a")
    await turns(8)
    it.leaders.links[0].answer_nonsense()
    await turns(8)
    assert [error.unsent for error in it.errors] == [False]


@on_loop
async def test_after_a_lost_connection_there_is_another() -> None:
    it = Passing()
    it.write(b"a")
    await turns(8)
    it.leaders.links[0].lose()
    it.write(b"b")
    await turns(8)
    assert [link.values for link in it.leaders.links] == [[b"a"], [b"b"]]


@on_loop
async def test_when_the_client_is_gone_so_are_its_ways() -> None:
    it = Passing()
    it.write(b"a")
    await turns(8)
    it.client.peer.abort()
    await turns(8)
    assert it.leaders.links[0].is_aborted
    assert len(it.errors) == 1
    assert not it.forwarding._clients


@on_loop
async def test_when_the_client_is_gone_nobody_waits_for_a_way_to_open() -> None:
    it = Passing()
    it.leaders.gate = asyncio.Event()
    it.write(b"a")
    await turns(8)
    it.client.peer.abort()
    await turns(8)
    assert [error.unsent for error in it.errors] == [True]
    it.leaders.gate.set()
    await turns(8)
    assert it.leaders.links == []


@on_loop
async def test_a_bug_ends_the_connection_that_would_wait_for_ever_and_is_told() -> None:
    it, told = Passing(), []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))

    async def fail() -> None:
        raise AssertionError("a promise of ours")

    it.forwarding.spawn(it.client.connection, fail())
    await turns(8)
    assert it.client.peer.is_closing()
    assert [str(error) for error in told] == ["a promise of ours"]


@on_loop
async def test_a_client_is_not_read_from_while_its_leader_takes_nothing() -> None:
    """Whatever it sends and whether or not it waits for answers: a leader that hangs must cost a bounded amount."""
    it = Passing()
    size = UNDER_WAY_BYTES_MAX // 8
    for _ in range(7):
        it.write(bytes(size))
    it.client.sends(request(PRODUCE, "one"))
    assert it.client.script.started == ["one"]
    it.write(bytes(size))
    unread = it.client.sends(request(PRODUCE, "two"), request(PRODUCE, "three"))
    assert it.client.script.started == ["one"]
    assert it.client.peer.reading_paused
    await turns(8)
    it.leaders.links[0].answer_produce()
    await turns(8)
    assert not it.client.peer.reading_paused
    assert it.client.script.started == ["one", "two", "three"]
    assert unread == b""


@on_loop
async def test_many_small_requests_count_too() -> None:
    it = Passing()
    sent = 0
    while not it.client.connection._held:
        it.write(b"x")
        sent += 1
        assert sent < 10_000
    assert sent > 1000
    await turns(8)
    it.leaders.links[0].lose()
    await turns(8)
    assert not it.client.connection._held
    assert len(it.errors) == sent


@on_loop
async def test_a_read_is_passed_on_as_it_is() -> None:
    it = Passing()
    answer = asyncio.ensure_future(
        _returned(it.forwarding.fetch(it.client.connection, LEADER, FetchRequest(100, 1, 1 << 20, []), 12))
    )
    await turns(8)
    ((header, asked),) = it.leaders.links[0].asked
    assert isinstance(asked, FetchRequest)
    assert (header.api_version, asked.max_wait_ms) == (12, 100)
    it.leaders.links[0].answer_fetch(FetchResponse([], session_id=0))
    assert (await answer).topics == []


async def _returned(answer: object) -> FetchResponse:
    return await answer  # type: ignore[misc, no-any-return]


@pytest.mark.parametrize("listener", ["PLAINTEXT", "UNKNOWN"])
def test_clients_are_told_addresses_of_their_own_listener(listener: str) -> None:
    async def run() -> None:
        found = Leaders().forwarding(image_of(LEADER)).endpoint(OTHER, listener)
        assert (found is not None) == (listener == "PLAINTEXT")
        if found is not None:
            assert (found.node_id, found.host, found.port) == (OTHER, f"host{OTHER}", 9092)

    asyncio.run(run())
