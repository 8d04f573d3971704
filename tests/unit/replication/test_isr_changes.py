"""What a broker does when the controller refuses to hear of ISRs."""

from __future__ import annotations

import asyncio
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from bifrost.errors import ApiError, ErrorCode
from bifrost.replication.isr_changes import IsrChanges
from bifrost.types import NodeId, TopicPartition
from tests.sim.loop import SimLoop


class Led:
    """A partition, as far as it is asked about."""

    topic_id, tp = bytes(16), TopicPartition("t", 0)

    def __init__(self, leader: SimpleNamespace) -> None:
        self.leader = self.leading = leader


def test_a_refusal_that_lasts_is_told_once_and_asked_about_less_and_less_often(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A broker that had been unregistered wrote twenty lines a second, for ever."""
    loop, asked = SimLoop(Random(1)), []

    async def refuse(request: Any) -> Any:
        asked.append(request)
        raise ApiError(ErrorCode.STALE_BROKER_EPOCH)

    async def story() -> None:
        changes = IsrChanges(refuse, broker_id=NodeId(1), broker_epoch=lambda: 7)
        leader = SimpleNamespace(epoch=1, partition_epoch=1, proposed_isr=lambda: ((1, 7),))
        running = asyncio.ensure_future(changes.run())
        changes.propose(Led(leader), ())  # type: ignore[arg-type]
        await asyncio.sleep(10)
        running.cancel()

    try:
        loop.run_until_complete(story())
    finally:
        loop.hands.close()
        loop.close()
    assert 5 < len(asked) < 25
    assert len(caplog.messages) == 1
