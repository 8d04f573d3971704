"""Decide, append, apply, publish, answer: the driver's order, its grouping, and what happens when the log fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random

import pytest
from tests.unit.controller.stand_ins import CLUSTER, MemoryLog, registration

from bifrost.controller.core.brokers import register_broker
from bifrost.controller.core.config_changes import ConfigChange, Operation, ResourceChange
from bifrost.controller.core.decision import Decision
from bifrost.controller.core.delta import Delta
from bifrost.controller.core.image import MetadataImage
from bifrost.controller.core.partitions import MorePartitions
from bifrost.controller.core.records import ConfigChanged
from bifrost.controller.core.topics import NewTopic, TopicRef
from bifrost.controller.driver import Controller, new_topic_id
from bifrost.controller.replica import MetadataReplica
from bifrost.errors import ApiError, DiskFullError, ErrorCode, OutcomeUnknownError, StorageError
from bifrost.settings import Settings
from bifrost.settings.fields import LATER

FULL = DiskFullError("memory", "no space left")
BROKEN = StorageError("memory", "input/output error")


class Running:
    """A controller at work on a log in memory, with broker 1 registered."""

    def __init__(self, log: MemoryLog, settings: Settings) -> None:
        self.log = log
        self.failures: list[StorageError] = []
        self.published: list[tuple[int, Delta]] = []
        self.replica = MetadataReplica(log)
        log.replicas.append(self.replica)
        self.controller = Controller(log, self.replica, settings, Random(7), on_failure=self.failures.append)
        self.replica.subscribe(lambda image, delta: self.published.append((image.offset, delta)))

    def lead(self, epoch: int = 1) -> None:
        """What a quorum does with its new leader: everything from before is applied first."""
        self.replica.on_commit(self.log.end_offset)
        self.controller.activate(epoch)

    @property
    def image(self) -> MetadataImage:
        return self.controller.image

    async def hold(self) -> asyncio.Task[object]:
        """Start a change whose append waits for the gate, so that what follows is grouped."""
        self.log.gate = asyncio.Event()
        self.log.reached.clear()
        first = asyncio.ensure_future(self.controller.create_topics([NewTopic("first")]))
        await self.log.reached.wait()
        return first

    def let_go(self) -> None:
        assert self.log.gate is not None
        self.log.gate.set()


@asynccontextmanager
async def running(log: MemoryLog | None = None, settings: Settings | None = None) -> AsyncIterator[Running]:
    it = Running(log or MemoryLog(), settings or Settings())
    it.lead()
    task = asyncio.ensure_future(it.controller.run())
    await it.controller.open_cluster(CLUSTER)
    await it.controller.submit(lambda image: register_broker(image, registration(1)))
    try:
        yield it
    finally:
        it.controller.close()
        await task
        it.log.replicas.clear()


def on_loop(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    def run() -> None:
        async def bounded() -> None:
            await asyncio.wait_for(test(), 20)

        asyncio.run(bounded())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


async def yield_to_others() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def code_of(call: Awaitable[object]) -> ErrorCode:
    with pytest.raises(ApiError) as refused:
        await call
    return refused.value.code


@on_loop
async def test_an_answer_comes_after_append_apply_and_publish() -> None:
    async with running() as it:
        (created,) = await it.controller.create_topics([NewTopic("t", 2)])
        assert created.error is ErrorCode.NONE
        assert len(it.log.values) == 3
        assert it.image.topics["t"].topic_id == created.topic_id
        offset, delta = it.published[-1]
        assert offset == 2
        assert [topic.name for topic in delta.topics_created.values()] == ["t"]
        assert len(delta.partitions) == 2


@on_loop
async def test_nothing_is_visible_before_the_commit() -> None:
    async with running() as it:
        first = await it.hold()
        assert "first" not in it.image.topics
        assert len(it.published) == 1
        it.let_go()
        await first
        assert "first" in it.image.topics


@on_loop
async def test_the_answers_of_the_api() -> None:
    async with running() as it:
        epoch = it.image.brokers[1].epoch
        assert await it.controller.allocate_producer_ids(broker_id=1, broker_epoch=epoch) == range(1_000)
        await it.controller.create_topics([NewTopic("t")])
        assert (await it.controller.create_partitions([MorePartitions("t", 3)]))[0].error is ErrorCode.NONE
        assert len(it.image.topics["t"].partitions) == 3
        assert (await it.controller.delete_topics([TopicRef("t")]))[0].error is ErrorCode.NONE
        assert it.image.topics == {}


@on_loop
async def test_validation_appends_nothing() -> None:
    async with running() as it:
        stored = len(it.log.values)
        await it.controller.create_topics([NewTopic("t")], validate_only=True)
        await it.controller.create_partitions([MorePartitions("t", 3)], validate_only=True)
        assert len(it.log.values) == stored


@on_loop
async def test_requests_that_wait_share_one_append_and_see_each_other() -> None:
    async with running() as it:
        first = await it.hold()
        waiting = [asyncio.ensure_future(it.controller.create_topics([NewTopic(name)])) for name in ("a", "b", "a")]
        await yield_to_others()
        appends = len(it.log.appends)
        it.let_go()
        await first
        results = [(await task)[0].error for task in waiting]
        assert results == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS]
        assert it.log.appends[appends + 1 :] == [2]
        assert len(it.published) == 3


@on_loop
async def test_a_refusal_waits_for_what_it_was_decided_upon() -> None:
    async with running() as it:
        first = await it.hold()
        second = asyncio.ensure_future(it.controller.create_topics([NewTopic("first")], validate_only=True))
        await yield_to_others()
        assert not second.done()
        it.let_go()
        assert (await second)[0].error is ErrorCode.TOPIC_ALREADY_EXISTS
        assert first.done()


@on_loop
async def test_a_decision_that_is_refused_refuses_nobody_else() -> None:
    async with running() as it:
        calls = [
            it.controller.create_topics([NewTopic("huge", 20_000)]),
            it.controller.create_topics([NewTopic("t")]),
            it.controller.open_cluster("another"),
        ]
        huge, created, another = await asyncio.gather(*calls, return_exceptions=True)
        assert isinstance(huge, ApiError)
        assert huge.code is ErrorCode.POLICY_VIOLATION
        assert isinstance(another, ApiError)
        assert another.code is ErrorCode.INCONSISTENT_CLUSTER_ID
        assert isinstance(created, list)
        assert list(it.image.topics) == ["t"]


@on_loop
async def test_a_change_that_is_too_large_to_store_is_refused_before_it_is_decided_upon() -> None:
    async with running() as it:
        giant = ConfigChanged(4, "", "x", "y" * (5 << 20))
        assert await code_of(it.controller.submit(lambda _: Decision([giant], None))) is ErrorCode.POLICY_VIOLATION
        await it.controller.create_topics([NewTopic("t")])
        assert it.image.configs == {}


@on_loop
async def test_a_full_disk_refuses_the_group_and_the_next_one_works() -> None:
    async with running() as it:
        before = it.image.copy()
        it.log.failure = FULL
        calls = [it.controller.create_topics([NewTopic(name)]) for name in ("a", "a", "b")]
        refused = await asyncio.gather(*calls, return_exceptions=True)
        assert [error.code for error in refused if isinstance(error, ApiError)] == [ErrorCode.KAFKA_STORAGE_ERROR] * 3
        assert it.image == before
        assert it.failures == []
        (created,) = await it.controller.create_topics([NewTopic("a")])
        assert created.error is ErrorCode.NONE


@on_loop
async def test_a_failed_log_stops_the_controller_and_keeps_the_image() -> None:
    async with running() as it:
        await it.controller.create_topics([NewTopic("t")])
        it.log.failure = BROKEN
        assert await code_of(it.controller.create_topics([NewTopic("a")])) is ErrorCode.KAFKA_STORAGE_ERROR
        assert it.failures == [BROKEN]
        assert await code_of(it.controller.create_topics([NewTopic("b")])) is ErrorCode.KAFKA_STORAGE_ERROR
        assert list(it.image.topics) == ["t"]


@on_loop
async def test_a_failed_log_refuses_those_who_wait() -> None:
    async with running() as it:
        first = await it.hold()
        second = asyncio.ensure_future(it.controller.create_topics([NewTopic("second")]))
        await yield_to_others()
        it.log.failure = BROKEN
        it.let_go()
        assert await code_of(first) is ErrorCode.KAFKA_STORAGE_ERROR
        assert await code_of(second) is ErrorCode.KAFKA_STORAGE_ERROR


@on_loop
async def test_the_queue_is_bounded() -> None:
    async with running(settings=Settings(controller_max_pending_requests=2)) as it:
        first = await it.hold()
        waiting = [asyncio.ensure_future(it.controller.create_topics([NewTopic(name)])) for name in ("a", "b")]
        await yield_to_others()
        assert await code_of(it.controller.create_topics([NewTopic("c")])) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
        it.let_go()
        await asyncio.gather(first, *waiting)
        assert sorted(it.image.topics) == ["a", "b", "first"]


@on_loop
async def test_a_caller_that_left_is_not_decided_for() -> None:
    async with running() as it:
        first = await it.hold()
        gone = asyncio.ensure_future(it.controller.create_topics([NewTopic("gone")]))
        await yield_to_others()
        gone.cancel()
        it.let_go()
        await first
        await it.controller.create_topics([NewTopic("next")])
        assert sorted(it.image.topics) == ["first", "next"]


@on_loop
async def test_a_caller_that_leaves_during_the_append_does_not_undo_it() -> None:
    async with running() as it:
        first = await it.hold()
        first.cancel()
        it.let_go()
        await it.controller.create_topics([NewTopic("next")])
        assert sorted(it.image.topics) == ["first", "next"]


@on_loop
async def test_closing_refuses_those_who_wait_and_finishes_what_is_appended() -> None:
    async with running() as it:
        first = await it.hold()
        second = asyncio.ensure_future(it.controller.create_topics([NewTopic("second")]))
        await yield_to_others()
        it.controller.close()
        assert await code_of(second) is ErrorCode.NOT_CONTROLLER
        it.let_go()
        await first
        assert list(it.image.topics) == ["first"]
        assert await code_of(it.controller.create_topics([NewTopic("third")])) is ErrorCode.NOT_CONTROLLER


@on_loop
async def test_a_bug_in_a_decision_stops_the_controller_and_leaves_nobody_waiting() -> None:
    it = Running(MemoryLog(), Settings())
    it.lead()

    def broken(_: MetadataImage) -> Decision[None]:
        raise AssertionError("a bug")

    task = asyncio.ensure_future(it.controller.run())
    calls = [it.controller.submit(broken), it.controller.open_cluster("c")]
    waiting = [asyncio.ensure_future(call) for call in calls]
    with pytest.raises(AssertionError, match="a bug"):
        await task
    assert [await code_of(call) for call in waiting] == [ErrorCode.NOT_CONTROLLER] * 2


@on_loop
async def test_who_does_not_lead_decides_nothing() -> None:
    it = Running(MemoryLog(), Settings())
    assert await code_of(it.controller.open_cluster(CLUSTER)) is ErrorCode.NOT_CONTROLLER
    assert not it.controller.is_active


@on_loop
async def test_a_lost_leadership_refuses_those_who_wait_and_those_who_come() -> None:
    async with running() as it:
        first = await it.hold()
        second = asyncio.ensure_future(it.controller.create_topics([NewTopic("second")]))
        await yield_to_others()
        it.controller.deactivate()
        assert await code_of(second) is ErrorCode.NOT_CONTROLLER
        assert not isinstance(second.exception(), OutcomeUnknownError), "nothing of it was written"
        assert await code_of(it.controller.create_topics([NewTopic("third")])) is ErrorCode.NOT_CONTROLLER
        it.log.failure = ApiError(ErrorCode.NOT_CONTROLLER, "epoch 1 is over")
        it.let_go()
        assert await code_of(first) is ErrorCode.NOT_CONTROLLER
        assert isinstance(first.exception(), OutcomeUnknownError), "the next leader may have it"
        assert it.image.topics == {}


@on_loop
async def test_what_was_decided_and_not_committed_is_forgotten_by_the_next_leadership() -> None:
    async with running() as it:
        first = await it.hold()
        it.controller.deactivate()
        it.log.failure = ApiError(ErrorCode.NOT_CONTROLLER, "epoch 1 is over")
        it.controller.activate(3)
        it.let_go()
        assert await code_of(first) is ErrorCode.NOT_CONTROLLER
        (again,) = await it.controller.create_topics([NewTopic("first")])
        assert again.error is ErrorCode.NONE


def test_topic_ids_are_random_uuids_that_do_not_look_like_options() -> None:
    rng = Random(1)
    ids = {new_topic_id(rng, ()) for _ in range(2_000)}
    assert len(ids) == 2_000
    assert new_topic_id(Random(1), ids) not in ids
    assert all(one[6] >> 4 == 4 and one[8] >> 6 == 2 and one[0] >> 2 != 62 for one in ids)


def test_a_config_that_nothing_acts_on_is_noted_when_it_is_set(caplog: pytest.LogCaptureFixture) -> None:
    def notes() -> list[str]:
        found = [each.message for each in caplog.records if "config accepted" in each.message]
        caplog.clear()
        return found

    async def change() -> None:
        async with running() as it:
            configs = (("preallocate", "true"), ("max.message.bytes", "2000"))
            await it.controller.create_topics([NewTopic("orders", configs=configs)])
            assert notes() == [f"config accepted topic=orders config=preallocate value=true note={LATER}"]
            for op in (Operation.SET, Operation.DELETE):
                value = "true" if op is Operation.SET else None
                changed = ResourceChange(4, "", [ConfigChange("log.preallocate", value, op)])
                await it.controller.alter_configs([changed])
            assert notes() == [f"config accepted broker=(all) config=log.preallocate value=true note={LATER}"], (
                "taking it back is nothing to note"
            )
            await it.controller.create_topics(
                [NewTopic("__consumer_offsets", configs=(("cleanup.policy", "compact"),))]
            )
            assert notes() == [], "nobody has set that"

    asyncio.run(asyncio.wait_for(change(), 20))
