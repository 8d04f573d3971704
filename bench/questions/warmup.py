"""What a freshly started peer does before its first figure counts.

A JVM compiles what it has seen often, allocators and socket buffers grow, log pages are touched: each peer gets the
same mix of the work it will be measured on.
"""

from __future__ import annotations

import math

from bench import process
from bench.peers import Contender
from bench.question import Effort
from bench.questions.throughput import PARTITIONS, REQUEST_BYTES, SAMPLE_BYTES_MAX, records_per_batch

ROUND_SECONDS = 1.0
STILL_GAINING = 0.95  # a round this much cheaper than the best before means that the peer is not warm yet


def warm_up(contender: Contender, effort: Effort) -> None:
    topic = contender.new_topic(PARTITIONS)
    batches = effort.fill_bytes // PARTITIONS // REQUEST_BYTES
    big = {"topic": topic, "partitions": PARTITIONS, "record_bytes": 1_000, "records": records_per_batch(1_000)}
    big["acks"] = contender.peer.acks
    small = big | {"record_bytes": 100, "records": 1}
    process.run(process.RAW, contender.peer, "fill", batches=batches, **big)
    _until_steady(contender, effort, "produce", small)
    _until_steady(contender, effort, "fetch", big | {"batches": batches})
    contender.peer.drop_topic(topic)
    topic = contender.new_topic(PARTITIONS)
    _until_steady(contender, effort, "produce", big | {"topic": topic, "bytes_max": SAMPLE_BYTES_MAX // 2})
    contender.peer.drop_topic(topic)


def _until_steady(contender: Contender, effort: Effort, kind: str, fields: dict[str, object]) -> None:
    """Until two rounds in succession bring nothing, or the effort is spent.

    Judged by the CPU that a byte costs, not by the rate: strangers on the machine slow a peer down, which must not pass
    for its being warm.
    """
    best, idle_rounds = math.inf, 0
    for _ in range(effort.warm_rounds_max):
        result = process.run(process.RAW, contender.peer, kind, warm_seconds=0.0, seconds=ROUND_SECONDS, **fields)
        cost = result["peer_cpu_seconds"] / result["bytes"]
        idle_rounds = 0 if cost < best * STILL_GAINING else idle_rounds + 1
        best = min(best, cost)
        if idle_rounds == 2:
            return
