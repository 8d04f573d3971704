"""A Spark program that tests start, and sometimes kill: reads from its input what to do, knows nothing of tests."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bifrost.client.errors import BifrostError
from bifrost.spark import session

PATIENCE_S = 60.0


def main() -> None:
    logging.basicConfig(level="WARNING")
    order = json.load(sys.stdin)
    spark: Any = None
    for step in order["steps"]:
        kind = step.pop("do")
        if kind == "session":
            if spark is not None:
                spark.stop()
            spark = start(order["settings"], **step)
        else:
            STEPS[kind](spark, **step)
        print("done:", kind, flush=True)
    spark.stop()


def start(settings: dict[str, Any], config: dict[str, str] | None = None, **given: Any) -> Any:
    try:
        return session(master=settings["master"], config={**settings["config"], **(config or {})}, **given)
    except BifrostError as error:
        print("refused:", error, flush=True)
        return None


def read(spark: Any, options: dict[str, str], output: str) -> None:
    """The rows of a topic into a file, as JSON."""
    frame = spark.read.format("bifrost").options(**options).load()
    rows = frame.selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)", "partition", "offset").collect()
    Path(output).write_text(json.dumps(sorted(map(list, rows), key=lambda row: row[2:])))


def write(spark: Any, rows: int, options: dict[str, str]) -> None:
    frame = spark.range(0, rows, numPartitions=2).selectExpr("CAST(id AS STRING) AS key", "CAST(id AS STRING) AS value")
    frame.write.format("bifrost").options(**options).mode("append").save()


def stream(spark: Any, source: dict[str, str], sink: dict[str, str], trouble: dict[str, Any] | None = None) -> None:
    """From topic to topic until all is there, with trouble in one task on the way."""
    frame = spark.readStream.format("bifrost").options(**source).load().select("key", "value", "partition")
    if trouble is not None:
        frame = frame.mapInArrow(in_trouble(**trouble), frame.schema)
    query = frame.writeStream.format("bifrost").options(**sink).trigger(availableNow=True).start()
    query.awaitTermination()


def in_trouble(
    kind: str, at_key: str, folder: str, bootstrap: str, topic: str, written: int = 0
) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Passes rows on. Behind the one with that key, once in all: waits until rows are written, then makes trouble.

    Rows keep their partition, and `written` are in that of the key before its batch begins.
    """
    patience_s = PATIENCE_S

    def pass_on(batches: Iterator[Any]) -> Iterator[Any]:
        def await_that(condition: Callable[[], bool], what: str) -> None:
            deadline = time.monotonic() + patience_s
            while not condition():
                if time.monotonic() > deadline:
                    raise TimeoutError(what)
                time.sleep(0.01)

        def is_first() -> bool:
            try:
                os.close(os.open(f"{folder}/{kind}", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return False
            return True

        def some_are_written(partition: int) -> bool:
            from bifrost.client.wire import LATEST, shared_client

            (end,) = shared_client(bootstrap, {}).list_offsets({(topic, partition): LATEST}).values()
            return end is not None and end.offset > written

        def parent(pid: int) -> int:
            return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])

        def make_trouble() -> None:
            daemon = os.getppid()
            if kind == "worker":
                workers = Path(f"/proc/{daemon}/task/{daemon}/children").read_text().split()
                for pid in sorted(map(int, workers), key=lambda pid: pid == os.getpid()):
                    os.kill(pid, signal.SIGKILL)
            elif kind == "executor":
                os.kill(parent(daemon), signal.SIGKILL)
            elif kind == "slow":
                await_that(Path(f"{folder}/twin").exists, "no twin came")
            else:
                Path(f"{folder}/waits").touch()
                await_that(lambda: False, "nobody killed the driver")

        for batch in batches:
            yield batch
            if at_key.encode() in batch.column("key").to_pylist():
                if is_first():
                    partition = batch.column("partition")[0].as_py()
                    await_that(lambda: some_are_written(partition), "nothing was written")  # noqa: B023 - called here
                    make_trouble()
                elif kind == "slow":
                    Path(f"{folder}/twin").touch()

    return pass_on


STEPS: dict[str, Callable[..., None]] = {"read": read, "write": write, "stream": stream}

if __name__ == "__main__":
    main()
