"""How long nobody can write or read after a leader was killed: as a plain client sees it, and as librdkafka does.

Three go on all the time on one partition: a librdkafka producer and a librdkafka consumer at their defaults, and a raw
client that asks everybody for the new leader as fast as it gets answers. When all three flow, the job kills the victims
itself, so that the clock starts with the signal; after a pause that its question draws, since librdkafka looks for a
new leader once a second, and all three start with that second. Every record carries the moment of its sending: what was
sent before the kill and arrives after it counts for nobody.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import threading
import time

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from bench import cluster_wire, wire
from bench.clients.job import ANSWER_SECONDS_MAX, Job, RefusedError, Result

STEP_SECONDS = 0.01
RETRY_SECONDS = 0.005
FLOWING_SECONDS = 1.0  # of all three, before the kill
STAMP_BYTES = 8
SOCKET_SECONDS_MAX = 2.0


class Stopwatch:
    """The first moment after the kill at which something succeeded that had begun after the kill."""

    def __init__(self) -> None:
        self.killed_ns = 0
        self.last_ns = 0
        self._succeeded = threading.Event()
        self._succeeded_ns = 0

    def success(self, begun_ns: int) -> None:
        self.last_ns = time.perf_counter_ns()
        if self.killed_ns and begun_ns > self.killed_ns and not self._succeeded.is_set():
            self._succeeded_ns = self.last_ns
            self._succeeded.set()

    def seconds(self, what: str) -> float:
        """Waits for it."""
        if not self._succeeded.wait(ANSWER_SECONDS_MAX):
            raise RefusedError(f"{what}: nothing for {ANSWER_SECONDS_MAX:.0f} s after the kill")
        return (self._succeeded_ns - self.killed_ns) / 1e9


def _stamp() -> bytes:
    return time.perf_counter_ns().to_bytes(STAMP_BYTES, "big")


def _stamped_ns(value: str | bytes | None) -> int:
    assert isinstance(value, bytes)
    return int.from_bytes(value[:STAMP_BYTES], "big")


class RawWriter:
    """Writes one record after the other with acks=all, to whoever leads."""

    def __init__(self, job: Job, watch: Stopwatch) -> None:
        self._job = job
        self._watch = watch
        self._ports = [int(address.rpartition(":")[2]) for address in job.bootstrap.split(",")]
        self._leader: socket.socket | None = None

    def run(self, end: threading.Event) -> None:
        while not end.is_set():
            try:
                if self._leader is None:
                    self._leader = self._find()
                begun_ns = time.perf_counter_ns()
                self._write(self._leader)
                self._watch.success(begun_ns)
                time.sleep(STEP_SECONDS)
            except (OSError, struct.error):
                if self._leader is not None:
                    self._leader.close()
                self._leader = None
                time.sleep(RETRY_SECONDS)

    def _write(self, sock: socket.socket) -> None:
        batch = wire.batch_of(_stamp())
        answer = _ask(sock, wire.produce(self._job.topic, [(self._job.partition, batch)], acks=-1, timeout_ms=1000))
        if struct.unpack_from(">h", answer, wire.produce_error_position(self._job.topic) - wire.LENGTH_BYTES)[0]:
            raise cluster_wire.NoAnswerError("refused")

    def _find(self) -> socket.socket:
        """Asks each broker whether it is the leader itself: the fastest way to a new one."""
        for port in self._ports:
            with contextlib.suppress(OSError):
                sock = socket.create_connection(("127.0.0.1", port), timeout=SOCKET_SECONDS_MAX)
                try:
                    self._write(sock)
                    return sock
                except OSError:
                    sock.close()
                    raise
        raise cluster_wire.NoAnswerError("nobody leads")


def _ask(sock: socket.socket, request: bytes) -> bytes:
    sock.sendall(request)
    (length,) = struct.unpack(">i", _read(sock, wire.LENGTH_BYTES))
    return _read(sock, length)


def _read(sock: socket.socket, count: int) -> bytes:
    out = bytearray()
    while len(out) < count:
        chunk = sock.recv(count - len(out))
        if not chunk:
            raise ConnectionError("closed by the peer")
        out += chunk
    return bytes(out)


def _produce(job: Job, watch: Stopwatch, end: threading.Event) -> None:
    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is None:
            watch.success(_stamped_ns(message.value()))

    producer = Producer({"bootstrap.servers": job.bootstrap, "on_delivery": delivered, "log_level": 0})
    while not end.is_set():
        producer.produce(job.topic, _stamp(), partition=job.partition)
        producer.poll(STEP_SECONDS)
    producer.purge()
    producer.flush(1.0)


def _consume(job: Job, watch: Stopwatch, end: threading.Event) -> None:
    consumer = Consumer({"bootstrap.servers": job.bootstrap, "group.id": "bench", "log_level": 0})
    consumer.assign([TopicPartition(job.topic, job.partition, 0)])
    while not end.is_set():
        message = consumer.poll(STEP_SECONDS)
        if message is not None and message.error() is None:
            watch.success(_stamped_ns(message.value()))
    consumer.close()


def fail_over(job: Job) -> Result:
    """Kills `victims` while records flow; how long each of the three stood still."""
    watches = {"raw_write_seconds": Stopwatch(), "write_seconds": Stopwatch(), "read_seconds": Stopwatch()}
    raw, write, read = watches.values()
    end = threading.Event()
    work = [
        threading.Thread(target=RawWriter(job, raw).run, args=(end,), daemon=True),
        threading.Thread(target=_produce, args=(job, write, end), daemon=True),
        threading.Thread(target=_consume, args=(job, read, end), daemon=True),
    ]
    for each in work:
        each.start()
    _await_flow(list(watches.values()))
    time.sleep(job.pause_seconds)
    killed_ns = time.perf_counter_ns()
    for victim in job.victims:
        os.kill(victim, signal.SIGKILL)
    for watch in watches.values():
        watch.killed_ns = killed_ns
    taken = {name: watch.seconds(name) for name, watch in watches.items()}
    end.set()
    for each in work:
        each.join(ANSWER_SECONDS_MAX)
    return taken


def _await_flow(watches: list[Stopwatch]) -> None:
    """Until everything has been moving for a while without a pause."""
    started = time.monotonic()
    flowing_since = time.monotonic()
    while time.monotonic() - flowing_since < FLOWING_SECONDS:
        if time.monotonic() - started > ANSWER_SECONDS_MAX:
            raise RefusedError("records do not flow")
        oldest_ns = min(watch.last_ns for watch in watches)
        if time.perf_counter_ns() - oldest_ns > FLOWING_SECONDS * 1e9 / 2:
            flowing_since = time.monotonic()
        time.sleep(STEP_SECONDS)
