"""Consumer groups: how soon a group stands and heals, how many commits a second, what idle groups cost.

Equal on both: `group.initial.rebalance.delay.ms=0` (else every first join waits three seconds by design), short
session timeouts, members that beat every 25 ms. All members are raw connections in one process.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import time
from collections.abc import Iterator

from bench import process, procfs
from bench.clients.job import Result
from bench.peers import START_SECONDS_MAX, Contender
from bench.question import Better, Effort, Metric, Pairing, Question, Sampler, once
from bench.questions.requests import per_request

SESSION_MS = 1_000
SIZES = (3, 20, 100)
CONNECTIONS = 3
SETTLE_SECONDS = 2.0

_numbers = itertools.count()


def _new_group(contender: Contender) -> str:
    contender.peer.admin.await_coordinators(deadline=time.monotonic() + START_SECONDS_MAX)
    return f"group{next(_numbers):05d}"


@contextlib.contextmanager
def _form(contender: Contender, effort: Effort, *, protocol: str, members: int) -> Iterator[Sampler]:
    topic = contender.new_topic(members)
    shape = {"topic": topic, "partitions": members, "members": members, "protocol": protocol}
    rounds = effort.group_rounds * max(1, 20 // members)  # small groups are quickly made, and teach a JVM little each

    def sample() -> Result:
        group = _new_group(contender)
        return process.run(
            process.RAW, contender.peer, "form", group=group, rounds=rounds, session_ms=SESSION_MS, **shape
        )

    yield sample
    contender.peer.drop_topic(topic)


@contextlib.contextmanager
def _commit(contender: Contender, effort: Effort) -> Iterator[Sampler]:
    if contender.peer.process is None:
        contender.peer.start()
    topic = contender.new_topic(1)
    shape = {"topic": topic, "connections": CONNECTIONS, "group": _new_group(contender)}
    timing = {"warm_seconds": effort.seconds, "seconds": effort.seconds * 2}
    yield lambda: per_request(process.run(process.RAW, contender.peer, "commit", **shape, **timing))
    contender.peer.drop_topic(topic)


@contextlib.contextmanager
def _idle(contender: Contender, effort: Effort) -> Iterator[Sampler]:
    peer = contender.peer
    topic = contender.new_topic(1)

    def sample() -> Result:
        shape = {"topic": topic, "members": effort.groups, "session_ms": 30_000}
        group = _new_group(contender)
        before = procfs.rss_bytes(peer.pids())
        with process.hold(process.RAW, peer, "idle_groups", group=group, **shape) as held:
            time.sleep(SETTLE_SECONDS)
            pids = peer.pids()
            cpu, started = procfs.cpu_seconds(pids), time.monotonic()
            time.sleep(effort.idle_seconds)
            percent = 100 * (procfs.cpu_seconds(pids) - cpu) / (time.monotonic() - started)
            grown = procfs.rss_bytes(pids) - before
            alive = held.release()["alive"]
        if alive != effort.groups:
            raise process.ClientError(f"{effort.groups - alive:.0f} members were lost")
        return {
            "form_seconds": held.opening["seconds"],
            "rss_mb": procfs.rss_bytes(peer.pids()) / 1e6,
            "grown_kb_each": grown / 1e3 / effort.groups,
            "cpu_percent": percent,
        }

    yield sample
    peer.drop_topic(topic)


def _form_question(protocol: str, members: int) -> Question:
    return Question(
        name=f"group-{protocol}-{members}",
        title=f"group of {members}, {protocol} protocol",
        pairing=Pairing.EQUAL,
        metrics=(
            Metric("stable_ms", "from the first join to stable", "ms", Better.LESS, 1.0),
            Metric("heal_ms", "from a session's end to healed", "ms", Better.LESS, 1.0),
        ),
        open=functools.partial(_form, protocol=protocol, members=members),
        in_quick=members == 20,
    )


def _commit_question(pairing: Pairing, rate_aim: float | None) -> Question:
    name = "commits" if pairing is Pairing.EQUAL else f"commits-{pairing.name.lower().replace('_', '-')}"
    return Question(
        name=name,
        title="commits of one offset",
        pairing=pairing,
        metrics=(
            Metric("requests_per_second", "rate", "/s", Better.MORE, rate_aim),
            Metric("cpu_us_per_request", "broker CPU", "us each", Better.LESS),
        ),
        open=_commit,
        # Where groups are kept is one topic for all, so that on-disk commits need a Kafka that was started so.
        fresh=pairing is Pairing.ACK_VS_FLUSH,
        in_quick=pairing is Pairing.EQUAL,
    )


FORMING = tuple(_form_question(protocol, members) for protocol in ("classic", "consumer") for members in SIZES)
COMMITS = (_commit_question(Pairing.EQUAL, 1.0), _commit_question(Pairing.ACK_VS_CACHE, None))
FLUSHED_COMMITS = (_commit_question(Pairing.ACK_VS_FLUSH, None),)
IDLE = (
    Question(
        name="idle-groups",
        title="{effort.groups:,} idle groups",
        pairing=Pairing.EQUAL,
        metrics=(
            Metric("form_seconds", "time to form them", "s", Better.LESS, 1.0),
            Metric("rss_mb", "RSS", "MB", Better.LESS, 1.0),
            Metric("grown_kb_each", "RSS, each", "KB", Better.LESS),
            Metric("cpu_percent", "CPU, a heartbeat every 3 s each", "% of a core", Better.LESS, 1.0),
        ),
        open=_idle,
        samples=once,
    ),
)
QUESTIONS = (*FORMING, *COMMITS, *IDLE)
