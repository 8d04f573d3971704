"""A real client: librdkafka through confluent-kafka, as an application uses it, with its default batching.

Its own work (a Python call for each message) is often the limit, so the broker's CPU per gigabyte says more here than
the rate. Run by `bench.realclient`.
"""

from __future__ import annotations

import sys
import threading
import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition

from bench.clients.job import ANSWER_SECONDS_MAX, Job, RefusedError, Result, costs, percentiles
from bench.procfs import Meter

STAMP_BYTES = 8


def _producer(job: Job, **more: str | int | float | bool) -> tuple[Producer, list[KafkaError]]:
    """A producer that reports failures alone, and the list they go to."""
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(error)

    config: dict[str, object] = {
        "bootstrap.servers": job.bootstrap,
        "acks": job.acks,
        "queue.buffering.max.messages": 1_000_000,
        "queue.buffering.max.kbytes": 1 << 20,
        "delivery.report.only.error": True,
        "on_delivery": delivered,
        **more,
    }
    return Producer(config), failures


def _consumer(job: Job) -> Consumer:
    config = {
        "bootstrap.servers": job.bootstrap,
        "group.id": "bench",
        "enable.auto.commit": False,
        "queued.min.messages": 1_000_000,
    }
    consumer = Consumer(config)
    consumer.assign([TopicPartition(job.topic, partition, OFFSET_BEGINNING) for partition in range(job.partitions)])
    return consumer


def produce(job: Job) -> Result:
    """`messages` messages from the first call to the last acknowledgement."""
    producer, failures = _producer(job)
    producer.list_topics(job.topic, timeout=ANSWER_SECONDS_MAX)
    value, topic, send = b"x" * job.record_bytes, job.topic, producer.produce
    meter, started = Meter(job.pids), time.perf_counter()
    for _ in range(job.messages):
        try:
            send(topic, value)
        except BufferError:
            producer.poll(0.1)
            send(topic, value)
    left = producer.flush(ANSWER_SECONDS_MAX)
    seconds, usage = time.perf_counter() - started, meter.read()
    if left or failures:
        raise RefusedError(f"{left} messages not delivered, {len(failures)} failed: {failures[:1]}")
    return {"messages": job.messages, "bytes": job.messages * job.record_bytes, **costs(usage, seconds)}


def consume(job: Job) -> Result:
    """`messages` messages from the beginning; the clock starts with the first, which proves all set-up is done."""
    consumer = _consumer(job)
    first = consumer.poll(ANSWER_SECONDS_MAX)
    if first is None or first.error() is not None:
        raise RefusedError(f"no first message: {first and first.error()}")
    meter, started = Meter(job.pids), time.perf_counter()
    seen, bytes_seen = 1, job.record_bytes
    while seen < job.messages:
        some = consumer.consume(min(10_000, job.messages - seen), timeout=1.0)
        if not some and time.perf_counter() - started > ANSWER_SECONDS_MAX:
            raise RefusedError(f"{job.messages - seen} messages missing")
        seen += len(some)
        bytes_seen += sum(len(message) for message in some)
    seconds, usage = time.perf_counter() - started, meter.read()
    consumer.close()
    return {"messages": seen, "bytes": bytes_seen, **costs(usage, seconds)}


def end_to_end(job: Job) -> Result:
    """Producer thread and consumer in one process, no linger, `rate` messages a second, each carrying its time."""
    sys.setswitchinterval(0.0005)
    producer, failures = _producer(job, **{"linger.ms": 0})
    consumer = _consumer(job)
    total = int(job.rate * (job.warm_seconds + job.seconds))
    warm = int(job.rate * job.warm_seconds)

    def run() -> None:
        padding = bytes(max(0, job.record_bytes - STAMP_BYTES))
        start = time.perf_counter()
        for number in range(total):
            if (wait := start + number / job.rate - time.perf_counter()) > 0:
                time.sleep(wait)
            producer.produce(job.topic, time.perf_counter_ns().to_bytes(STAMP_BYTES, "big") + padding, partition=0)
            producer.poll(0)
        producer.flush(ANSWER_SECONDS_MAX)

    thread = threading.Thread(target=run, daemon=True)
    meter, started = Meter(job.pids), time.perf_counter()
    thread.start()
    taken: list[int] = []
    while len(taken) < total:
        message = consumer.poll(1.0)
        if message is None or message.error() is not None:
            if time.perf_counter() - started > ANSWER_SECONDS_MAX:
                raise RefusedError(f"{total - len(taken)} messages missing, {len(failures)} failed")
            continue
        value = message.value()
        assert isinstance(value, bytes)
        taken.append(time.perf_counter_ns() - int.from_bytes(value[:STAMP_BYTES], "big"))
    seconds, usage = time.perf_counter() - started, meter.read()
    thread.join()
    consumer.close()
    return {"rate": total / seconds, **percentiles(taken[warm:]), **costs(usage, seconds)}
