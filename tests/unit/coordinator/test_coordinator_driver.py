"""Shards come and go with elections; a request finds its own, or learns why not."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from bifrost.coordinator.core.records import OffsetCommitKey, OffsetCommitValue, record
from bifrost.coordinator.driver import GroupCoordinator, group_settings
from bifrost.coordinator.router import OFFSETS_TOPIC, partition_for
from bifrost.errors import ApiError, ErrorCode
from bifrost.log.config import FlushPolicy
from bifrost.protocol.messages.groups import JoinGroupResponse
from bifrost.settings import Settings
from tests.unit.broker.stand_ins import on_loop, turns, until
from tests.unit.coordinator.consumer.stand_ins import Topics
from tests.unit.coordinator.led_partition import FixedClock, LedPartition
from tests.unit.coordinator.test_loading import offset
from tests.unit.coordinator.whole_shard import GROUP

PARTITIONS = 4
MINE = partition_for(GROUP, PARTITIONS)


class Node:
    """A coordinator and the partitions that it may lead."""

    def __init__(self, **settings: Any) -> None:
        self.topics = Topics(**{OFFSETS_TOPIC: PARTITIONS, "orders": 4})
        self.led = LedPartition(MINE, policy=FlushPolicy.OS)
        self.groups = GroupCoordinator(
            Settings(group_initial_rebalance_delay_ms=0, group_min_session_timeout_ms=1, **settings),
            self.topics,
            self.led.waiters,
            loop=asyncio.get_running_loop(),
            clock=FixedClock(),
            rng=random.Random(1),
            on_storage_error=lambda _: None,
            configs_of=lambda _: {},
        )

    def offsets(self, group_id: str = GROUP) -> dict[int, int]:
        answer = self.groups.ask(
            group_id,
            lambda shard, respond: respond(
                {
                    partition: int.from_bytes(value[2:10], "big")
                    for partition, value in shard.committed.of(group_id).get("orders", {}).items()
                }
            ),
        )
        assert isinstance(answer, dict)
        return answer

    def serves(self, group_id: str) -> bool:
        try:
            self.groups.ask(group_id, lambda _, respond: respond(True))
        except ApiError:
            return False
        return True

    def refusal(self) -> ErrorCode:
        with pytest.raises(ApiError) as refused:
            self.offsets()
        return refused.value.code


@asynccontextmanager
async def running(**settings: Any) -> AsyncIterator[Node]:
    node = Node(**settings)
    task = asyncio.ensure_future(node.groups.run())
    try:
        yield node
    finally:
        node.groups.close()
        await task


@on_loop
async def test_without_an_election_groups_are_elsewhere() -> None:
    async with running() as node:
        assert node.refusal() is ErrorCode.NOT_COORDINATOR
        node.topics.delete(OFFSETS_TOPIC)
        assert node.refusal() is ErrorCode.NOT_COORDINATOR


@on_loop
async def test_an_empty_partition_serves_at_once() -> None:
    async with running() as node:
        node.groups.elected(node.led.partition)
        assert node.offsets() == {}


@on_loop
async def test_a_partition_is_loaded_before_it_serves() -> None:
    async with running() as node:
        node.led.append(offset(7))
        node.groups.elected(node.led.partition)
        assert node.refusal() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        with pytest.raises(ApiError) as refused:
            await node.groups.ask_all(lambda shard, respond: respond(len(shard.committed)))
        assert refused.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await loaded(node)
        assert node.offsets() == {0: 7}
        assert await node.groups.ask_all(lambda shard, respond: respond(len(shard.committed))) == [1]


async def loaded(node: Node) -> None:
    await until(lambda: node.serves(GROUP))


@on_loop
async def test_the_same_election_twice_changes_nothing_and_a_new_epoch_loads_again() -> None:
    async with running() as node:
        node.groups.elected(node.led.partition)
        node.led.append(offset(1))  # behind the coordinator's back, as only another leader would
        node.groups.elected(node.led.partition)
        assert node.offsets() == {}
        node.led.lead()
        node.groups.elected(node.led.partition)
        await loaded(node)
        assert node.offsets() == {0: 1}


@on_loop
async def test_a_resignation_sends_everybody_away() -> None:
    async with running() as node:
        node.groups.elected(node.led.partition)
        parked: list[Any] = []
        answer = node.groups.ask(GROUP, lambda shard, respond: parked.append(respond))
        assert isinstance(answer, asyncio.Future)
        node.led.partition.resign()
        node.groups.resigned(MINE)
        assert node.refusal() is ErrorCode.NOT_COORDINATOR
        parked[0](JoinGroupResponse(error_code=ErrorCode.NOT_COORDINATOR, member_id="m"))
        assert (await answer).error_code == ErrorCode.NOT_COORDINATOR


@on_loop
async def test_a_resignation_while_loading_is_the_end_of_it() -> None:
    async with running() as node:
        node.led.append(*(offset(number) for number in range(2_000)))
        node.groups.elected(node.led.partition)
        await asyncio.sleep(0)
        node.led.partition.resign()
        node.groups.resigned(MINE)
        await turns(20)
        assert node.refusal() is ErrorCode.NOT_COORDINATOR


@on_loop
async def test_a_disk_that_takes_the_leadership_away_without_an_election_is_noticed() -> None:
    async with running() as node:
        node.groups.elected(node.led.partition)
        node.led.partition.resign()
        assert node.refusal() is ErrorCode.NOT_COORDINATOR
        node.groups.drop_lost()
        assert await node.groups.ask_all(lambda shard, respond: respond(0)) == []


@on_loop
async def test_a_partition_that_cannot_be_read_is_not_served() -> None:
    async with running() as node:
        node.led.append(record(OffsetCommitKey(group=GROUP, topic="t", partition=0), None)._replace(key=b"\0\2bad"))
        node.groups.elected(node.led.partition)
        await until(lambda: node.refusal() is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        assert node.refusal() is ErrorCode.NOT_COORDINATOR
        assert await node.groups.ask_all(lambda shard, respond: respond(0)) == []


@on_loop
async def test_many_groups_are_asked_at_once_and_fail_one_by_one() -> None:
    async with running() as node:
        node.groups.elected(node.led.partition)
        elsewhere = next(name for name in map(str, range(99)) if partition_for(name, PARTITIONS) != MINE)
        answers = await node.groups.ask_each(
            [GROUP, elsewhere],
            lambda group_id: lambda _, respond: respond((group_id, ErrorCode.NONE)),
            lambda group_id, error: (group_id, error.code),
        )
        assert answers == [(GROUP, ErrorCode.NONE), (elsewhere, ErrorCode.NOT_COORDINATOR)]


@on_loop
async def test_deadlines_run_in_time_with_one_timer() -> None:
    async with running() as node:
        node.groups.elected(node.led.partition)
        loop, fired = asyncio.get_running_loop(), []

        def ask(shard: Any, respond: Any) -> None:
            now_ms = shard.env.monotonic_ms()
            shard.env.deadlines.set("late", now_ms + 30, lambda: fired.append("late"))
            shard.env.deadlines.set("early", now_ms + 10, lambda: fired.append("early"))
            respond(now_ms)

        started = node.groups.ask(GROUP, ask)
        assert isinstance(started, int)
        await until(lambda: len(fired) == 2)
        assert fired == ["early", "late"]
        assert loop.time() * 1000 - started >= 29


@on_loop
async def test_a_deadline_whose_change_could_not_be_written_does_not_stop_the_others() -> None:
    async with running() as node:
        node.groups.elected(node.led.partition)
        fired = []

        def refuse() -> None:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "no disk")

        def ask(shard: Any, respond: Any) -> None:
            shard.env.deadlines.set("bad", shard.env.monotonic_ms(), refuse)
            shard.env.deadlines.set("good", shard.env.monotonic_ms() + 1, lambda: fired.append("good"))
            respond(0)

        node.groups.ask(GROUP, ask)
        await until(lambda: bool(fired))


@on_loop
async def test_offsets_of_deleted_topics_go() -> None:
    async with running() as node:
        node.led.append(offset(7))
        node.groups.elected(node.led.partition)
        await loaded(node)
        node.groups.topics_changed(set(), {"orders"})
        assert node.offsets() == {}


def test_settings_reach_the_cores() -> None:
    given = Settings(group_max_size=7, group_consumer_session_timeout_ms=9, group_consumer_assignors=("range",))
    told = group_settings(given)
    assert (told.max_size, told.consumer_session_timeout_ms, told.consumer_assignors) == (7, 9, ("range",))


@on_loop
async def test_small_partitions_are_loaded_before_large_ones() -> None:
    async with running() as node:
        large, small = node.led, LedPartition((MINE + 1) % PARTITIONS, policy=FlushPolicy.OS)
        value = OffsetCommitValue(offset=1, metadata="", commit_timestamp=0)
        large.append(*(offset(number) for number in range(20_000)))
        small.append(record(OffsetCommitKey(group="other", topic="orders", partition=0), value))
        node.groups.elected(large.partition)
        node.groups.elected(small.partition)
        other = next(name for name in map(str, range(99)) if partition_for(name, PARTITIONS) == small.partition.tp[1])

        await until(lambda: node.serves(other))
        assert node.refusal() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
