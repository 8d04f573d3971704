"""What other leaders have for a consumer: asked side by side, in short turns, until one of them has something."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bifrost.broker.remote_fetch import RemoteFetch, Results, Wanted
from bifrost.errors import ErrorCode
from bifrost.peers.connection import PeerError
from bifrost.protocol.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionFetchResult,
    TopicFetchResult,
)
from bifrost.protocol.wire import ZERO_UUID
from tests.unit.broker.other_leaders import LEADER, OTHER
from tests.unit.broker.stand_ins import on_loop
from tests.unit.controller.stand_ins import topic_id


class Leaders:
    """Each says what the test gave it, one answer after another, the last one for ever."""

    def __init__(self, **said: list[PartitionFetchResult | None]) -> None:
        self.asked: list[tuple[int, FetchRequest]] = []
        self._said = {LEADER: said["leader"], OTHER: said.get("other", [])}

    async def fetch(self, _connection: Any, leader: int, request: FetchRequest, _version: int) -> FetchResponse:
        self.asked.append((leader, request))
        said = self._said[leader]
        result = said.pop(0) if len(said) > 1 else said[0]
        if result is None:
            raise PeerError("it is gone")
        named: list[FetchTopic] = request.topics
        return FetchResponse([TopicFetchResult(named[0].name, named[0].topic_id, [result])])


def nothing(index: int) -> PartitionFetchResult:
    return PartitionFetchResult(index, high_watermark=5)


def data(index: int) -> PartitionFetchResult:
    return PartitionFetchResult(index, high_watermark=6, records=b"records")


def wanted(topic: str | bytes, index: int) -> Wanted:
    return Wanted(topic, FetchPartition(index, -1, 5, -1, -1, 1 << 20))


def tells(results: Results) -> bool:
    """Enough for a consumer that wants whatever there is."""
    return any(result.records or result.error_code != ErrorCode.NONE for result in results.values())


async def run(
    leaders: Leaders,
    *,
    max_wait_ms: int = 60_000,
    topic: str | bytes = "orders",
    is_enough: Callable[[Results], bool] = tells,
    is_all: bool = False,
) -> Results:
    request = FetchRequest(max_wait_ms, 1, 1 << 20, [], isolation_level=1)
    asked = {LEADER: [wanted(topic, 0)]}
    if leaders._said[OTHER]:
        asked[OTHER] = [wanted(topic, 1)]
    remote = RemoteFetch(leaders, Any, request, 12, asked, is_all=is_all)  # type: ignore[arg-type]  # as much as is needed
    return await remote.run(is_enough)


@on_loop
async def test_all_leaders_are_asked_as_the_client_asked_and_all_answers_count() -> None:
    leaders = Leaders(leader=[data(0)], other=[nothing(1)])
    found = await run(leaders)
    assert {key: bytes(result.records or b"") for key, result in found.items()} == {
        ("orders", 0): b"records",
        ("orders", 1): b"",
    }
    assert [leader for leader, _ in leaders.asked] == [LEADER, OTHER]
    assert {(one.max_wait_ms, one.min_bytes, one.isolation_level) for _, one in leaders.asked} == {(0, 1, 1)}


@on_loop
async def test_who_has_nothing_yet_is_asked_again_and_may_wait_a_little() -> None:
    """Not as long as the client would: another leader may have something by then."""
    leaders = Leaders(leader=[nothing(0), nothing(0), data(0)])
    found = await run(leaders)
    assert found["orders", 0].records
    assert [one.max_wait_ms for _, one in leaders.asked] == [0, 100, 100]


@on_loop
async def test_a_leader_that_has_all_of_it_waits_as_long_as_the_client_would() -> None:
    leaders = Leaders(leader=[nothing(0)])
    found = await run(leaders, is_all=True)
    assert found["orders", 0].high_watermark == 5
    assert [one.max_wait_ms for _, one in leaders.asked] == [60_000]


@on_loop
async def test_of_several_leaders_none_waits_long_even_where_they_have_all_of_it() -> None:
    leaders = Leaders(leader=[nothing(0), data(0)], other=[nothing(1)])
    await run(leaders, is_all=True)
    assert [one.max_wait_ms for _, one in leaders.asked] == [0, 0, 100, 100]


@on_loop
async def test_nobody_waits_longer_than_the_client_would() -> None:
    leaders = Leaders(leader=[nothing(0)])
    found = await run(leaders, max_wait_ms=20)
    assert found["orders", 0].high_watermark == 5
    assert all(one.max_wait_ms <= 20 for _, one in leaders.asked)


@on_loop
async def test_a_client_that_does_not_wait_is_answered_after_one_turn() -> None:
    leaders = Leaders(leader=[nothing(0)])
    await run(leaders, max_wait_ms=0)
    assert len(leaders.asked) == 1


@on_loop
async def test_what_this_node_has_itself_is_enough() -> None:
    leaders = Leaders(leader=[nothing(0)])
    await run(leaders, is_enough=lambda _: len(leaders.asked) == 2)
    assert len(leaders.asked) == 2


@on_loop
async def test_a_refusal_is_told_at_once() -> None:
    leaders = Leaders(leader=[nothing(0), PartitionFetchResult(0, ErrorCode.OFFSET_OUT_OF_RANGE)], other=[nothing(1)])
    found = await run(leaders)
    assert found["orders", 0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@on_loop
async def test_a_leader_that_is_gone_is_like_a_wrong_one_and_others_are_heard() -> None:
    leaders = Leaders(leader=[None], other=[data(1)])
    found = await run(leaders)
    assert found["orders", 0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert found["orders", 1].records


@on_loop
async def test_topics_are_named_as_the_client_named_them() -> None:
    leaders = Leaders(leader=[data(0)])
    found = await run(leaders, topic=topic_id(100))
    assert list(found) == [(topic_id(100), 0)]
    ((_, asked),) = leaders.asked
    assert (asked.topics[0].name, asked.topics[0].topic_id) == ("", topic_id(100))
    await run(again := Leaders(leader=[data(0)]))
    assert again.asked[0][1].topics[0].topic_id == ZERO_UUID
