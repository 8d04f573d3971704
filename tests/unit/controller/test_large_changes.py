"""The death of a broker that has a copy of everything is one decision, in the log wholly or not at all, and yet nobody
waits until all of it is applied."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from itertools import pairwise
from random import Random
from types import FrameType
from typing import Any

import pytest
from tests.unit.controller.stand_ins import CLUSTER, MemoryLog, apply, cluster_of, create, registration

from bifrost.controller.core.brokers import register_broker
from bifrost.controller.core.heartbeats import fence_broker
from bifrost.controller.core.image import MetadataImage
from bifrost.controller.core.records import BrokerFenced, PartitionChanged, decode_change, encode_change, in_changes
from bifrost.controller.core.topics import NewTopic
from bifrost.controller.driver import Controller
from bifrost.controller.replica import MetadataReplica
from bifrost.errors import ApiError, ErrorCode
from bifrost.settings import Settings

TOPICS = 1_000
ROOM = 64 + 3
"""A part ends after 64 partitions, where the topic is at its end."""


def image_of(topics: int) -> MetadataImage:
    image = cluster_of(1, 2, 3)
    create(image, *(NewTopic(f"topic-{number}", 3, 3) for number in range(topics)))
    return image


def fence(image: MetadataImage) -> list[Any]:
    return [*fence_broker(image, 1, image.brokers[1].epoch).records]


def test_it_is_cut_between_topics_and_who_is_fenced_comes_last() -> None:
    records = fence(image_of(TOPICS))
    parts = in_changes(records)
    assert [record for part in parts for record in part] == records
    assert max(map(len, parts)) <= ROOM
    assert len(parts) > TOPICS * 3 / ROOM - 1
    assert isinstance(parts[-1][-1], BrokerFenced), "until then it leads less and less, and is not gone yet"
    topics = [{record.topic_id for record in part if isinstance(record, PartitionChanged)} for part in parts]
    for before, after in pairwise(topics):
        assert not before & after, "a topic changes at once"


def test_a_small_one_is_not_cut() -> None:
    records = fence(image_of(20))
    assert in_changes(records) == [records]


def test_parts_add_up_to_the_whole() -> None:
    image = image_of(TOPICS)
    whole, cut = image.copy(), image.copy()
    records = fence(image)
    apply(whole, records)
    for part in in_changes(records):
        apply(cut, decode_change(encode_change(part)))
        assert not cut.index.led(1) or not cut.brokers[1].fenced, "whoever is fenced leads nothing"
    cut.offset = whole.offset
    assert cut.brokers[1].fenced
    assert {name: topic.partitions for name, topic in cut.topics.items()} == {
        name: topic.partitions for name, topic in whole.topics.items()
    }


class Running:
    """A controller that leads, on a log in memory, with a thousand topics on three brokers."""

    def __init__(self) -> None:
        self.log = MemoryLog()
        self.replica = MetadataReplica(self.log)
        self.log.replicas.append(self.replica)
        self.controller = Controller(self.log, self.replica, Settings(), Random(7), on_failure=_fail)

    async def start(self) -> None:
        self.controller.activate(1)
        self.task = asyncio.ensure_future(self.controller.run())
        await self.controller.open_cluster(CLUSTER)
        for broker in (1, 2, 3):
            await self.controller.submit(lambda image, broker=broker: register_broker(image, registration(broker)))  # type: ignore[misc]
        await self.controller.create_topics([NewTopic(f"topic-{number}", 3, 3) for number in range(TOPICS)])

    def fence(self) -> asyncio.Task[bool]:
        epoch = self.controller.image.brokers[1].epoch
        return asyncio.ensure_future(self.controller.submit(lambda image: fence_broker(image, 1, epoch)))


def _fail(error: BaseException) -> None:
    raise error


async def turns_until(task: asyncio.Task[bool]) -> int:
    turns = 0
    while not task.done():
        await asyncio.sleep(0)
        turns += 1
    return turns


def test_others_get_turns_while_it_is_decided_and_it_is_appended_at_once() -> None:
    async def run() -> None:
        running = Running()
        await running.start()
        appends = len(running.log.appends)
        fenced = running.fence()
        assert await turns_until(fenced) >= 5
        assert fenced.result() is True
        assert len(running.log.appends) == appends + 1, "all of it, or nothing"
        assert running.log.appends[-1] > TOPICS * 3 / ROOM - 1
        assert not running.controller.image.index.led(1)
        running.controller.close()
        await running.task

    asyncio.run(run())


@pytest.mark.parametrize("is_elected_again", [False, True])
def test_who_is_deposed_in_the_midst_of_it_appends_nothing(is_elected_again: bool) -> None:
    async def run() -> None:
        running = Running()
        await running.start()
        values = len(running.log.values)
        fenced = running.fence()
        for _ in range(3):
            await asyncio.sleep(0)
        assert len(running.log.values) == values, "it is being decided"
        running.controller.deactivate()
        if is_elected_again:
            running.controller.activate(3)
        with pytest.raises(ApiError) as refused:
            await fenced
        assert refused.value.code is ErrorCode.NOT_CONTROLLER
        assert len(running.log.values) == values
        if is_elected_again:
            assert await running.fence() is True, "what comes next is decided by what is committed"
            assert not running.controller.image.index.led(1)
        running.controller.close()
        await running.task

    asyncio.run(run())


def calls_to_apply(topics: int) -> int:
    """Of our own code, for the fence of a broker that has copies of all these topics, in slices."""
    image = image_of(topics)
    log = MemoryLog()
    replica = MetadataReplica(log)
    replica.image.become(image)
    replica.next_offset = image.offset + 1
    log.values = [b""] * replica.next_offset + [encode_change(part) for part in in_changes(fence(image))]
    calls: Counter[str] = Counter()

    def on_call(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            calls[frame.f_code.co_qualname] += 1

    sys.setprofile(on_call)
    try:
        while replica.next_offset < log.end_offset:
            replica.on_commit(log.end_offset, 1024)
    finally:
        sys.setprofile(None)
    return sum(calls.values())


def test_the_work_grows_with_the_partitions_and_not_faster() -> None:
    small, large = calls_to_apply(100), calls_to_apply(1_000)
    assert large / small == pytest.approx(10, rel=0.03)
