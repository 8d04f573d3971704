"""What is asked of the active controller again when it leads no more, and what is not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from bifrost.broker.controller_channel import ControllerChannel
from bifrost.errors import ApiError, ErrorCode, OutcomeUnknownError
from bifrost.protocol.codec import writer
from bifrost.protocol.messages.envelopes import EnvelopeResponse
from bifrost.protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tests.unit.broker.stand_ins import on_loop

ASK = CreateTopicsRequest(topics=[CreatableTopic(name="new", num_partitions=1, replication_factor=1)], timeout_ms=1)
REFUSED = EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
MAY_BE_DONE = EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER, response_data=b"")
_ANSWER = CreateTopicsResponse(topics=[CreatableTopicResult(name="new", num_partitions=1)])
_HEADER = bytes(5)  # correlation id 0, and no tagged fields
DONE = EnvelopeResponse(response_data=_HEADER + writer(CreateTopicsResponse, ASK.versions[-1])(_ANSWER))


class Leader:
    """A controller that answers by rote."""

    def __init__(self, *answers: EnvelopeResponse) -> None:
        self.left = list(answers)

    async def ask(self, *_: Any, **__: Any) -> EnvelopeResponse:
        return self.left.pop(0)


class Channel(ControllerChannel):
    def __init__(self, leader: Leader) -> None:
        settings: Any = SimpleNamespace(retry_backoff_ms=1, request_timeout_ms=1000, voters={})
        odin: Any = SimpleNamespace(
            member=SimpleNamespace(settings=settings, me=1), controller=SimpleNamespace(is_active=False)
        )
        nothing: Any = None
        super().__init__(odin, nothing, nothing, patience_ms=10_000, purpose="test")
        self._other: Any = leader

    async def _leader(self, deadline: float) -> Any:
        return self._other


@on_loop
async def test_a_change_that_was_refused_at_the_door_is_brought_to_whoever_leads_next() -> None:
    leader = Leader(REFUSED, REFUSED, DONE)
    answer = await Channel(leader).change(ASK, CreateTopicsResponse)
    assert [topic.name for topic in answer.topics] == ["new"]


@on_loop
async def test_a_change_that_may_be_made_is_not_asked_for_again() -> None:
    leader = Leader(MAY_BE_DONE, DONE)
    with pytest.raises(OutcomeUnknownError) as told:
        await Channel(leader).change(ASK, CreateTopicsResponse)
    assert (told.value.code, leader.left) == (ErrorCode.NOT_CONTROLLER, [DONE])


@on_loop
async def test_what_clients_ask_for_is_sent_again_as_in_kafka() -> None:
    leader = Leader(MAY_BE_DONE, REFUSED, DONE)
    assert await Channel(leader).forward(b"", "somebody:1") == DONE.response_data


@on_loop
async def test_any_other_refusal_is_final() -> None:
    with pytest.raises(ApiError) as told:
        await Channel(Leader(EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST))).change(ASK, CreateTopicsResponse)
    assert told.value.code is ErrorCode.INVALID_REQUEST
