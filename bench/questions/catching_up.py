"""What others feel while a broker that was away catches up.

One broker leads two topics. A follower dies, one of the topics grows, the follower comes back. It is soon in sync with
the small topic, whose writes wait for it from then on, and the same connection brings what it has missed of the other.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

from bench import process
from bench.clients.job import Result
from bench.clusters import ACKS_ALL, NODES, Cluster, cluster_of
from bench.peers import Contender
from bench.question import Better, Effort, Metric, Pairing, Question, Sampler
from bench.questions.requests import LATENCY_STRETCH
from bench.questions.throughput import REQUEST_BYTES, records_per_batch

RECORD_BYTES = 1_000


@contextlib.contextmanager
def _catching_up(contender: Contender, effort: Effort) -> Iterator[Sampler]:
    cluster = cluster_of(contender.peer)
    cluster.start()

    def sample() -> Result:
        small, grown = _topics_of_one_leader(contender, cluster)
        calls = {"topic": small, "record_bytes": 100, "records": 1, "acks": ACKS_ALL}
        timing = {"warm_seconds": effort.seconds, "seconds": effort.seconds * LATENCY_STRETCH}
        quiet = process.run(process.RAW, cluster, "sync", **calls, **timing)
        follower = next(node for node in cluster.brokers if node.port not in cluster.leader_ports(small))
        follower.end(signal.SIGKILL)
        shape = {"partitions": 1, "record_bytes": RECORD_BYTES, "records": records_per_batch(RECORD_BYTES)}
        batches = effort.missed_bytes // REQUEST_BYTES
        process.run(process.RAW, cluster, "fill", topic=grown, batches=batches, acks=ACKS_ALL, **shape)
        follower.start()
        busy = process.run(process.RAW, cluster, "sync_while_copied", copied=grown, copies=NODES, **calls)
        cluster.drop_topic(grown)
        return {
            **busy,
            "quiet_p50_us": quiet["p50_us"],
            "quiet_p99_us": quiet["p99_us"],
            "p50_growth": busy["p50_us"] / quiet["p50_us"],
            "p99_growth": busy["p99_us"] / quiet["p99_us"],
            "copied_mb_per_second": batches * REQUEST_BYTES / busy["seconds"] / 1e6,
        }

    yield sample
    cluster.discard()


def _topics_of_one_leader(contender: Contender, cluster: Cluster) -> tuple[str, str]:
    """Placement goes in rotation: after some topics, two have the same leader."""
    by_leader: dict[int, str] = {}
    while True:
        topic = contender.new_topic(1)
        (leader,) = cluster.leader_ports(topic)
        if leader in by_leader:
            return by_leader[leader], topic
        by_leader[leader] = topic


def _question(pairing: Pairing, suffix: str) -> Question:
    return Question(
        name=f"catching-up{suffix}",
        title="synchronous produce while a replica copies {effort.missed_bytes:,} B",
        pairing=pairing,
        metrics=(
            Metric("p50_us", "p50", "us", Better.LESS),
            Metric("p99_us", "p99", "us", Better.LESS),
            Metric("max_us", "worst", "us", Better.LESS),
            Metric("p50_growth", "p50 : p50 before", "", Better.LESS),
            Metric("p99_growth", "p99 : p99 before", "", Better.LESS),
            Metric("copied_mb_per_second", "copied", "MB/s", Better.MORE),
        ),
        open=_catching_up,
        fresh=True,
    )


QUESTIONS = (_question(Pairing.EQUAL, ""), _question(Pairing.ACK_VS_FLUSH, "-ack-vs-flush"))
