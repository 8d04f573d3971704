"""What one small request costs: how many a second, how long a caller waits, how long a record is on its way."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator

from bench import process
from bench.clients.job import Result
from bench.peers import Contender
from bench.question import Better, Effort, Metric, Pairing, Question, Sampler

PARTITIONS = 3
RATE = 10_000
LATENCY_STRETCH = 2.5  # a tail needs more requests than a mean


def per_request(result: Result) -> Result:
    return {
        **result,
        "requests_per_second": result["requests"] / result["seconds"],
        "cpu_us_per_request": result["peer_cpu_seconds"] * 1e6 / result["requests"],
    }


@contextlib.contextmanager
def one_record(contender: Contender, effort: Effort, *, record_bytes: int) -> Iterator[Sampler]:
    """Small requests, five under way on each of three connections."""
    topic = contender.new_topic(PARTITIONS)
    shape = {"topic": topic, "partitions": PARTITIONS, "record_bytes": record_bytes, "records": 1}
    shape["acks"] = contender.peer.acks
    timing = {"warm_seconds": effort.warm_seconds, "seconds": effort.seconds}
    yield lambda: per_request(process.run(process.RAW, contender.peer, "produce", **shape, **timing))
    contender.peer.drop_topic(topic)


@contextlib.contextmanager
def sync(contender: Contender, effort: Effort) -> Iterator[Sampler]:
    """One request at a time."""
    topic = contender.new_topic(1)
    shape = {"topic": topic, "record_bytes": 100, "records": 1, "acks": contender.peer.acks}
    timing = {"warm_seconds": effort.warm_seconds, "seconds": effort.seconds * LATENCY_STRETCH}
    yield lambda: process.run(process.RAW, contender.peer, "sync", **shape, **timing)
    contender.peer.drop_topic(topic)


@contextlib.contextmanager
def end_to_end(
    contender: Contender, effort: Effort, *, module: str, kind: str, rate: float = RATE
) -> Iterator[Sampler]:
    """A record is sent, and read by somebody who waits for it."""

    def sample() -> Result:
        topic = contender.new_topic(1)
        result = process.run(
            module,
            contender.peer,
            kind,
            topic=topic,
            partitions=1,
            record_bytes=100,
            rate=rate,
            acks=contender.peer.acks,
            warm_seconds=effort.warm_seconds * 2,
            seconds=effort.seconds * LATENCY_STRETCH,
        )
        contender.peer.drop_topic(topic)
        return {**result, "cpu_percent": 100 * result["peer_cpu_seconds"] / result["seconds"]}

    yield sample


def latency(p50_aim: float | None, p99_aim: float | None) -> tuple[Metric, ...]:
    return (
        Metric("p50_us", "p50", "us", Better.LESS, p50_aim),
        Metric("p99_us", "p99", "us", Better.LESS, p99_aim),
        Metric("p999_us", "p99.9", "us", Better.LESS),
    )


def _one_record_question(name: str, record: tuple[str, int], pairing: Pairing, rate_aim: float | None) -> Question:
    return Question(
        name=name,
        title=f"one {record[0]} record per request",
        pairing=pairing,
        metrics=(
            Metric("requests_per_second", "rate", "/s", Better.MORE, rate_aim),
            Metric("cpu_us_per_request", "broker CPU", "us each", Better.LESS),
        ),
        open=functools.partial(one_record, record_bytes=record[1]),
        null_can=pairing is Pairing.EQUAL,
    )


def _sync_question(name: str, pairing: Pairing, aims: tuple[float | None, float | None]) -> Question:
    return Question(
        name=name,
        title="synchronous produce, 100 B",
        pairing=pairing,
        metrics=latency(*aims),
        open=sync,
        null_can=pairing is Pairing.EQUAL,
    )


def _end_to_end_question(
    name: str, title: str, module: str, kind: str, aims: tuple[float | None, float | None]
) -> Question:
    return Question(
        name=name,
        title=title,
        pairing=Pairing.EQUAL,
        metrics=(*latency(*aims), Metric("cpu_percent", "broker CPU", "% of a core", Better.LESS)),
        open=functools.partial(end_to_end, module=module, kind=kind),
    )


QUESTIONS = (
    _one_record_question("one-record", ("100 B", 100), Pairing.EQUAL, 1.5),
    _one_record_question("one-record-1kb-ack-vs-cache", ("1 KB", 1_000), Pairing.ACK_VS_CACHE, 1.0),
    _one_record_question("one-record-1kb-ack-vs-flush", ("1 KB", 1_000), Pairing.ACK_VS_FLUSH, None),
    _sync_question("sync", Pairing.EQUAL, (0.7, 0.5)),
    _sync_question("sync-ack-vs-cache", Pairing.ACK_VS_CACHE, (None, None)),
    _sync_question("sync-ack-vs-flush", Pairing.ACK_VS_FLUSH, (None, None)),
    _end_to_end_question("end-to-end", "end to end at 10,000/s", process.RAW, "paced", (0.7, 0.5)),
    _end_to_end_question(
        "end-to-end-librdkafka", "end to end at 10,000/s, librdkafka", process.REAL, "end_to_end", (None, None)
    ),
)
