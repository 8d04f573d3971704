"""Fetching as fast as the broker gives it: lengths are read, records are received into one buffer and forgotten.

The bytes are copied out of the socket, as every consumer must; telling the kernel to drop them (`MSG_TRUNC`) would be
cheaper still, but then a broker that uses sendfile would be measured moving nothing at all.
"""

from __future__ import annotations

import select
import struct
import time

from bench import wire
from bench.clients.job import ANSWER_SECONDS_MAX, Job, RefusedError, Result, connect, costs
from bench.procfs import Meter

RECEIVE_BYTES = 1 << 20


class Drain:
    """One fetching connection that reads its partition from end to end, again and again, and throws it away."""

    __slots__ = (
        "_batch_bytes",
        "_buffer",
        "_job",
        "_left",
        "_offset",
        "_partition",
        "_prefix",
        "_prefix_bytes",
        "sock",
    )

    def __init__(self, job: Job, partition: int, batch_bytes: int, buffer: memoryview) -> None:
        self.sock = connect(job.port_of(partition))
        self._job = job
        self._partition = partition
        self._batch_bytes = batch_bytes
        self._buffer = buffer
        self._offset = 0
        self._left = 0  # bytes of the current answer still to come, once its prefix is known
        self._prefix = bytearray()
        # the records' length follows as a varint; four bytes of it are always there, and enough for 256 MB
        self._prefix_bytes = wire.fetch_prefix_bytes(job.topic) + 4

    def ask(self) -> None:
        ask = wire.fetch(
            self._job.topic, [(self._partition, self._offset)], partition_max_bytes=self._job.partition_max_bytes
        )
        self.sock.sendall(ask)

    def receive(self) -> int:
        """Takes what is there; returns the bytes of whole batches when an answer is complete, else 0."""
        if self._left:
            self._left -= self.sock.recv_into(self._buffer, min(self._left, RECEIVE_BYTES))
            return 0 if self._left else self._complete()
        chunk = self.sock.recv(self._prefix_bytes - len(self._prefix))
        if not chunk:
            raise RefusedError("connection closed by the broker")
        self._prefix += chunk
        if len(self._prefix) == self._prefix_bytes:
            (length,) = struct.unpack_from(">i", self._prefix)
            self._left = wire.LENGTH_BYTES + length - self._prefix_bytes
        return self._complete() if len(self._prefix) == self._prefix_bytes and not self._left else 0

    def _complete(self) -> int:
        (error,) = struct.unpack_from(">h", self._prefix, wire.fetch_error_position(self._job.topic))
        if error:
            raise RefusedError(f"error {error}")
        size, _ = wire.read_varint(self._prefix, self._prefix_bytes - 4)
        self._prefix.clear()
        whole = (size - 1) // self._batch_bytes
        if whole <= 0:
            raise RefusedError("an answer without a whole batch")
        self._offset = (self._offset + whole * self._job.records) % (self._job.batches * self._job.records)
        return whole * self._batch_bytes


def fetch(job: Job) -> Result:
    """One connection and one request under way for each partition, as so many consumers."""
    batch_bytes = len(wire.record_batch(job.record_bytes, job.records))
    buffer = memoryview(bytearray(RECEIVE_BYTES))
    drains = [Drain(job, partition, batch_bytes, buffer) for partition in range(job.partitions)]
    by_number = {drain.sock.fileno(): drain for drain in drains}
    poll = select.epoll()
    for drain in drains:
        poll.register(drain.sock.fileno(), select.EPOLLIN)
        drain.ask()

    def run(seconds: float) -> tuple[int, int]:
        taken = answers = 0
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            for number, _ in poll.poll(ANSWER_SECONDS_MAX):
                if whole := by_number[number].receive():
                    taken += whole
                    answers += 1
                    by_number[number].ask()
        return taken, answers

    run(job.warm_seconds)
    meter, started = Meter(job.pids), time.perf_counter()
    taken, answers = run(job.seconds)
    seconds, usage = time.perf_counter() - started, meter.read()
    for drain in drains:
        drain.sock.close()
    return {"requests": answers, "bytes": taken, **costs(usage, seconds)}
