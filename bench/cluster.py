"""Clusters of three side by side: the quorum of controllers, replication, fail-over: `python -m bench.cluster`.

Asked and told as `python -m bench.run` does it for single nodes.
"""

from __future__ import annotations

import dataclasses
import sys

from bench.clusters import COMBINED, SEPARATE
from bench.question import FULL, QUICK
from bench.questions import catching_up, quorum, replication
from bench.run import Part, Programme, main

CLUSTERS = Programme(
    command="bench.cluster",
    parts=(
        Part(SEPARATE, quorum.QUESTIONS, quorum.warm_up),
        Part(COMBINED, (*replication.QUESTIONS, *catching_up.QUESTIONS)),
    ),
    full=dataclasses.replace(
        FULL,
        idle_seconds=5.0,
        fill_bytes=150_000_000,
        warm_rounds_max=5,
        minutes_max=45.0,
        kills=10,
        topics=1_000,
        missed_bytes=2_000_000_000,
        cluster_partitions=(1_000, 5_000),
    ),
    quick=dataclasses.replace(
        QUICK,
        fill_bytes=30_000_000,
        minutes_max=10.0,
        kills=1,
        topics=100,
        missed_bytes=200_000_000,
        cluster_partitions=(100, 500),
    ),
    picture="latest-clusters.png",
)

if __name__ == "__main__":
    sys.exit(main(CLUSTERS))
