"""What the Python API costs beside the library it stands on: messages per second and CPU time per message.

    python -m bench.python_api [--messages 100000] [--size 100] [--rounds 5] [--bootstrap HOST:PORT]

Every way of sending takes its turn in every round, all to one broker (an own process unless an address is given), so
that a busy machine slows them all down alike. A way's figure is its best round. Prints a table, or JSON with --json.

    raw            confluent_kafka.Producer.produce, nobody asks what became of the messages
    raw, callback  the same with a delivery callback that counts
    post           bifrost.Producer.post: counted by partition, no Delivery
    send           bifrost.Producer.send: counted by partition, with a Delivery for each message
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence

import confluent_kafka

from bifrost import Producer
from bifrost.testing import Cluster

Way = Callable[[str, str, bytes, int], None]


def raw(bootstrap: str, topic: str, value: bytes, messages: int) -> None:
    producer = confluent_kafka.Producer(_options(bootstrap))
    for _ in range(messages):
        while True:
            try:
                producer.produce(topic, value)
                break
            except BufferError:
                producer.poll(0.01)
    assert producer.flush(60) == 0


def raw_callback(bootstrap: str, topic: str, value: bytes, messages: int) -> None:
    producer = confluent_kafka.Producer(_options(bootstrap))
    counts: dict[int | None, int] = {}

    def count(error: object, message: confluent_kafka.Message) -> None:
        assert error is None
        counts[message.partition()] = counts.get(message.partition(), 0) + 1

    for _ in range(messages):
        while True:
            try:
                producer.produce(topic, value, on_delivery=count)
                break
            except BufferError:
                producer.poll(0.01)
        producer.poll(0)
    assert producer.flush(60) == 0
    assert sum(counts.values()) == messages


def post(bootstrap: str, topic: str, value: bytes, messages: int) -> None:
    with Producer(bootstrap) as producer:
        for _ in range(messages):
            producer.post(topic, value)
    assert producer.report(stored=False).acknowledged == messages


def send(bootstrap: str, topic: str, value: bytes, messages: int) -> None:
    with Producer(bootstrap) as producer:
        for _ in range(messages):
            producer.send(topic, value)
    assert producer.report(stored=False).acknowledged == messages


WAYS: dict[str, Way] = {"raw": raw, "raw, callback": raw_callback, "post": post, "send": send}


def _options(bootstrap: str) -> dict[str, str | int | float | bool]:
    """What bifrost.Producer sets."""
    return {
        "bootstrap.servers": bootstrap,
        "linger.ms": 5,
        "acks": "all",
        "enable.idempotence": True,
        "partitioner": "murmur2_random",
        "queue.buffering.max.messages": 100_000,
        "queue.buffering.max.kbytes": 64 << 10,
    }


def measure(bootstrap: str, messages: int, size: int, rounds: int) -> dict[str, dict[str, float]]:
    """Best round of each way: messages per second of wall clock, and microseconds of this process's CPU per message."""
    best: dict[str, dict[str, float]] = {}
    value = b"x" * size
    for _ in range(rounds):
        for name, way in WAYS.items():
            wall, cpu = time.perf_counter(), time.process_time()
            way(bootstrap, "python-api", value, messages)
            rate = messages / (time.perf_counter() - wall)
            cpu_us = (time.process_time() - cpu) * 1e6 / messages
            row = best.setdefault(name, {"messages_per_s": rate, "cpu_us": cpu_us})
            row["messages_per_s"] = max(row["messages_per_s"], rate)
            row["cpu_us"] = min(row["cpu_us"], cpu_us)
    return best


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="What the Python API costs beside confluent-kafka")
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--bootstrap")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    if given.bootstrap:
        rows = measure(given.bootstrap, given.messages, given.size, given.rounds)
    else:
        with Cluster(processes=True, num_partitions=3, flush_policy="memory") as cluster:
            rows = measure(cluster.bootstrap, given.messages, given.size, given.rounds)
    if given.json:
        print(json.dumps(rows, indent=2))
        return
    print(f"{'':14} {'messages/s':>12} {'of raw':>7} {'CPU us':>7} {'of raw':>7}")
    for name, row in rows.items():
        rate, cpu = row["messages_per_s"], row["cpu_us"]
        share, cpu_share = rate / rows["raw"]["messages_per_s"], rows["raw"]["cpu_us"] / cpu
        print(f"{name:14} {rate:12,.0f} {share:7.2f} {cpu:7.2f} {cpu_share:7.2f}")


if __name__ == "__main__":
    main()
