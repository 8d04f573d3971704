"""Whom an unclean election waits for: asking, with a controller and a log in memory, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from tests.sim.loop import SimLoop
from tests.unit.controller.stand_ins import CLUSTER, MemoryLog, registration

from bifrost.controller.core.brokers import register_broker
from bifrost.controller.core.heartbeats import fence_broker
from bifrost.controller.core.partition_changes import IsrChange, IsrMember, TopicIsrChanges
from bifrost.controller.core.topics import NewTopic
from bifrost.controller.driver import Controller
from bifrost.controller.lost_partitions import LostPartitions
from bifrost.controller.replica import MetadataReplica
from bifrost.errors import ErrorCode
from bifrost.peers.connection import PeerError
from bifrost.protocol.messages.log_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from bifrost.settings import Settings

LAST, SHORTER, LONGER = 1, 2, 3
ENDS = {SHORTER: 10, LONGER: 20}

Tell = Callable[[int, int], ErrorCode | None]
"""What a broker says when it is asked for the so many-th time; None: nothing."""


class Asked:
    """Links to brokers."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._times = dict.fromkeys(ENDS, 0)

    async def ask(self, broker_id: int, *_: Any) -> ListOffsetsResponse:
        self._times[broker_id] += 1
        code = self._tell(broker_id, self._times[broker_id])
        if code is None:
            await asyncio.sleep(2)
            raise PeerError("no answer for 2 s")
        told = ListOffsetsPartitionResponse(
            partition_index=0, error_code=code, timestamp=-1, offset=ENDS[broker_id], leader_epoch=0
        )
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[told])])

    def close(self) -> None: ...


async def elected(tell: Tell) -> tuple[int, float]:
    """Who leads in the end, and after how many seconds, where the only one in sync has died."""
    loop, changed, log = asyncio.get_running_loop(), asyncio.Event(), MemoryLog()
    settings = Settings(unclean_leader_election_enable=True)
    replica = MetadataReplica(log)
    log.replicas.append(replica)
    controller = Controller(log, replica, settings, Random(7), on_failure=lambda _: None)
    lost = LostPartitions(controller, Asked(tell), settings)  # type: ignore[arg-type]
    replica.subscribe(lost.on_change)
    replica.subscribe(lambda *_: changed.set())
    controller.activate(1)
    running = [asyncio.ensure_future(controller.run()), asyncio.ensure_future(lost.run())]
    await controller.open_cluster(CLUSTER)
    for broker_id in (LAST, SHORTER, LONGER):
        asked = registration(broker_id)
        await controller.submit(lambda image, asked=asked: register_broker(image, asked))  # type: ignore[misc]
    (topic,) = await controller.create_topics([NewTopic("t", assignments=[(0, [LAST, SHORTER, LONGER])])])
    alone = IsrChange(0, 0, 0, [IsrMember(LAST, controller.image.brokers[LAST].epoch)])
    epoch = controller.image.brokers[LAST].epoch
    wanted = [TopicIsrChanges(topic.topic_id, [alone])]
    await controller.alter_partitions(wanted, broker_id=LAST, broker_epoch=epoch)
    began = loop.time()
    await controller.submit(lambda image: fence_broker(image, LAST, epoch))
    while not (state := controller.image.topics["t"].partitions[0]).has_leader:
        changed.clear()
        await changed.wait()
    lost.close()
    controller.close()
    await asyncio.gather(*running)
    return state.leader, loop.time() - began


def says(broker_id: int, _times: int) -> ErrorCode | None:
    return ErrorCode.NONE


def is_late(broker_id: int, times: int) -> ErrorCode | None:
    return None if broker_id == LONGER and times == 1 else ErrorCode.NONE


def is_starting(broker_id: int, times: int) -> ErrorCode | None:
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if broker_id == LONGER and times == 1 else ErrorCode.NONE


def says_nothing(broker_id: int, _times: int) -> ErrorCode | None:
    return None if broker_id == LONGER else ErrorCode.NONE


def has_lost_it(broker_id: int, _times: int) -> ErrorCode | None:
    return ErrorCode.KAFKA_STORAGE_ERROR if broker_id == LONGER else ErrorCode.NONE


@pytest.mark.parametrize(
    ("tell", "leader", "seconds"),
    [
        (says, LONGER, (0, 1)),
        (is_late, LONGER, (3, 4)),
        (is_starting, LONGER, (1, 2)),
        (says_nothing, SHORTER, (9, 13)),
        (has_lost_it, SHORTER, (0, 1)),
    ],
)
def test_whoever_lives_is_waited_for_but_not_for_ever(tell: Tell, leader: int, seconds: tuple[int, int]) -> None:
    """One that missed a single question had the longest log, and what only it held was lost."""
    loop = SimLoop(Random(1))
    try:
        found, waited = loop.run_until_complete(elected(tell))
    finally:
        loop.hands.close()
        loop.close()
    assert found == leader
    assert seconds[0] <= waited < seconds[1]
