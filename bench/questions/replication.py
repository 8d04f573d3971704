"""Three copies, acknowledged by all in-sync replicas: how much, how fast, at what cost, and how long a death is felt.

Kafka's nodes are broker and controller in one here. That is three JVMs instead of six on the same machine, which is
kinder to Kafka; and it makes a dead node a dead controller too, which half of the kills ask for.
"""

from __future__ import annotations

import contextlib
import functools
import random
import time
from collections.abc import Iterator

from bench import process, procfs
from bench.clients.job import Result
from bench.clusters import ACKS_ALL, NODES, Cluster, Node, cluster_of
from bench.peers import START_SECONDS_MAX, Contender
from bench.question import Better, Effort, Metric, Pairing, Question, Sampler, once, p90
from bench.questions import requests, throughput
from bench.questions.requests import per_request

RATE = 1_000  # a second: a rate that both sustain
RECORD_BYTES = 1_000
SETTLE_SECONDS = 2.0
PHASES_SEED = 1  # of when, within the second in which librdkafka looks around, a kill comes


@contextlib.contextmanager
def _rss(contender: Contender, effort: Effort) -> Iterator[Sampler]:
    del effort
    yield lambda: {"rss_mb": procfs.rss_bytes(contender.peer.pids()) / 1e6}


@contextlib.contextmanager
def _partitions(contender: Contender, effort: Effort, *, which: int) -> Iterator[Sampler]:
    peer, partitions = contender.peer, effort.cluster_partitions[which]

    def sample() -> Result:
        peer.discard()
        peer.start()
        contender.new_topic(1)  # the cluster serves: what follows is the creation alone
        asked = time.monotonic()
        topic = contender.new_topic(partitions)
        create_seconds = time.monotonic() - asked
        time.sleep(SETTLE_SECONDS)
        before, started = procfs.cpu_seconds(peer.pids()), time.monotonic()
        time.sleep(effort.idle_seconds)
        idle = 100 * (procfs.cpu_seconds(peer.pids()) - before) / (time.monotonic() - started)
        resident = procfs.rss_bytes(peer.pids())
        shape = {"topic": topic, "partitions": 1, "record_bytes": RECORD_BYTES, "records": 1, "acks": ACKS_ALL}
        timing = {"warm_seconds": effort.seconds, "seconds": effort.seconds}
        written = per_request(process.run(process.RAW, peer, "produce", **shape, **timing))
        return {
            "create_seconds": create_seconds,
            "idle_cpu_percent": idle,
            "rss_mb": resident / 1e6,
            "requests_per_second": written["requests_per_second"],
        }

    yield sample
    peer.discard()


@contextlib.contextmanager
def _fail_over(contender: Contender, effort: Effort) -> Iterator[Sampler]:
    """Each sample kills twice: a leader that is no active controller, then a leader together with it."""
    del effort
    cluster = cluster_of(contender.peer)
    cluster.start()
    phases = random.Random(PHASES_SEED)  # the same for every contender

    def sample() -> Result:
        alone = _kill(contender, cluster, phases.random(), with_controller=False)
        both = _kill(contender, cluster, phases.random(), with_controller=True)
        return alone | {f"both_{name}": seconds for name, seconds in both.items()}

    yield sample
    cluster.discard()


def _kill(contender: Contender, cluster: Cluster, pause_seconds: float, *, with_controller: bool) -> Result:
    topic = contender.new_topic(NODES)
    ports = cluster.leader_ports(topic)
    active = cluster.node(cluster.await_quorum(deadline=time.monotonic() + START_SECONDS_MAX).leader)
    partition, victims = _victims(cluster, ports, active, with_controller=with_controller)
    pids = [pid for victim in victims for pid in victim.pids()]
    what = {"topic": topic, "partition": partition, "victims": pids, "pause_seconds": pause_seconds}
    seconds = process.run(process.REAL, cluster, "fail_over", **what)
    cluster.revive(victims)
    cluster.await_copies(topic, NODES, deadline=time.monotonic() + START_SECONDS_MAX)
    return seconds


def _victims(cluster: Cluster, ports: list[int], active: Node, *, with_controller: bool) -> tuple[int, list[Node]]:
    """The partition to look at, and who dies: its leader, and the active controller where that is asked for."""
    for partition, port in enumerate(ports):
        leader = next(broker for broker in cluster.brokers if broker.port == port)
        if not active.is_broker:
            return partition, [leader, active] if with_controller else [leader]
        if (leader is active) == with_controller:
            return partition, [leader]
    raise AssertionError("every broker leads a partition of a new topic")


def _produce_question(pairing: Pairing, suffix: str, aim: float | None) -> Question:
    return Question(
        name=f"replicated-produce{suffix}",
        title="produce to 3 copies, 1 KB records, acks=all",
        pairing=pairing,
        metrics=(
            Metric("mb_per_second", "rate", "MB/s", Better.MORE, aim),
            Metric("cpu_seconds_per_gb", "CPU of the cluster", "s/GB", Better.LESS),
        ),
        open=functools.partial(throughput.produce, record_bytes=RECORD_BYTES, acks=ACKS_ALL),
    )


def _one_record_question(pairing: Pairing, suffix: str, aim: float | None) -> Question:
    return Question(
        name=f"replicated-one-record{suffix}",
        title="one 100 B record per request, 3 copies",
        pairing=pairing,
        metrics=(
            Metric("requests_per_second", "rate", "/s", Better.MORE, aim),
            Metric("cpu_us_per_request", "CPU of the cluster", "us each", Better.LESS),
        ),
        open=functools.partial(requests.one_record, record_bytes=100),
    )


def _sync_question(pairing: Pairing, suffix: str, aim: float | None) -> Question:
    return Question(
        name=f"replicated-sync{suffix}",
        title="synchronous produce, 100 B, 3 copies",
        pairing=pairing,
        metrics=requests.latency(aim, aim),
        open=requests.sync,
    )


def _end_to_end_question(pairing: Pairing, suffix: str, module: str, kind: str) -> Question:
    client = ", librdkafka" if module == process.REAL else ""
    return Question(
        name=f"replicated-end-to-end{suffix}",
        title=f"end to end at {RATE:,}/s, 3 copies{client}",
        pairing=pairing,
        metrics=requests.latency(None, None),
        open=functools.partial(requests.end_to_end, module=module, kind=kind, rate=RATE),
    )


def _questions(pairing: Pairing, suffix: str) -> tuple[Question, ...]:
    """The same four at each pair of flush policies; aims hold where those are equal."""
    more, many, less = (1.5, 2.0, 0.7) if pairing is not Pairing.ACK_VS_CACHE else (None, None, None)
    return (
        _produce_question(pairing, suffix, more),
        _one_record_question(pairing, suffix, many),
        _sync_question(pairing, suffix, less),
        _end_to_end_question(pairing, suffix, process.RAW, "paced"),
    )


def _partitions_question(which: int, pairing: Pairing, suffix: str) -> Question:
    return Question(
        name=f"replicated-partitions-{('few', 'many')[which]}{suffix}",
        title=f"{{effort.cluster_partitions[{which}]:,}} partitions, 3 copies",
        pairing=pairing,
        metrics=(
            Metric("create_seconds", "creation, until all copies are in sync", "s", Better.LESS),
            Metric("idle_cpu_percent", "idle CPU of the cluster", "% of a core", Better.LESS),
            Metric("rss_mb", "RSS of the cluster, idle", "MB", Better.LESS, 0.1),
            Metric("requests_per_second", "one-record requests to one of them", "/s", Better.MORE),
        ),
        open=functools.partial(_partitions, which=which),
        fresh=True,
        samples=once,
    )


def _fail_over_metrics() -> Iterator[Metric]:
    for prefix, who in (("", "leader"), ("both_", "leader and controller")):
        for key, what in (("raw_write", "raw write"), ("write", "write"), ("read", "read")):
            name = f"{prefix}{key}_seconds"
            yield Metric(name, f"{who}: next {what}, median", "s", Better.LESS, limit=1.0)
            yield Metric(name, f"{who}: next {what}, p90", "s", Better.LESS, of_samples=p90)
            yield Metric(name, f"{who}: next {what}, worst", "s", Better.LESS, of_samples=max)


def _fail_over_question(pairing: Pairing, suffix: str) -> Question:
    return Question(
        name=f"fail-over{suffix}",
        title="SIGKILL, {effort.kills} of each kind",
        pairing=pairing,
        metrics=tuple(_fail_over_metrics()),
        open=_fail_over,
        fresh=True,
        samples=lambda effort: effort.kills,
    )


QUESTIONS = (
    *_questions(Pairing.EQUAL, ""),
    _end_to_end_question(Pairing.EQUAL, "-librdkafka", process.REAL, "end_to_end"),
    *_questions(Pairing.ACK_VS_FLUSH, "-ack-vs-flush"),
    *_questions(Pairing.ACK_VS_CACHE, "-ack-vs-cache"),
    Question(
        name="replicated-rss-loaded",
        title="after all the load above",
        pairing=Pairing.EQUAL,
        metrics=(Metric("rss_mb", "RSS of the cluster", "MB", Better.LESS, 0.1),),
        open=_rss,
        samples=once,
    ),
    _partitions_question(0, Pairing.EQUAL, ""),
    _partitions_question(1, Pairing.EQUAL, ""),
    _partitions_question(0, Pairing.ACK_VS_FLUSH, "-ack-vs-flush"),
    _partitions_question(1, Pairing.ACK_VS_FLUSH, "-ack-vs-flush"),
    _fail_over_question(Pairing.EQUAL, ""),
    _fail_over_question(Pairing.ACK_VS_FLUSH, "-ack-vs-flush"),
)
