"""Every producer id is handed out once, and the controller is asked once per block."""

from __future__ import annotations

import asyncio

import pytest

from bifrost.broker.producer_ids import ProducerIds
from bifrost.errors import ApiError, ErrorCode
from bifrost.protocol.messages.producers import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from bifrost.types import NodeId
from tests.unit.broker.stand_ins import on_loop


class Blocks:
    """A channel to a controller that hands out blocks of ten, or fails."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int]] = []
        self.failure: ApiError | None = None
        self._next = 0

    async def ask(
        self, request: AllocateProducerIdsRequest, kind: type[AllocateProducerIdsResponse]
    ) -> AllocateProducerIdsResponse:
        await asyncio.sleep(0)
        if self.failure is not None:
            raise self.failure
        self.asked.append((request.broker_id, request.broker_epoch))
        self._next += 10
        return kind(producer_id_start=self._next - 10, producer_id_len=10)


def make() -> tuple[ProducerIds, Blocks]:
    blocks = Blocks()
    return ProducerIds(blocks, NodeId(1), lambda: 42), blocks  # type: ignore[arg-type]


@on_loop
async def test_ids_rise_and_never_come_twice() -> None:
    ids, blocks = make()
    assert [await ids.next_id() for _ in range(25)] == list(range(25))
    assert blocks.asked == [(1, 42)] * 3


@on_loop
async def test_many_who_ask_at_once_share_a_block() -> None:
    ids, blocks = make()
    got = await asyncio.gather(*(ids.next_id() for _ in range(30)))
    assert sorted(got) == list(range(30))
    assert len(blocks.asked) == 3


@on_loop
async def test_a_controller_that_fails_is_asked_again_by_the_next() -> None:
    ids, blocks = make()
    blocks.failure = ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
    with pytest.raises(ApiError):
        await ids.next_id()
    blocks.failure = None
    assert await ids.next_id() == 0


@on_loop
async def test_a_client_that_gives_up_blocks_nobody() -> None:
    ids, _ = make()
    leaving = asyncio.ensure_future(ids.next_id())
    await asyncio.sleep(0)
    leaving.cancel()
    assert await asyncio.wait_for(ids.next_id(), 5) >= 0
