"""How many bytes a second, and at what cost: produce by record size and acks, fetch by record size.

Three partitions, a connection each, five requests of 0.9 MB under way on each when producing (Kafka's default
`max.in.flight`), one fetch under way on each when consuming.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator

from bench import process
from bench.clients.job import Result
from bench.peers import Contender
from bench.question import Better, Effort, Metric, Pairing, Question, Sampler

PARTITIONS = 3
REQUEST_BYTES = 900_000
SAMPLE_BYTES_MAX = 1_500_000_000  # below the kernel's threshold for writing dirty pages back on this size of machine
RECORD_SIZES = {"100 B": 100, "1 KB": 1_000, "10 KB": 10_000}
ACKS = {"0": 0, "1": 1, "all": -1}


def rates(result: Result) -> Result:
    """Adds the figures that rows show to what the client measured."""
    gigabytes = result["bytes"] / 1e9
    return {
        **result,
        "mb_per_second": gigabytes * 1000 / result["seconds"],
        "cpu_seconds_per_gb": result["peer_cpu_seconds"] / gigabytes,
    }


def records_per_batch(record_bytes: int) -> int:
    return max(1, REQUEST_BYTES // (record_bytes + 8))


@contextlib.contextmanager
def produce(contender: Contender, effort: Effort, *, record_bytes: int, acks: int) -> Iterator[Sampler]:
    """A new topic for each sample."""

    def sample() -> Result:
        topic = contender.new_topic(PARTITIONS)
        result = process.run(
            process.RAW,
            contender.peer,
            "produce",
            topic=topic,
            partitions=PARTITIONS,
            record_bytes=record_bytes,
            records=records_per_batch(record_bytes),
            acks=acks,
            warm_seconds=effort.warm_seconds,
            seconds=effort.seconds,
            bytes_max=SAMPLE_BYTES_MAX,
        )
        contender.peer.drop_topic(topic)
        return rates(result)

    yield sample


@contextlib.contextmanager
def _fetch(contender: Contender, effort: Effort, *, record_bytes: int) -> Iterator[Sampler]:
    topic = contender.new_topic(PARTITIONS)
    shape = {
        "topic": topic,
        "partitions": PARTITIONS,
        "record_bytes": record_bytes,
        "records": records_per_batch(record_bytes),
        "batches": effort.fill_bytes // PARTITIONS // REQUEST_BYTES,
    }
    process.run(process.RAW, contender.peer, "fill", **shape)
    timing = {"warm_seconds": effort.warm_seconds, "seconds": effort.seconds}
    yield lambda: rates(process.run(process.RAW, contender.peer, "fetch", **shape, **timing))
    contender.peer.drop_topic(topic)


def _metrics(rate_aim: float | None, cpu_aim: float | None) -> tuple[Metric, ...]:
    return (
        Metric("mb_per_second", "rate", "MB/s", Better.MORE, rate_aim),
        Metric("cpu_seconds_per_gb", "broker CPU", "s/GB", Better.LESS, cpu_aim),
    )


def _produce_question(size: str, acks: str, pairing: Pairing) -> Question:
    name = f"produce-{size.replace(' ', '').lower()}-acks-{acks}"
    aims: dict[Pairing, tuple[float | None, float | None]] = {
        Pairing.EQUAL: (1.3, 0.6),
        Pairing.ACK_VS_CACHE: (1.0, None),
        Pairing.ACK_VS_FLUSH: (None, None),
    }
    return Question(
        name=name if pairing is Pairing.EQUAL else f"{name}-{pairing.name.lower().replace('_', '-')}",
        title=f"produce, {size} records, acks={acks}",
        pairing=pairing,
        metrics=_metrics(*aims[pairing]),
        open=functools.partial(produce, record_bytes=RECORD_SIZES[size], acks=ACKS[acks]),
        null_can=pairing is Pairing.EQUAL,
        in_quick=acks == "1" or (size == "1 KB" and pairing is Pairing.EQUAL),
    )


def _fetch_question(size: str) -> Question:
    return Question(
        name=f"fetch-{size.replace(' ', '').lower()}",
        title=f"fetch, {size} records",
        pairing=Pairing.EQUAL,
        metrics=_metrics(1.0, None),
        open=functools.partial(_fetch, record_bytes=RECORD_SIZES[size]),
        null_can=True,
    )


QUESTIONS = (
    *(_produce_question(size, acks, Pairing.EQUAL) for size in RECORD_SIZES for acks in ACKS),
    _produce_question("1 KB", "1", Pairing.ACK_VS_CACHE),
    _produce_question("1 KB", "1", Pairing.ACK_VS_FLUSH),
    *(_fetch_question(size) for size in RECORD_SIZES),
)
