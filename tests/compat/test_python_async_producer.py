"""bifrost.AsyncProducer against both brokers: the same promises as the producer's, and a loop that keeps turning."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from bifrost import (
    AsyncProducer,
    InvalidRequestError,
    MessageTooLargeError,
    UnknownPartitionError,
    UnreachableError,
)
from bifrost.protocol.partitioners import partition_for_key
from tests.compat import oracle
from tests.compat.clients.confluent import Confluent
from tests.compat.conftest import NewTopicFunction
from tests.compat.servers import Server

PARTITIONS = 3


async def count_turns(work: Awaitable[object]) -> int:
    """How often others have their turn on the loop while the work is done."""
    turns = 0
    task = asyncio.ensure_future(work)
    while not task.done():
        await asyncio.sleep(0)
        turns += 1
    await task
    return turns


def test_sending(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic(PARTITIONS)

    async def main() -> None:
        async with AsyncProducer(broker.bootstrap, key="str", value="json") as producer:
            first = await producer.send(topic, {"n": 0}, key="k", headers={"a": "b"}, timestamp=1_000)
            assert first == (topic, partition_for_key(b"k", PARTITIONS), 0, 1_000)
            several = await asyncio.gather(*(producer.send(topic, {"n": number}, key="k") for number in range(1, 50)))
            assert sorted(each.offset for each in several) == list(range(1, 50))
            assert repr(producer) == f"<AsyncProducer to {broker.bootstrap}: 50 sent, 0 pending>"
        report = await producer.report()
        assert (report.sent, report.acknowledged, report.stored) == (50, 50, 50)
        with pytest.raises(InvalidRequestError, match="the producer is closed"):
            await producer.send(topic, {})

    asyncio.run(main())


def test_a_full_queue_and_a_loop_that_keeps_turning(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic()
    count = 5_000

    async def main() -> None:
        async with AsyncProducer(broker.bootstrap, max_queued=100) as producer:

            async def work() -> None:
                futures = [await producer.enqueue(topic, str(number)) for number in range(count)]
                offsets = [each.offset for each in await asyncio.gather(*futures)]
                assert offsets == list(range(count))

            assert await count_turns(work()) > count / 200
            with pytest.raises(MessageTooLargeError):
                await producer.send(topic, b"x" * 2_000_000)

    asyncio.run(main())
    found = Confluent(broker.bootstrap).consume(topic, {0: 0}, count)
    assert [each.value for each in found] == [str(number).encode() for number in range(count)]


def test_a_sender_without_a_full_queue_gives_way_too(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic()

    async def main() -> None:
        async with AsyncProducer(broker.bootstrap) as producer:
            await producer.send(topic, b"")

            async def work() -> None:
                for number in range(5_000):
                    await producer.enqueue(topic, str(number))

            assert await count_turns(work()) > 50

    asyncio.run(main())


def test_nobody_there(broker: Server) -> None:
    async def main() -> None:
        async with AsyncProducer(f"127.0.0.1:{oracle.free_port()}", connect_timeout_s=1) as producer:
            turns = 0

            async def count() -> None:
                nonlocal turns
                while True:
                    await asyncio.sleep(0.01)
                    turns += 1

            other = asyncio.create_task(count())
            with pytest.raises(UnreachableError):
                await producer.send("t", b"")
            assert turns > 10
            other.cancel()

    asyncio.run(main())


def test_partitions_are_checked_without_blocking(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic(2)

    async def main() -> None:
        async with AsyncProducer(broker.bootstrap, partitioner={"a": 0, "b": 1}) as producer:
            assert (await producer.send(topic, b"", key="b")).partition == 1
            with pytest.raises(UnknownPartitionError, match=r"has no partition 5. It has partitions 0 to 1"):
                await producer.send(topic, b"", partition=5)
            producer._producer._ledgers[topic].refresh_at = 0  # it is long ago that anybody asked
            assert (await producer.send(topic, b"", key="a")).partition == 0

    asyncio.run(main())


def test_a_task_that_is_cancelled_leaves_its_message_on_the_way(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic()

    async def main() -> None:
        async with AsyncProducer(broker.bootstrap, linger_ms=200) as producer:
            await producer.send(topic, b"first")
            task = asyncio.create_task(producer.send(topic, b"second"))
            while (await producer.report(stored=False)).sent < 2:  # noqa: ASYNC110  # it tells nobody
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert (await producer.report()).acknowledged == 2

    asyncio.run(main())


def test_an_error_in_the_block_is_not_hidden(broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic()

    async def main() -> None:
        async with AsyncProducer(broker.bootstrap) as producer:
            await producer.enqueue(topic, b"")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        asyncio.run(main())
    assert len(Confluent(broker.bootstrap).consume(topic, {0: 0}, 1)) == 1
