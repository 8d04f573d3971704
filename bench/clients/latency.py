"""How long one waits: for an acknowledgement, and for a record on its way from producer to consumer at a set pace."""

from __future__ import annotations

import select
import socket
import struct
import threading
import time
from collections.abc import Callable

from bench import cluster_wire, wire
from bench.admin import Admin
from bench.clients.job import ANSWER_SECONDS_MAX, Job, RefusedError, Result, connect, costs, percentiles
from bench.procfs import Meter

_LOOK_SECONDS = 0.02


class _Caller:
    """Writes one record after the other on one connection, each when the one before is acknowledged."""

    def __init__(self, job: Job) -> None:
        self._request = wire.produce(job.topic, [(0, wire.record_batch(job.record_bytes, job.records))], acks=job.acks)
        self._answer = bytearray(len(wire.produce_answer(job.topic, [0])))
        self._error_position = wire.produce_error_position(job.topic) + 1
        self._sock = connect(job.port_of(0))

    def run(self, seconds: float, ended: Callable[[], bool] = lambda: False) -> list[int]:
        """How many nanoseconds each took, for so long, or until `ended`."""
        sock, request, answer = self._sock, self._request, self._answer
        answer_bytes, position = len(answer), self._error_position
        taken: list[int] = []
        end = time.perf_counter_ns() + int(seconds * 1e9)
        before = time.perf_counter_ns()
        while before < end and not ended():
            sock.send(request)
            if sock.recv_into(answer, answer_bytes, socket.MSG_WAITALL) != answer_bytes or answer[position]:
                raise RefusedError(f"unexpected answer {answer.hex()}")
            after = time.perf_counter_ns()
            taken.append(after - before)
            before = time.perf_counter_ns()
        return taken

    def close(self) -> None:
        self._sock.close()


def sync(job: Job) -> Result:
    """What a caller that waits for each acknowledgement feels."""
    caller = _Caller(job)
    caller.run(job.warm_seconds)
    meter, started = Meter(job.pids), time.perf_counter()
    taken = caller.run(job.seconds)
    seconds, usage = time.perf_counter() - started, meter.read()
    caller.close()
    return {"requests": len(taken), **percentiles(taken), **costs(usage, seconds)}


def sync_while_copied(job: Job) -> Result:
    """The same while a replica catches up with `copied`: from when it is in sync with the caller's own topic, whose
    writes wait for it from then on, until it is with the other."""
    caller, own, copied = _Caller(job), _Copies(job, job.topic), _Copies(job, job.copied)
    caller.run(ANSWER_SECONDS_MAX, own.complete.is_set)
    meter, started = Meter(job.pids), time.perf_counter()
    taken = caller.run(ANSWER_SECONDS_MAX, copied.complete.is_set)
    seconds, usage = time.perf_counter() - started, meter.read()
    caller.close()
    if not copied.complete.is_set() or not taken:
        raise RefusedError(f"{job.copied}: {'copied too soon' if not taken else 'not copied in time'}")
    return {"requests": len(taken), **percentiles(taken), **costs(usage, seconds)}


class _Copies:
    """Looks, in a thread of its own, for the moment at which all copies of a topic are in sync."""

    def __init__(self, job: Job, topic: str) -> None:
        self.complete = threading.Event()
        self._job = job
        self._topic = topic
        threading.Thread(target=self._look, daemon=True).start()

    def _look(self) -> None:
        admin = Admin(self._job.port_of(0))
        while not self.complete.is_set():
            led = cluster_wire.read_metadata(admin.ask(cluster_wire.metadata(self._topic)))
            if all(partition.in_sync == self._job.copies for partition in led):
                self.complete.set()
            time.sleep(_LOOK_SECONDS)


def paced(job: Job) -> Result:
    """Producer and consumer in one loop, `rate` one-record requests a second, the consumer always waiting in a fetch.

    Order is the message's name: on one partition and one connection the n-th record sent is the n-th read, so the time
    of each sending is kept here and nothing has to be decoded.
    """
    batch = wire.record_batch(job.record_bytes, 1)
    request = wire.produce(job.topic, [(0, batch)], acks=job.acks)
    producer, consumer = connect(job.port_of(0)), connect(job.port_of(0))
    step_ns = int(1e9 / job.rate)
    sent_ns: list[int] = []
    taken: list[int] = []
    consumer.sendall(wire.fetch(job.topic, [(0, 0)], partition_max_bytes=job.partition_max_bytes))

    def run(seconds: float) -> None:
        due_ns = time.perf_counter_ns()
        end_ns = due_ns + int(seconds * 1e9)
        while due_ns < end_ns or len(taken) < len(sent_ns):
            now_ns = time.perf_counter_ns()
            if now_ns > end_ns + ANSWER_SECONDS_MAX * 1e9:
                raise RefusedError(f"{len(sent_ns) - len(taken)} records missing")
            if now_ns >= due_ns and due_ns < end_ns:
                sent_ns.append(now_ns)
                producer.sendall(request)
                due_ns += step_ns
            wait = max(0.0, (due_ns - now_ns) / 1e9) if due_ns < end_ns else 1.0
            readable, _, _ = select.select([producer, consumer], [], [], wait)
            if producer in readable and not producer.recv(1 << 16):
                raise RefusedError("connection closed by the broker")
            if consumer in readable:
                arrived = _take(consumer, job.topic, len(batch))
                now_ns = time.perf_counter_ns()
                taken.extend(now_ns - sent for sent in sent_ns[len(taken) : len(taken) + arrived])
                ask = wire.fetch(job.topic, [(0, len(taken))], partition_max_bytes=job.partition_max_bytes)
                consumer.sendall(ask)

    run(job.warm_seconds)
    warm = len(taken)
    meter, started = Meter(job.pids), time.perf_counter()
    run(job.seconds)
    seconds, usage = time.perf_counter() - started, meter.read()
    producer.close()
    consumer.close()
    reached = (len(taken) - warm) / seconds
    return {"rate": reached, **percentiles(taken[warm:]), **costs(usage, seconds)}


def _take(consumer: socket.socket, topic: str, batch_bytes: int) -> int:
    """Reads one fetch answer and counts the records in it, each a batch of its own."""
    (length,) = struct.unpack(">i", consumer.recv(wire.LENGTH_BYTES, socket.MSG_WAITALL))
    answer = consumer.recv(length, socket.MSG_WAITALL)
    (error,) = struct.unpack_from(">h", answer, wire.fetch_error_position(topic) - wire.LENGTH_BYTES)
    if error:
        raise RefusedError(f"error {error}")
    size, _ = wire.read_varint(answer, wire.fetch_prefix_bytes(topic) - wire.LENGTH_BYTES)
    return max(0, size - 1) // batch_bytes
