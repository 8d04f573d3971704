"""What reading a topic as columns is worth beside librdkafka's consumer, in one run on one machine.

    python -m bench.arrow [--messages 2000000] [--rounds 5] [--bootstrap HOST:PORT] [--json]

Every way of reading takes its turn in every round, all from the same topics on one broker (an own process unless an
address is given), with 100 B and with 1 KB values; a way's figure is its best round. `confluent_kafka` touches each
message's value, as any program would, and its clock starts with the first message; that of columns starts before
anything is asked of the broker. It runs with its defaults, which stop fetching for a while whenever its queue is full,
and tuned to what was found best for 100 B; ratios are to the latter. Then decoders and encoders on bytes in memory.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from contextlib import ExitStack

import confluent_kafka
import numpy as np
import pyarrow as pa

import bifrost
from bifrost.columnar.decoder import Decoder
from bifrost.columnar.encoder import encode
from bifrost.columnar.kernels import CHOICE, kernels
from bifrost.columnar.partitioning import Partitioner
from bifrost.protocol.batch import stamp
from bifrost.testing import Cluster

PARTITIONS = 4
CONSUMED_AT_A_TIME = 500
TUNED = {"queued.min.messages": 1_000_000, "fetch.message.max.bytes": 8 << 20, "fetch.max.bytes": 64 << 20}
KEY_BYTES = 8
DECODED_BYTES = 32 << 20


def table(rows: int, size: int) -> pa.Table:
    """Keys of eight bytes, values that do not repeat."""
    contents = np.random.default_rng(7).integers(0, 256, rows * size, dtype=np.uint8)
    offsets = np.arange(0, rows * size + 1, size, dtype=np.int32)
    values = pa.Array.from_buffers(pa.binary(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(contents)])
    keys = pa.array([b"%08d" % number for number in range(rows)])
    return pa.table({"key": keys, "value": values})


def confluent(bootstrap: str, topic: str, messages: int, **settings: int) -> float:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "r", **settings})
    consumer.assign([confluent_kafka.TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    seen = 0
    began = 0.0
    while seen < messages:
        found = consumer.consume(CONSUMED_AT_A_TIME if seen else 1, 0.1)
        began = began if seen else time.perf_counter()
        for message in found:
            if message.error() is None:
                message.value()
                seen += 1
    took = time.perf_counter() - began
    consumer.close()
    return took


def arrow(bootstrap: str, topic: str, messages: int, columns: list[str] | None = None, choice: str = "numba") -> float:
    os.environ[CHOICE] = choice
    began = time.perf_counter()
    found = sum(batch.num_rows for batch in bifrost.read_arrow(topic, bootstrap=bootstrap, columns=columns))
    took = time.perf_counter() - began
    assert found == messages, f"{found} of {messages} rows"
    return took


WAYS: dict[str, Callable[[str, str, int], float]] = {
    "confluent_kafka consume(), tuned": lambda where, topic, count: confluent(where, topic, count, **TUNED),
    "confluent_kafka consume()": confluent,
    "read_arrow, 7 columns": arrow,
    "read_arrow, value only": lambda where, topic, count: arrow(where, topic, count, ["value"]),
    "read_arrow, 7 columns, numpy": lambda where, topic, count: arrow(where, topic, count, choice="numpy"),
}


def measure(bootstrap: str, messages: int, rounds: int, size: int) -> dict[str, float]:
    """Messages per second of every way."""
    topic = f"arrow-{size}-{time.time_ns()}"
    with bifrost.Admin(bootstrap) as admin:
        admin.create_topic(topic, partitions=PARTITIONS)
    written = 0
    while written < messages:
        part = table(min(200_000, messages - written), size)
        bifrost.write_arrow(topic, part, bootstrap=bootstrap)
        written += part.num_rows
    best = dict.fromkeys(WAYS, 0.0)
    for _ in range(rounds):
        for name, read in WAYS.items():
            best[name] = max(best[name], messages / read(bootstrap, topic, messages))
    return best


def in_memory(size: int, rounds: int) -> dict[str, float]:
    """Records per second of decoder and encoder, on one core."""
    rows = DECODED_BYTES // (size + KEY_BYTES)
    source = table(rows, size)
    log = bytearray()
    first = 0
    for made in encode(source, Partitioner(1), now_ms=1):
        stamp(made.batch, 0, first, 0)
        first += made.records
        log += made.batch
    best: dict[str, float] = {}
    for name in ("numba", "numpy"):
        engine = kernels(name)
        decoder = Decoder("t", 0, using=engine)
        jobs: dict[str, Callable[[], int]] = {
            f"decode, {name}": lambda d=decoder: sum(batch.num_rows for batch in d.decode(log)),  # type: ignore[misc]
            f"encode, {name}": lambda e=engine: sum(  # type: ignore[misc]
                made.records for made in encode(source, Partitioner(1), now_ms=1, using=e)
            ),
        }
        for job, run in jobs.items():
            for _ in range(rounds + 1):
                began = time.perf_counter()
                assert run() == rows
                best[job] = max(best.get(job, 0.0), rows / (time.perf_counter() - began))
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=2_000_000, help="of 100 B; a quarter of them of 1 KB")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--bootstrap", help="read from this broker instead of an own one")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    options = parser.parse_args()
    results: dict[str, dict[str, float]] = {}
    with ExitStack() as stack:
        where = options.bootstrap or stack.enter_context(Cluster(processes=True)).bootstrap
        for size, messages in ((100, options.messages), (1000, options.messages // 4)):
            results[f"topic, {size} B"] = measure(where, messages, options.rounds, size)
    for size in (100, 1000):
        results[f"memory, {size} B"] = in_memory(size, options.rounds)
    if options.json:
        print(json.dumps(results, indent=2))
        return
    for title, rates in results.items():
        print(f"\n{title}")
        first = next(iter(rates.values()))
        for name, rate in rates.items():
            ratio = f"  {rate / first:6.1f}x" if title.startswith("topic") else ""
            print(f"  {name:34} {rate / 1e6:7.2f} M/s{ratio}")


if __name__ == "__main__":
    main()
