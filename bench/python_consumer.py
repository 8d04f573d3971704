"""What reading with `bifrost.Consumer` costs beside librdkafka's own consumer, in one run on one machine.

    python -m bench.python_consumer [--messages 400000] [--rounds 5] [--bootstrap HOST:PORT]

Every round reads the same topic with each way of reading, in turn, and touches each message's value. The best round of
each counts: what is measured is the client's own work, and everything else on the machine only adds to it. Prints JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Callable
from contextlib import ExitStack

import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic

from bifrost import AsyncConsumer, Consumer
from bifrost.testing import Cluster

TOPIC = "python-consumer"
PARTITIONS = 4
VALUE = b'{"sensor": "garden", "celsius": 21.5, "note": "' + b"x" * 50 + b'"}'
BATCH = 500


class Stopwatch:
    """Runs from the first message on: connecting is not reading."""

    def __init__(self, total: int) -> None:
        self.total = total
        self._start = 0.0
        self.rate = 0.0

    def start(self) -> None:
        self._start = time.perf_counter()

    def stop(self) -> None:
        self.rate = self.total / (time.perf_counter() - self._start)


def write(bootstrap: str, messages: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result()
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
    for number in range(messages):
        while True:
            try:
                producer.produce(TOPIC, VALUE, key=b"%d" % number, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()


def raw_consumer(bootstrap: str) -> confluent_kafka.Consumer:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "r", "enable.auto.commit": False})
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
    return consumer


def librdkafka(bootstrap: str, watch: Stopwatch) -> None:
    """The loop that a careful user of confluent-kafka writes."""
    consumer = raw_consumer(bootstrap)
    seen = 0
    while seen < watch.total:
        messages = consumer.consume(BATCH, 0.1)
        if messages and not seen:
            watch.start()
        for message in messages:
            if message.error() is None:
                message.value()
        seen += len(messages)
    watch.stop()
    consumer.close()


def librdkafka_poll(bootstrap: str, watch: Stopwatch) -> None:
    """The loop of most examples: one call for each message."""
    consumer = raw_consumer(bootstrap)
    seen = 0
    while seen < watch.total:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            if not seen:
                watch.start()
            message.value()
            seen += 1
    watch.stop()
    consumer.close()


def iterate(bootstrap: str, watch: Stopwatch, **options: str) -> None:
    with Consumer(TOPIC, bootstrap=bootstrap, from_beginning=True, **options) as consumer:  # type: ignore[arg-type]
        for seen, message in enumerate(consumer):
            if not seen:
                watch.start()
            _ = message.value
            if seen + 1 == watch.total:
                break
        watch.stop()


def iterate_in_a_group(bootstrap: str, watch: Stopwatch) -> None:
    iterate(bootstrap, watch, group=f"bench-{time.time_ns()}")


def at_most_once(bootstrap: str, watch: Stopwatch) -> None:
    iterate(bootstrap, watch, group=f"bench-{time.time_ns()}", delivery="at_most_once")


def iterate_json(bootstrap: str, watch: Stopwatch) -> None:
    iterate(bootstrap, watch, value="json")


def batches(bootstrap: str, watch: Stopwatch) -> None:
    with Consumer(TOPIC, bootstrap=bootstrap, from_beginning=True) as consumer:
        seen = 0
        for messages in consumer.batches(BATCH, timeout=0.1):
            if not seen:
                watch.start()
            for message in messages:
                _ = message.value
            seen += len(messages)
            if seen == watch.total:
                break
        watch.stop()


def iterate_asyncio(bootstrap: str, watch: Stopwatch) -> None:
    async def read() -> None:
        seen = 0
        async with AsyncConsumer(TOPIC, bootstrap=bootstrap, from_beginning=True) as consumer:
            async for message in consumer:
                if not seen:
                    watch.start()
                _ = message.value
                seen += 1
                if seen == watch.total:
                    break
            watch.stop()

    asyncio.run(read())


WAYS: dict[str, Callable[[str, Stopwatch], None]] = {
    "confluent_kafka consume(500)": librdkafka,
    "confluent_kafka poll()": librdkafka_poll,
    "for message in Consumer": iterate,
    "for message in Consumer(group)": iterate_in_a_group,
    "for message in Consumer(at_most_once)": at_most_once,
    "for message in Consumer(value=json)": iterate_json,
    "for batch in Consumer.batches(500)": batches,
    "async for message in AsyncConsumer": iterate_asyncio,
}


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--messages", type=int, default=400_000)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--bootstrap")
    given = arguments.parse_args()
    with ExitStack() as stack:
        bootstrap = given.bootstrap or stack.enter_context(Cluster(processes=True)).bootstrap
        write(bootstrap, given.messages)
        rates: dict[str, list[float]] = {name: [] for name in WAYS}
        for _ in range(given.rounds):
            for name, way in WAYS.items():
                watch = Stopwatch(given.messages)
                way(bootstrap, watch)
                rates[name].append(watch.rate)
    base = max(rates["confluent_kafka consume(500)"])
    print(
        json.dumps(
            {
                name: {"messages_per_s": round(max(found)), "beside_consume": round(max(found) / base, 2)}
                for name, found in rates.items()
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
