"""What a broker tells the controller of where its replicas are, one rule a test."""

from __future__ import annotations

import asyncio
from uuid import UUID

from bifrost.broker.directory_assignments import DirectoryAssignments
from bifrost.errors import ApiError, ErrorCode
from bifrost.protocol.messages.replicas import (
    AssignedDirectoryResult,
    AssignedPartitionResult,
    AssignedTopicResult,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from tests.unit.broker.stand_ins import on_loop

TOPIC, OTHER = UUID(int=500).bytes, UUID(int=501).bytes
HERE, THERE, UNKNOWN = UUID(int=700).bytes, UUID(int=701).bytes, UUID(int=1).bytes


class Controller:
    """Answers with `codes` for partitions, and fails as often as it is told to."""

    def __init__(self) -> None:
        self.asked: list[AssignReplicasToDirsRequest] = []
        self.failures = 0
        self.codes: dict[int, ErrorCode] = {}
        self.gate: asyncio.Event | None = None
        self.heard = asyncio.Event()

    async def ask(self, request: AssignReplicasToDirsRequest) -> AssignReplicasToDirsResponse:
        self.asked.append(request)
        self.heard.set()
        if self.gate is not None:
            await self.gate.wait()
        if self.failures:
            self.failures -= 1
            raise ApiError(ErrorCode.NOT_CONTROLLER, "somebody else leads")
        return AssignReplicasToDirsResponse(
            directories=[
                AssignedDirectoryResult(
                    id=directory.id,
                    topics=[
                        AssignedTopicResult(
                            topic_id=topic.topic_id,
                            partitions=[
                                AssignedPartitionResult(
                                    partition_index=one.partition_index,
                                    error_code=self.codes.get(one.partition_index, ErrorCode.NONE),
                                )
                                for one in topic.partitions
                            ],
                        )
                        for topic in directory.topics
                    ],
                )
                for directory in request.directories
            ]
        )

    def told(self, slot: int = -1) -> dict[tuple[bytes, int], bytes]:
        return {
            (topic.topic_id.bytes, one.partition_index): directory.id.bytes
            for directory in self.asked[slot].directories
            for topic in directory.topics
            for one in topic.partitions
        }


async def until_told(assignments: DirectoryAssignments) -> None:
    running = asyncio.ensure_future(assignments.run())
    while len(assignments):  # noqa: ASYNC110  # there is no event for it, and a round takes no time
        await asyncio.sleep(0.001)
    assignments.close()
    await running


@on_loop
async def test_all_that_waits_goes_into_one_request() -> None:
    controller = Controller()
    assignments = DirectoryAssignments(controller.ask, broker_id=3, broker_epoch=lambda: 17)
    assignments.note(TOPIC, 0, actual=HERE, known=UNKNOWN)
    assignments.note(TOPIC, 1, actual=THERE, known=UNKNOWN)
    assignments.note(OTHER, 0, actual=HERE, known=THERE)
    assignments.note(OTHER, 1, actual=HERE, known=HERE)
    await until_told(assignments)
    (request,) = controller.asked
    assert (request.broker_id, request.broker_epoch) == (3, 17)
    assert controller.told() == {(TOPIC, 0): HERE, (TOPIC, 1): THERE, (OTHER, 0): HERE}


@on_loop
async def test_what_is_not_answered_is_told_again_and_what_is_refused_is_not() -> None:
    controller = Controller()
    controller.failures, controller.codes = 2, {1: ErrorCode.UNKNOWN_TOPIC_ID}
    assignments = DirectoryAssignments(controller.ask, broker_id=3, broker_epoch=lambda: 17)
    for index in range(2):
        assignments.note(TOPIC, index, actual=HERE, known=UNKNOWN)
    await until_told(assignments)
    assert len(controller.asked) == 3
    assert controller.told(0) == controller.told(2)


@on_loop
async def test_a_replica_that_has_moved_on_meanwhile_is_told_of_again() -> None:
    controller = Controller()
    controller.gate = asyncio.Event()
    assignments = DirectoryAssignments(controller.ask, broker_id=3, broker_epoch=lambda: 17)
    assignments.note(TOPIC, 0, actual=HERE, known=UNKNOWN)
    running = asyncio.ensure_future(until_told(assignments))
    await controller.heard.wait()
    assignments.note(TOPIC, 0, actual=THERE, known=UNKNOWN)
    controller.gate.set()
    await running
    assert [controller.told(slot) for slot in range(2)] == [{(TOPIC, 0): HERE}, {(TOPIC, 0): THERE}]


@on_loop
async def test_what_the_metadata_says_by_now_and_what_is_deleted_is_not_told() -> None:
    controller = Controller()
    assignments = DirectoryAssignments(controller.ask, broker_id=3, broker_epoch=lambda: 17)
    assignments.note(TOPIC, 0, actual=HERE, known=UNKNOWN)
    assignments.note(TOPIC, 0, actual=HERE, known=HERE)
    assignments.note(TOPIC, 1, actual=HERE, known=UNKNOWN)
    assignments.forget(TOPIC, 1)
    await until_told(assignments)
    assert controller.asked == []
