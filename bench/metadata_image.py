"""What a cluster's metadata costs: memory, and the time that changes take, at several sizes.

    python -m bench.metadata_image [--partitions 3000 30000 100000] [--brokers 3] [--without-gc]

Makes topics of three partitions with three replicas, fences a broker and brings it back, copies the image, and writes
and reads a snapshot. No disk and no network: these are the parts during which a controller does nothing else. Every
figure per partition should be the same at every size. Prints JSON, and in the end the rows of the table in
docs/benchmarks.md, for which the figures are divided by the partitions.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from bifrost.controller.core.brokers import Registration, register_broker
from bifrost.controller.core.cluster import open_cluster
from bifrost.controller.core.delta import Delta
from bifrost.controller.core.elect_leaders import rebalance_leaders
from bifrost.controller.core.heartbeats import Heartbeat, fence_broker, heartbeat
from bifrost.controller.core.image import MetadataImage
from bifrost.controller.core.records import Endpoint, MetadataRecord, decode_change, encode_change
from bifrost.controller.core.snapshot import image_records, restore
from bifrost.controller.core.topics import NewTopic, create_topics
from bifrost.settings import Settings

PARTITIONS_PER_TOPIC = 3
REPLICAS = 3
TOPICS_PER_REQUEST = 1_000
T = TypeVar("T")


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """What it returns, and the milliseconds of CPU that took: others on the machine do not count."""
    started = time.process_time()
    result = work()
    return result, (time.process_time() - started) * 1000


def apply(image: MetadataImage, records: Sequence[MetadataRecord]) -> None:
    delta = Delta()
    offset = image.offset + 1
    for record in records:
        image.apply(record, offset, delta)


def cluster_of(brokers: int) -> MetadataImage:
    image = MetadataImage()
    apply(image, open_cluster(image, "bench").records)
    for broker in range(brokers):
        asked = Registration(
            broker_id=broker,
            cluster_id="bench",
            incarnation=broker.to_bytes(16, "big"),
            endpoints=(Endpoint("PLAINTEXT", "localhost", 9092),),
        )
        apply(image, register_broker(image, asked).records)
    return image


def create(image: MetadataImage, first: int, count: int) -> bytes:
    """The change that makes so many topics, decided and not applied."""
    numbers = range(first, first + count)
    topics = [NewTopic(f"topic-{number:06d}", PARTITIONS_PER_TOPIC, REPLICAS) for number in numbers]
    ids = [(number + 1).to_bytes(16, "big") for number in numbers]
    return encode_change(create_topics(image, Settings(), topics, topic_ids=ids).records)


def fill(image: MetadataImage, topics: int) -> tuple[list[bytes], float, float]:
    """The changes that made the topics, and the milliseconds to decide them and to decode and apply them."""
    changes, deciding_ms, applying_ms = [], 0.0, 0.0
    for first in range(0, topics, TOPICS_PER_REQUEST):
        count = min(TOPICS_PER_REQUEST, topics - first)
        change, ms = timed(lambda first=first, count=count: create(image, first, count))  # type: ignore[misc]
        deciding_ms += ms
        _, ms = timed(lambda change=change: apply(image, decode_change(change)))  # type: ignore[misc]
        applying_ms += ms
        changes.append(change)
    return changes, deciding_ms, applying_ms


def memory_bytes(changes: Sequence[bytes], brokers: int) -> int:
    """What the image alone takes, made again from its changes."""
    tracemalloc.start()
    image = cluster_of(brokers)
    before = tracemalloc.get_traced_memory()[0]
    for change in changes:
        apply(image, decode_change(change))
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return after - before


def measure(partitions: int, brokers: int) -> dict[str, Any]:
    topics = partitions // PARTITIONS_PER_TOPIC
    image = cluster_of(brokers)
    changes, deciding_ms, applying_ms = fill(image, topics)
    count = topics * PARTITIONS_PER_TOPIC

    fencing, fence_ms = timed(lambda: fence_broker(image, 0, image.brokers[0].epoch).records)
    change, encode_ms = timed(lambda: encode_change(fencing))
    _, fence_apply_ms = timed(lambda: apply(image, decode_change(change)))
    back = Heartbeat(broker_id=0, broker_epoch=image.brokers[0].epoch, metadata_offset=image.offset)
    returning, unfence_ms = timed(lambda: heartbeat(image, back, {}).records)
    apply(image, returning)
    _, rebalance_ms = timed(lambda: rebalance_leaders(image, imbalance_percentage=10, elections_max=1_000))

    snapshot, snapshot_ms = timed(lambda: [encode_change(part) for part in image_records(image)])
    restored, restore_ms = timed(lambda: restore(map(decode_change, snapshot), image.offset))
    assert restored == image, "a snapshot must be as good as the log"
    _, copy_ms = timed(image.copy)
    return {
        "partitions": count,
        "decide_us_per_partition": round(deciding_ms * 1000 / count, 2),
        "apply_us_per_partition": round(applying_ms * 1000 / count, 2),
        "memory_bytes_per_partition": round(memory_bytes(changes, brokers) / count),
        "fenced_partitions": len(fencing) - 1,
        "fence_decide_ms": round(fence_ms, 2),
        "fence_encode_ms": round(encode_ms, 2),
        "fence_apply_ms": round(fence_apply_ms, 2),
        "fence_bytes": len(change),
        "unfence_decide_ms": round(unfence_ms, 2),
        "rebalance_decide_ms": round(rebalance_ms, 2),
        "snapshot_ms": round(snapshot_ms, 1),
        "snapshot_bytes_per_partition": round(sum(map(len, snapshot)) / count, 1),
        "restore_ms": round(restore_ms, 1),
        "copy_ms": round(copy_ms, 1),
    }


def rows(all_told: list[dict[str, Any]]) -> list[str]:
    """For the table in docs/benchmarks.md: CPU time, with what it is for each partition."""

    def cell(told: dict[str, Any], *names: str) -> str:
        each = [f"{told[name]:.0f} ms ({told[name] * 1000 / told['partitions']:.1f} µs)" for name in names]
        return " and ".join(each)

    steps = {
        "a broker that has a copy of all is fenced: decided, and applied": ("fence_decide_ms", "fence_apply_ms"),
        "snapshot, written and read": ("snapshot_ms", "restore_ms"),
    }
    found = ["| | " + " | ".join(f"{told['partitions']:,} partitions" for told in all_told) + " |"]
    for text, names in steps.items():
        found.append(f"| {text} | {' | '.join(cell(told, *names) for told in all_told)} |")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, nargs="+", default=[3_000, 30_000, 100_000])
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--without-gc", action="store_true", help="Turn the collector of garbage off, to see its part.")
    options = parser.parse_args()
    if options.without_gc:
        gc.disable()
    all_told = []
    for partitions in options.partitions:
        all_told.append(measure(partitions, options.brokers))
        print(json.dumps(all_told[-1]), flush=True)
    print("\n".join(rows(all_told)))


if __name__ == "__main__":
    main()
