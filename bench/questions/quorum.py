"""What the controllers do: elect another one of them, create topics, tell brokers; and what they take meanwhile.

Three controllers beside three brokers on both sides, so that a controller can be killed, and weighed, by itself.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import itertools
import signal
import statistics
import time
from collections.abc import Iterator

from bench import cluster_wire, procfs
from bench.admin import Admin
from bench.clients.job import Result
from bench.clusters import REPLICAS, Cluster, cluster_of
from bench.peers import START_SECONDS_MAX, Contender
from bench.question import Better, Effort, Metric, Pairing, Question, Sampler, once, p90

SETTLE_SECONDS = 2.0
REST_SHARE = 0.25
"""Of one core, all nodes together: both have done then what they had to."""
LAG_TOPICS = 20
ELECTION_MS_MAX = 300.0

_names = itertools.count()


def _new_names(count: int) -> list[str]:
    return [f"quorum{number:06d}" for number in itertools.islice(_names, count)]


def _deadline() -> float:
    return time.monotonic() + START_SECONDS_MAX


def warm_up(contender: Contender, effort: Effort) -> None:
    """A JVM compiles what it has seen often: topics come and go until controllers and brokers know the way."""
    cluster = cluster_of(contender.peer)
    contender.new_topic(1)  # the cluster serves
    for _ in range(effort.warm_rounds_max):
        names = _new_names(effort.topics // 10)
        for name in names:
            _create(cluster.admin, [name])
        cluster.admin.delete_topics(names, deadline=_deadline())
    _await_rest(cluster)


@contextlib.contextmanager
def _election(contender: Contender, effort: Effort) -> Iterator[Sampler]:
    del effort
    cluster = cluster_of(contender.peer)

    def sample() -> Result:
        quorum = cluster.await_quorum(deadline=_deadline())
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            described, created = Admin(cluster.port), Admin(cluster.port)
            described.ask(cluster_wire.describe_quorum())  # connected, and known to work
            created.create_topics(_new_names(1), 1, {}, deadline=_deadline(), replicas=REPLICAS)
            killed = time.monotonic()
            cluster.node(quorum.leader).end(signal.SIGKILL)
            told = pool.submit(_await_other_leader, described, quorum.leader)
            answered = pool.submit(_create, created, _new_names(1))
            result = {"described_ms": (told.result() - killed) * 1e3, "answered_ms": (answered.result() - killed) * 1e3}
        described.close()
        created.close()
        cluster.revive([cluster.node(quorum.leader)])
        return result

    yield sample


def _await_other_leader(admin: Admin, old: int) -> float:
    """When it was that somebody else was said to lead."""
    question = cluster_wire.describe_quorum()
    admin.until(lambda: cluster_wire.read_quorum(admin.ask(question)).leader != old, _deadline(), "elect a controller")
    return time.monotonic()


def _create(admin: Admin, topics: list[str]) -> float:
    """When it was that they were created."""
    admin.create_topics(topics, 1, {}, deadline=_deadline(), replicas=REPLICAS)
    return time.monotonic()


@contextlib.contextmanager
def _creation(contender: Contender, effort: Effort, *, in_one_request: bool) -> Iterator[Sampler]:
    cluster = cluster_of(contender.peer)

    def sample() -> Result:
        names = _new_names(effort.topics)
        requests = [names] if in_one_request else [[name] for name in names[: effort.topics // 5]]
        before, started = procfs.cpu_seconds(_controller_pids(cluster)), time.monotonic()
        for topics in requests:
            _create(cluster.admin, topics)
        seconds = time.monotonic() - started
        cpu = procfs.cpu_seconds(_controller_pids(cluster)) - before
        created = [name for topics in requests for name in topics]
        cluster.admin.delete_topics(created, deadline=_deadline())
        _await_rest(cluster)
        return {"topics_per_second": len(created) / seconds, "cpu_us_per_topic": cpu * 1e6 / len(created)}

    yield sample


def _await_rest(cluster: Cluster) -> None:
    """Until the nodes are done: files of deleted topics go after the answer, and the other peer is measured next."""
    deadline, share = _deadline(), 1.0
    while share > REST_SHARE and time.monotonic() < deadline:
        before, started = procfs.cpu_seconds(cluster.pids()), time.monotonic()
        time.sleep(SETTLE_SECONDS / 4)
        share = (procfs.cpu_seconds(cluster.pids()) - before) / (time.monotonic() - started)


@contextlib.contextmanager
def _lag(contender: Contender, effort: Effort) -> Iterator[Sampler]:
    del effort
    cluster = cluster_of(contender.peer)

    def sample() -> Result:
        names = _new_names(LAG_TOPICS)
        lags = [_tell_all(cluster, name) * 1e3 for name in names]
        cluster.admin.delete_topics(names, deadline=_deadline())
        return {"lag_ms": statistics.median(lags), "lag_ms_max": max(lags)}

    yield sample


def _tell_all(cluster: Cluster, topic: str) -> float:
    """Seconds from the acknowledged creation until the last broker knows who leads the topic."""
    created = _create(cluster.admin, [topic])
    question = cluster_wire.metadata(topic)
    for broker in cluster.brokers:
        admin = cluster.admin_of(broker)
        knows = functools.partial(_knows, admin, question)
        admin.until(knows, _deadline(), f"tell node {broker.id} of {topic}")
    return time.monotonic() - created


def _knows(admin: Admin, question: bytes) -> bool:
    return all(each.leader >= 0 for each in cluster_wire.read_metadata(admin.ask(question)))


@contextlib.contextmanager
def _at_rest(contender: Contender, effort: Effort) -> Iterator[Sampler]:
    cluster = cluster_of(contender.peer)

    def sample() -> Result:
        time.sleep(SETTLE_SECONDS)
        pids = _controller_pids(cluster)
        before, started = procfs.cpu_seconds(pids), time.monotonic()
        time.sleep(effort.idle_seconds)
        cpu = procfs.cpu_seconds(pids) - before
        percent = 100 * cpu / (time.monotonic() - started)
        return {"idle_cpu_percent": percent, "rss_mb": procfs.rss_bytes(pids) / 1e6}

    yield sample


def _controller_pids(cluster: Cluster) -> list[int]:
    return [pid for node in cluster.controllers for pid in node.pids()]


def _creation_question(name: str, title: str, *, in_one_request: bool) -> Question:
    return Question(
        name=name,
        title=title,
        pairing=Pairing.EQUAL,
        metrics=(
            Metric("topics_per_second", "rate", "/s", Better.MORE),
            Metric("cpu_us_per_topic", "CPU of the controllers", "us each", Better.LESS),
        ),
        open=functools.partial(_creation, in_one_request=in_one_request),
    )


def _election_metrics() -> Iterator[Metric]:
    """A median hides the election that two candidates stood for at once, so the whole distribution is shown."""
    for key, what in (("described_ms", "another one is described"), ("answered_ms", "a topic is created")):
        yield Metric(key, f"{what}, p50", "ms", Better.LESS, limit=ELECTION_MS_MAX)
        yield Metric(key, f"{what}, p90", "ms", Better.LESS, limit=ELECTION_MS_MAX, of_samples=p90)
        yield Metric(key, f"{what}, worst", "ms", Better.LESS, of_samples=max)


QUESTIONS = (
    Question(
        name="controllers-at-rest",
        title="three controllers at rest",
        pairing=Pairing.EQUAL,
        metrics=(
            Metric("rss_mb", "RSS", "MB", Better.LESS, 0.1),
            Metric("idle_cpu_percent", "CPU", "% of a core", Better.LESS),
        ),
        open=_at_rest,
        samples=once,
    ),
    _creation_question("create-in-a-row", "topics created, one a request", in_one_request=False),
    _creation_question("create-at-once", "{effort.topics:,} topics in one request", in_one_request=True),
    Question(
        name="metadata-lag",
        title="created topic, until the last broker knows",
        pairing=Pairing.EQUAL,
        metrics=(
            Metric("lag_ms", "median", "ms", Better.LESS),
            Metric("lag_ms_max", f"worst of {LAG_TOPICS}", "ms", Better.LESS),
        ),
        open=_lag,
    ),
    Question(
        name="election",
        title="SIGKILL of the active controller, n={effort.kills}",
        pairing=Pairing.EQUAL,
        metrics=tuple(_election_metrics()),
        open=_election,
        samples=lambda effort: effort.kills,
    ),
)
