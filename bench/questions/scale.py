"""Many of something: idle connections, partitions."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from bench import process, procfs, wire
from bench.admin import PeerError
from bench.clients.job import Result
from bench.peers import START_SECONDS_MAX, Contender
from bench.question import Better, Effort, Metric, Pairing, Question, Sampler, once
from bench.questions.requests import per_request

SETTLE_SECONDS = 2.0
BATCHES_PER_REQUEST = 100
RECORD_BYTES = 1_000


@contextlib.contextmanager
def _connections(contender: Contender, effort: Effort) -> Iterator[Sampler]:
    peer = contender.peer
    topic = contender.new_topic(3)
    serve = {"topic": topic, "partitions": 3, "record_bytes": 100, "records": 1, "seconds": effort.seconds}

    def sample() -> Result:
        before = procfs.rss_bytes(peer.pids())
        with process.hold(process.RAW, peer, "idle", connections=effort.connections) as held:
            time.sleep(SETTLE_SECONDS)
            resident = procfs.rss_bytes(peer.pids())
            idle_percent = _cpu_percent(contender, effort.idle_seconds / 2)
            served = per_request(process.run(process.RAW, peer, "produce", **serve))
            alive = held.release()["alive"]
            connect_seconds = held.opening["seconds"]
        if alive != effort.connections:
            raise process.ClientError(f"{effort.connections - alive:.0f} idle connections were closed")
        return {
            "connections": alive,
            "connect_seconds": connect_seconds,
            "rss_mb": resident / 1e6,
            "rss_kb_each": (resident - before) / 1e3 / effort.connections,
            "idle_cpu_percent": idle_percent,
            "requests_per_second": served["requests_per_second"],
        }

    yield sample
    peer.drop_topic(topic)


@contextlib.contextmanager
def _partitions(contender: Contender, effort: Effort) -> Iterator[Sampler]:
    peer = contender.peer

    def sample() -> Result:
        peer.discard()
        peer.start()
        contender.new_topic(1)  # the node serves: what follows is the creation alone
        asked = time.monotonic()
        topic = contender.new_topic(effort.partitions)
        create_seconds = time.monotonic() - asked
        _write_everywhere(contender, topic, effort.partitions)
        if not peer.stop():
            raise PeerError(f"{peer.kind} with {effort.partitions} partitions did not stop cleanly")
        start_seconds = _start_seconds(contender, topic, effort.partitions)
        peer.crash()
        crashed_seconds = _start_seconds(contender, topic, effort.partitions)
        time.sleep(SETTLE_SECONDS)
        idle_percent = _cpu_percent(contender, effort.idle_seconds)
        resident = procfs.rss_bytes(peer.pids())
        spread = process.run(
            process.RAW,
            peer,
            "produce",
            topic=topic,
            partitions=effort.partitions,
            batches_per_request=BATCHES_PER_REQUEST,
            record_bytes=RECORD_BYTES,
            records=1,
            warm_seconds=effort.seconds,
            seconds=effort.seconds * 2,
        )
        return {
            "create_seconds": create_seconds,
            "start_seconds": start_seconds,
            "crashed_start_seconds": crashed_seconds,
            "idle_cpu_percent": idle_percent,
            "rss_mb": resident / 1e6,
            "batches_per_second": spread["requests"] * BATCHES_PER_REQUEST / spread["seconds"],
            "cpu_us_per_batch": spread["peer_cpu_seconds"] * 1e6 / spread["requests"] / BATCHES_PER_REQUEST,
        }

    yield sample
    peer.discard()


def _start_seconds(contender: Contender, topic: str, partitions: int) -> float:
    """From the start of the process to an acknowledged write in every partition."""
    started = contender.peer.start()
    _write_everywhere(contender, topic, partitions)
    return time.monotonic() - started


def _write_everywhere(contender: Contender, topic: str, partitions: int) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    batch = wire.record_batch(RECORD_BYTES, 1)
    for first in range(0, partitions, BATCHES_PER_REQUEST):
        group = range(first, min(first + BATCHES_PER_REQUEST, partitions))
        contender.peer.admin.write(topic, [(partition, batch) for partition in group], deadline=deadline)


def _cpu_percent(contender: Contender, seconds: float) -> float:
    pids = contender.peer.pids()
    before, started = procfs.cpu_seconds(pids), time.monotonic()
    time.sleep(seconds)
    return 100 * (procfs.cpu_seconds(pids) - before) / (time.monotonic() - started)


CONNECTIONS = (
    Question(
        name="connections",
        title="{effort.connections:,} idle connections",
        pairing=Pairing.EQUAL,
        metrics=(
            Metric("connect_seconds", "time to connect and greet", "s", Better.LESS),
            Metric("rss_mb", "RSS", "MB", Better.LESS),
            Metric("idle_cpu_percent", "CPU", "% of a core", Better.LESS),
            Metric("requests_per_second", "one-record requests beside them", "/s", Better.MORE),
        ),
        open=_connections,
        samples=once,
    ),
)
PARTITIONS = (
    Question(
        name="partitions",
        title="{effort.partitions:,} partitions",
        pairing=Pairing.EQUAL,
        metrics=(
            Metric("create_seconds", "creation", "s", Better.LESS),
            Metric("start_seconds", "clean start to a write in each", "s", Better.LESS),
            Metric("crashed_start_seconds", "start after SIGKILL to a write in each", "s", Better.LESS),
            Metric("idle_cpu_percent", "idle CPU", "% of a core", Better.LESS),
            Metric("rss_mb", "RSS, idle", "MB", Better.LESS),
            Metric("batches_per_second", "1 KB batches, spread over all", "/s", Better.MORE),
            Metric("cpu_us_per_batch", "broker CPU", "us a batch", Better.LESS),
        ),
        open=_partitions,
        fresh=True,
        samples=once,
    ),
)
