"""What an application sees: librdkafka producing and consuming a million messages."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator

from bench import process
from bench.clients.job import Result
from bench.peers import Contender
from bench.question import Better, Effort, Metric, Pairing, Question, Sampler
from bench.questions.throughput import rates

PARTITIONS = 3


@contextlib.contextmanager
def _produce_and_consume(contender: Contender, effort: Effort, *, record_bytes: int) -> Iterator[Sampler]:
    """Both directions in one sample, so that what is consumed need not be written for that purpose alone."""

    def sample() -> Result:
        topic = contender.new_topic(PARTITIONS)
        shape = {
            "topic": topic,
            "partitions": PARTITIONS,
            "record_bytes": record_bytes,
            "messages": effort.messages,
            "acks": -1,
        }
        produced = rates(process.run(process.REAL, contender.peer, "produce", **shape))
        consumed = rates(process.run(process.REAL, contender.peer, "consume", **shape))
        contender.peer.drop_topic(topic)
        return {
            **{f"produce_{key}": value for key, value in produced.items()},
            **{f"consume_{key}": value for key, value in consumed.items()},
        }

    yield sample


def _question(size: str, record_bytes: int) -> Question:
    return Question(
        name=f"librdkafka-{size.replace(' ', '').lower()}",
        title=f"librdkafka, {{effort.messages:,}} x {size}",
        pairing=Pairing.EQUAL,
        metrics=(
            Metric("produce_mb_per_second", "produce", "MB/s", Better.MORE),
            Metric("produce_cpu_seconds_per_gb", "produce, broker CPU", "s/GB", Better.LESS),
            Metric("consume_mb_per_second", "consume", "MB/s", Better.MORE),
            Metric("consume_cpu_seconds_per_gb", "consume, broker CPU", "s/GB", Better.LESS),
        ),
        open=functools.partial(_produce_and_consume, record_bytes=record_bytes),
    )


QUESTIONS = (_question("100 B", 100), _question("1 KB", 1_000))
