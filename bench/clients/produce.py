"""Producing as fast as the broker takes it, from frames encoded beforehand.

Every answer's error code is looked at: a broker that refuses fast must not win.
"""

from __future__ import annotations

import itertools
import select
import socket
import time
from collections.abc import Iterator

from bench import wire
from bench.clients.job import ANSWER_SECONDS_MAX, Job, RefusedError, Result, connect, costs
from bench.procfs import Meter

SMALL_FRAME_BYTES = 64 << 10  # frames up to this size are sent several in one call, as far as the window allows
RECEIVE_BYTES = 1 << 16


class Pipe:
    """One producing connection that keeps `in_flight` requests under way."""

    __slots__ = ("_answer_bytes", "_bursts", "_error_positions", "_tail", "_unsent", "in_flight", "sock")

    def __init__(self, job: Job, requests: list[bytes], partitions: list[int]) -> None:
        self.sock = connect(job.port_of(partitions[0]))
        self.sock.setblocking(False)
        self.in_flight = 0
        most = job.in_flight if len(requests[0]) <= SMALL_FRAME_BYTES else 1
        cycle = itertools.cycle(requests)
        self._bursts: list[Iterator[bytes]] = [iter(())]
        for count in range(1, most + 1):
            joined = [b"".join(itertools.islice(cycle, count)) for _ in requests]
            self._bursts.append(itertools.cycle(joined))
        self._unsent = memoryview(b"")
        self._tail = b""
        self._answer_bytes = len(wire.produce_answer(job.topic, partitions))
        first = wire.produce_error_position(job.topic)
        self._error_positions = [first + index * wire.PRODUCED_PARTITION_BYTES for index in range(len(partitions))]

    def send(self, window: int) -> bool:
        """Sends until the window is full (True) or the socket is (False)."""
        while True:
            if not self._unsent:
                free = min(window - self.in_flight, len(self._bursts) - 1)
                if free <= 0:
                    return True
                self._unsent = memoryview(next(self._bursts[free]))
                self.in_flight += free
            try:
                sent = self.sock.send(self._unsent)
            except BlockingIOError:
                return False
            self._unsent = self._unsent[sent:]

    def receive(self) -> int:
        """How many requests were answered since the last call."""
        try:
            data = self.sock.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return 0
        if not data:
            raise RefusedError("connection closed by the broker")
        if self._tail:
            data = self._tail + data
        size, answered = self._answer_bytes, len(data) // self._answer_bytes
        for start in range(0, answered * size, size):
            self._check(data, start)
        self._tail = data[answered * size :]
        self.in_flight -= answered
        return answered

    def _check(self, data: bytes, start: int) -> None:
        if int.from_bytes(data[start : start + 4], "big") != self._answer_bytes - wire.LENGTH_BYTES:
            raise RefusedError(f"unexpected answer {data[start : start + 200].hex()}")
        for position in self._error_positions:
            if data[start + position] or data[start + position + 1]:
                raise RefusedError(f"error {int.from_bytes(data[start + position : start + position + 2], 'big')}")

    def finish_unanswered(self, last: bytes) -> None:
        """For acks=0: writes what is left and one acknowledged request behind it, and waits for that."""
        self.sock.setblocking(True)
        self.sock.sendall(self._unsent)
        self.sock.sendall(last)
        self._unsent = memoryview(b"")
        self.in_flight = 1
        while self.in_flight:
            self.receive()
        self.sock.setblocking(False)


class Hose:
    """All producing connections, driven from one edge-triggered epoll."""

    def __init__(self, job: Job) -> None:
        self._job = job
        batch = wire.record_batch(job.record_bytes, job.records)
        self.request_data_bytes = len(batch) * job.batches_per_request
        self._poll = select.epoll()
        self._pipes: dict[int, Pipe] = {}
        self._last: dict[int, bytes] = {}
        for groups in _shares(job):
            requests = [wire.produce(job.topic, [(p, batch) for p in group], acks=job.acks) for group in groups]
            pipe = Pipe(job, requests, groups[0])
            number = pipe.sock.fileno()
            self._pipes[number] = pipe
            self._last[number] = wire.produce(job.topic, [(p, batch) for p in groups[0]], acks=1)
            self._poll.register(number, select.EPOLLIN | select.EPOLLOUT | select.EPOLLET)

    def run(self, seconds: float, bytes_max: int) -> int:
        """Keeps the windows full for so long, then waits until all is answered; returns the requests done."""
        return self._run_unanswered(seconds, bytes_max) if self._job.acks == 0 else self._run(seconds, bytes_max)

    def _run(self, seconds: float, bytes_max: int) -> int:
        done, window, requests_max = 0, self._job.in_flight, bytes_max // self.request_data_bytes
        end = time.perf_counter() + seconds
        for pipe in self._pipes.values():
            pipe.send(window)
        while True:
            events = self._poll.poll(ANSWER_SECONDS_MAX)
            if not events:
                raise RefusedError("no answer")
            if window and (time.perf_counter() >= end or done >= requests_max):
                window = 0
            for number, _ in events:
                pipe = self._pipes[number]
                done += pipe.receive()
                pipe.send(window)
            if not window and not any(pipe.in_flight for pipe in self._pipes.values()):
                return done

    def _run_unanswered(self, seconds: float, bytes_max: int) -> int:
        requests_max = bytes_max // self.request_data_bytes
        end = time.perf_counter() + seconds
        pipes = self._pipes.values()
        for pipe in pipes:
            pipe.in_flight = 0
        while time.perf_counter() < end and sum(pipe.in_flight for pipe in pipes) < requests_max:
            # without answers, room in the socket is the only sign of progress
            full = [not pipe.send(pipe.in_flight + self._job.in_flight) for pipe in pipes]
            if all(full):
                self._poll.poll(ANSWER_SECONDS_MAX)
        done = sum(pipe.in_flight for pipe in pipes) + len(pipes)
        for number, pipe in self._pipes.items():
            pipe.finish_unanswered(self._last[number])
        return done

    def close(self) -> None:
        for pipe in self._pipes.values():
            pipe.sock.close()
        self._poll.close()


def _shares(job: Job) -> list[list[list[int]]]:
    """For each connection the partitions of each of its requests.

    With few partitions, a connection each, as so many independent producers; with thousands, three connections whose
    requests go round all partitions.
    """
    if job.batches_per_request == 1 and job.partitions <= 16:
        return [[[partition]] for partition in range(job.partitions)]
    size = job.batches_per_request
    groups = [list(range(first, first + size)) for first in range(0, job.partitions - size + 1, size)]
    return [groups[lane::3] for lane in range(min(3, len(groups)))]


def produce(job: Job) -> Result:
    hose = Hose(job)
    hose.run(job.warm_seconds, job.bytes_max // 4)
    meter, started = Meter(job.pids), time.perf_counter()
    done = hose.run(job.seconds, job.bytes_max)
    seconds, usage = time.perf_counter() - started, meter.read()
    hose.close()
    return {"requests": done, "bytes": done * hose.request_data_bytes, **costs(usage, seconds)}


def fill(job: Job) -> Result:
    """Writes exactly `batches` into each partition, for a later fetch that must know where its log ends."""
    batch = wire.record_batch(job.record_bytes, job.records)
    answer_bytes = len(wire.produce_answer(job.topic, [0]))
    for partition in range(job.partitions):
        request = wire.produce(job.topic, [(partition, batch)], acks=job.acks)
        with connect(job.port_of(partition)) as sock:
            for number in range(job.batches + job.in_flight):
                if number >= job.in_flight and len(sock.recv(answer_bytes, socket.MSG_WAITALL)) != answer_bytes:
                    raise RefusedError("unexpected answer")
                if number < job.batches:
                    sock.sendall(request)
    return {"bytes": job.partitions * job.batches * len(batch)}
