"""kcat: the command line tool over the distribution's own, older librdkafka."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.compat import cache
from tests.compat.clients.base import EARLIEST, LATEST, TIMEOUT_S, Acked, Client, ClientError, Codec, Record, Stored

_KEY_END = "\x1f"


class Kcat(Client):
    """One process per call. It tells neither partition nor offset of what it wrote and prints records as text."""

    name = "kcat"
    partitioner = "crc32"
    lacks = frozenset({"timestamps", "acked-offsets", "null-header-values", "binary", "error-codes"})

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self._kcat = cache.tool("kcat", "Debian: apt-get install kcat")

    def _run(self, *arguments: str, stdin: bytes = b"") -> bytes:
        done = subprocess.run(
            [self._kcat, "-b", self.bootstrap, "-q", *arguments],
            input=stdin,
            capture_output=True,
            timeout=TIMEOUT_S * 2,
            check=False,
        )
        if done.returncode != 0:
            raise ClientError(None, done.stderr.decode(errors="replace"))
        return done.stdout

    def produce(
        self,
        topic: str,
        records: Sequence[Record],
        *,
        codec: Codec = "none",
        acks: int = -1,
        idempotent: bool = False,
        max_bytes: int = 1_000_000,
        batch_bytes: int | None = None,
    ) -> list[Acked]:
        # -E: a lost connection is no reason to give up.
        options = ["-P", "-E", "-t", topic, "-z", codec, "-X", f"acks={acks}", "-X", f"message.max.bytes={max_bytes}"]
        options += ["-X", f"message.timeout.ms={int(TIMEOUT_S * 1000)}", "-X", "reconnect.backoff.ms=10"]
        options += ["-X", "reconnect.backoff.max.ms=50", "-X", "linger.ms=5"]
        if idempotent:
            options += ["-X", "enable.idempotence=true"]
        if batch_bytes is not None:
            options += ["-X", f"batch.size={batch_bytes}"]
        for run in _runs(records):
            self._produce_run(options, run)
        return [Acked(record.partition, None) for record in records]

    def _produce_run(self, options: list[str], records: list[Record]) -> None:
        """Records that share partition and headers go through one process, a line each; a large one is a file."""
        first = records[0]
        options = [*options, "-p", str(-1 if first.partition is None else first.partition)]
        for name, value in first.headers:
            assert value is not None, "kcat has no way to write a header without a value"
            options += ["-H", f"{name}={value.decode()}"]
        if first.value is None:
            options.append("-Z")
        if len(records) == 1 and first.key is None and first.value:
            with TemporaryDirectory() as folder:
                file = Path(folder) / "value"
                file.write_bytes(first.value)
                self._run(*options, str(file))
            return
        keyed = [] if first.key is None else ["-K", _KEY_END]
        lines = b"".join(_line(record) for record in records)
        self._run(*options, *keyed, stdin=lines)

    def consume(self, topic: str, start: Mapping[int, int], count: int, *, max_bytes: int = 1_000_000) -> list[Stored]:
        """kcat reads one partition at a time; each is read to its end."""
        found: list[Stored] = []
        for partition, at in start.items():
            where = {EARLIEST: "beginning", LATEST: "end"}.get(at, str(at))
            limit = ["-c", str(count)] if len(start) == 1 else ["-e"]
            sizes = ["-X", f"fetch.message.max.bytes={max_bytes}", "-X", "fetch.wait.max.ms=50"]
            sizes += ["-X", "topic.auto.offset.reset=error"]
            out = self._run("-C", "-t", topic, "-p", str(partition), "-o", where, "-J", *limit, *sizes)
            found.extend(_stored(json.loads(line)) for line in out.splitlines())
        return found

    def offsets(self, topic: str, partitions: Sequence[int], at: int) -> dict[int, int | None]:
        """`-Q` also takes Kafka's own -1 and -2 for the two ends."""
        queries = [argument for partition in partitions for argument in ("-t", f"{topic}:{partition}:{at}")]
        found: dict[int, int | None] = {}
        for line in self._run("-Q", *queries).decode().splitlines():
            partition, offset = line.removeprefix(f"{topic} [").split("] offset ")
            found[int(partition)] = int(offset) if int(offset) >= 0 else None
        return found


def _runs(records: Sequence[Record]) -> list[list[Record]]:
    """Neighbours that one kcat process can write together; large values go alone."""
    runs: list[list[Record]] = []
    for record in records:
        if runs and _kind(runs[-1][0]) == _kind(record):
            runs[-1].append(record)
        else:
            runs.append([record])
    return runs


def _kind(record: Record) -> tuple[Any, ...]:
    return record.partition, record.headers, record.key is None, record.value is None


def _line(record: Record) -> bytes:
    key = b"" if record.key is None else record.key + _KEY_END.encode()
    return key + (record.value or b"") + b"\n"


def _stored(message: dict[str, Any]) -> Stored:
    headers = message.get("headers", [])
    return Stored(
        partition=message["partition"],
        offset=message["offset"],
        timestamp_ms=message["ts"],
        key=_bytes(message["key"]),
        value=_bytes(message["payload"]),
        headers=tuple((name, _bytes(value)) for name, value in zip(headers[::2], headers[1::2])),
        append_time=message["tstype"] == "logappend",
    )


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()
