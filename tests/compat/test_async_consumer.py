"""`bifrost.AsyncConsumer` at Bifrost and at Apache Kafka: the same reading, and a loop that never waits."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import bifrost
from bifrost import AsyncConsumer
from bifrost.types import TopicPartition
from tests.compat.conftest import NewTopicFunction, unique_name
from tests.compat.readers import PATIENCE_S, numbers, values, write
from tests.compat.servers import Server


@pytest.fixture
def topic(broker: Server, new_topic: NewTopicFunction, coordinators: None) -> str:
    name = new_topic()
    write(broker.bootstrap, name, numbers(1000))
    return name


def test_reads_seeks_commits_and_tells(broker: Server, topic: str) -> None:
    group = unique_name()

    async def main() -> None:
        async with AsyncConsumer(
            topic, bootstrap=broker.bootstrap, group=group, from_beginning=True, until_end=True, value="str"
        ) as consumer:
            assert [message.value async for message in consumer] == [f"{number}" for number in range(1000)]
            assert (await consumer.offsets())[topic, 0].position == 1000
            await consumer.seek(offset=997)
            batches = [batch async for batch in consumer.batches(2, timeout=PATIENCE_S)]
            assert [values(batch) for batch in batches] == [["997", "998"], ["999"]]
            assert await consumer.commit() == {TopicPartition(topic, 0): 1000}
            assert await consumer.position(topic, 0) == 1000
            assert consumer.assignment == [TopicPartition(topic, 0)]
            assert repr(consumer).startswith(f"<AsyncConsumer topics={topic} group={group} assigned={topic}-0 ")

    asyncio.run(main())


def test_nothing_is_lost_when_a_wait_is_cancelled(broker: Server, topic: str) -> None:
    async def main() -> None:
        seen: list[bytes] = []
        async with AsyncConsumer(topic, bootstrap=broker.bootstrap, from_beginning=True) as consumer:
            while len(seen) < 1000:
                try:
                    async with asyncio.timeout(0.003):
                        async for message in consumer:
                            seen.append(message.value)
                            await asyncio.sleep(0)
                except TimeoutError:
                    continue
            assert seen == numbers(1000)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await consumer.poll()
            write(broker.bootstrap, topic, [b"more"])
            message = await consumer.poll(PATIENCE_S)
            assert message is not None
            assert message.value == b"more"

    asyncio.run(main())


def test_a_wait_that_is_cancelled_ends_with_its_thread(
    broker: Server, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the next call takes messages while the thread still fetches some."""
    inside, leave = threading.Event(), threading.Event()

    async def main() -> None:
        async with AsyncConsumer(topic, bootstrap=broker.bootstrap) as consumer:
            with monkeypatch.context() as patch:
                patch.setattr(consumer._opened(), "_make_ready", lambda *_: inside.set() or not leave.wait(PATIENCE_S))
                waiting = asyncio.create_task(consumer.poll())
                assert await asyncio.to_thread(inside.wait, PATIENCE_S)
                waiting.cancel()
                for _ in range(10):
                    await asyncio.sleep(0)
                assert not waiting.done()
                leave.set()
                with pytest.raises(asyncio.CancelledError):
                    await waiting

    asyncio.run(main())


@pytest.mark.parametrize("when", ["not yet connected", "not yet waiting", "waiting"])
def test_other_tasks_may_call_while_one_waits(broker: Server, topic: str, when: str) -> None:
    async def main() -> None:
        consumer = AsyncConsumer(topic, bootstrap=broker.bootstrap)
        if when != "not yet connected":
            await consumer.offsets()
        waiting = asyncio.create_task(consumer.poll())
        await asyncio.sleep(0)
        assert consumer._turn.locked()
        if when == "waiting":
            assert (await asyncio.wait([waiting], timeout=0.3))[0] == set()
        async with asyncio.timeout(PATIENCE_S):
            await consumer.seek(offset=10)
            message = await waiting
            await consumer.close()
            assert message is not None
            assert message.offset == 10

    asyncio.run(main())


@pytest.mark.parametrize("group_protocol", ["classic", "consumer"])
def test_callbacks_run_on_the_loop_and_may_wait_for_the_consumer(
    broker: Server, topic: str, group_protocol: Any
) -> None:
    events: list[Any] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()

        async def begin(consumer: AsyncConsumer, partitions: list[TopicPartition]) -> None:
            assert asyncio.get_running_loop() is loop
            await consumer.seek(offset=990, partitions=partitions)

        async def end(consumer: AsyncConsumer, partitions: list[TopicPartition]) -> None:
            events.append((partitions, await consumer.commit()))

        async with AsyncConsumer(
            topic,
            bootstrap=broker.bootstrap,
            group=unique_name(),
            group_protocol=group_protocol,
            auto_commit=False,
            until_end=True,
            on_assigned=begin,
            on_revoked=end,
        ) as consumer:
            assert [message.offset async for message in consumer] == list(range(990, 1000))

    asyncio.run(main())
    here = TopicPartition(topic, 0)
    assert events == [([here], {here: 1000})]


def test_the_loop_goes_on_while_the_consumer_waits(broker: Server, topic: str) -> None:
    async def main() -> int:
        beats = 0

        async def beat() -> None:
            nonlocal beats
            while True:
                await asyncio.sleep(0.01)
                beats += 1

        async with AsyncConsumer(topic, bootstrap=broker.bootstrap) as consumer:
            heart = asyncio.create_task(beat())
            assert await consumer.poll(2) is None
            heart.cancel()
        return beats

    assert asyncio.run(main()) > 20, "a loop that was blocked for two seconds beats once or twice"


def test_errors_are_the_same() -> None:
    async def main() -> None:
        with pytest.raises(bifrost.UnreachableError):
            async with AsyncConsumer("t", bootstrap="127.0.0.1:1", request_timeout_s=0.5):
                pass
        consumer = AsyncConsumer("t", bootstrap="127.0.0.1:1", request_timeout_s=0.5)
        assert repr(consumer) == "<AsyncConsumer topics=t not connected yet>"
        with pytest.raises(bifrost.UnreachableError):
            await consumer.poll()
        await consumer.close()

    asyncio.run(main())
