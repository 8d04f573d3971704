"""What a broker takes before it gives: time from process start to the first acknowledged write, resident memory."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Iterator

from bench import process, procfs, wire
from bench.clients.job import Result
from bench.peers import START_SECONDS_MAX, Contender
from bench.question import Better, Effort, Metric, Pairing, Question, Sampler, once
from bench.questions.throughput import PARTITIONS, REQUEST_BYTES, SAMPLE_BYTES_MAX, records_per_batch

SETTLE_SECONDS = 2.0
RECORD_BYTES = 1_000


@contextlib.contextmanager
def _start(contender: Contender, effort: Effort) -> Iterator[Sampler]:
    del effort
    peer = contender.peer

    def sample() -> Result:
        peer.discard()
        started = peer.start()
        deadline = started + START_SECONDS_MAX
        topic = contender.new_topic(1)
        peer.admin.write(topic, [(0, wire.record_batch(100, 1))], deadline=deadline)
        seconds = time.monotonic() - started
        cpu = procfs.cpu_seconds(peer.pids())
        time.sleep(SETTLE_SECONDS)
        return {"seconds": seconds, "peer_cpu_seconds": cpu, "rss_mb": procfs.rss_bytes(peer.pids()) / 1e6}

    yield sample
    peer.discard()


@contextlib.contextmanager
def _loaded(contender: Contender, effort: Effort) -> Iterator[Sampler]:
    peer = contender.peer

    def sample() -> Result:
        topic = contender.new_topic(PARTITIONS)
        run = functools.partial(
            process.run,
            process.RAW,
            peer,
            topic=topic,
            partitions=PARTITIONS,
            record_bytes=RECORD_BYTES,
            records=records_per_batch(RECORD_BYTES),
            seconds=effort.seconds,
        )
        run("fill", batches=effort.fill_bytes // PARTITIONS // REQUEST_BYTES)
        run("fetch", batches=effort.fill_bytes // PARTITIONS // REQUEST_BYTES)
        run("produce", bytes_max=SAMPLE_BYTES_MAX)
        resident = procfs.rss_bytes(peer.pids())
        peer.drop_topic(topic)
        return {"rss_mb": resident / 1e6}

    yield sample


STARTING = (
    Question(
        name="start",
        title="process start",
        pairing=Pairing.EQUAL,
        metrics=(
            Metric("seconds", "to first acknowledged write", "s", Better.LESS, 0.15),
            Metric("rss_mb", "RSS, idle", "MB", Better.LESS, 0.1),
        ),
        open=_start,
        fresh=True,
    ),
)
LOADED = (
    Question(
        name="rss-loaded",
        title="after all the load above",
        pairing=Pairing.EQUAL,
        metrics=(Metric("rss_mb", "RSS", "MB", Better.LESS, 0.1),),
        open=_loaded,
        samples=once,
    ),
)
