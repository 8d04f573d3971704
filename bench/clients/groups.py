"""Members of groups, a connection each and all in one loop: how long until a group stands, how long until it heals.

A member does what a client does and no more: it joins, leads if it is told to, beats, and joins again when the group
wants it. It beats often, so that what is measured is the broker's work and not the wait for the next beat.
"""

from __future__ import annotations

import json
import select
import socket
import statistics
import struct
import sys
import time
import uuid
from abc import ABC, abstractmethod

from bench import group_wire as wire
from bench.clients.job import ANSWER_SECONDS_MAX, Job, RefusedError, Result, connect, costs
from bench.procfs import Meter

KILLS_MAX = 3  # much depends on whose beat comes next
IDLE_BEAT_SECONDS = 3.0  # what Kafka's clients do by default
GROUP = 32  # connections opened together: fewer than the 50 that Kafka lets wait


class Member(ABC):
    """One request under way at a time, as clients have it."""

    def __init__(self, job: Job, group: str, number: int) -> None:
        self.job = job
        self.group = group
        self.number = number
        self.sock = connect(job.port)
        self.beat_seconds = job.beat_seconds
        self.beat_due = float("inf")
        self.generation = -1
        self.is_in = False
        self.last_beat = 0.0
        self._buffer = b""
        self._waiting = False

    def send(self, request: bytes) -> None:
        assert not self._waiting
        self._waiting = True
        self.beat_due = float("inf")
        self.sock.sendall(request)

    def receive(self) -> None:
        """Reads what has come; `take` is given the answer when it is whole."""
        data = self.sock.recv(1 << 16)
        if not data:
            raise RefusedError("connection closed by the broker")
        self._buffer += data
        if len(self._buffer) < 4:
            return
        (length,) = struct.unpack_from(">i", self._buffer)
        if len(self._buffer) < 4 + length:
            return
        answer, self._buffer = self._buffer[4 : 4 + length], self._buffer[4 + length :]
        self._waiting = False
        self.take(answer)

    def beat_later(self) -> None:
        self.last_beat = time.perf_counter()
        self.beat_due = self.last_beat + self.beat_seconds

    @abstractmethod
    def begin(self) -> None: ...

    @abstractmethod
    def beat(self) -> None: ...

    @abstractmethod
    def take(self, answer: bytes) -> None: ...

    @abstractmethod
    def leaving(self) -> bytes: ...

    @classmethod
    @abstractmethod
    def are_stable(cls, members: list[Member]) -> bool: ...


class ClassicMember(Member):
    """What was asked last decides how the answer is read."""

    def __init__(self, job: Job, group: str, number: int) -> None:
        super().__init__(job, group, number)
        self._id = ""
        self._asked = "join"
        self.size = 0  # of its generation, known to the leader

    def begin(self) -> None:
        self.is_in = False
        self._asked = "join"
        self.send(wire.join(self.group, self._id, self.job.topic, self.job.session_ms))

    def beat(self) -> None:
        self._asked = "beat"
        self.send(wire.heartbeat(self.group, self._id, self.generation))

    def take(self, answer: bytes) -> None:
        if self._asked == "join":
            self._take_join(wire.joined(answer))
            return
        error = wire.error_of(answer)
        if error == wire.REBALANCE_IN_PROGRESS:
            self.begin()
        elif error:
            raise RefusedError(f"{self._asked}: error {error}")
        else:
            self.is_in = True
            self.beat_later()

    def _take_join(self, joined: wire.Joined) -> None:
        if joined.error == wire.MEMBER_ID_REQUIRED:
            self._id = joined.member_id
            self.begin()
            return
        if joined.error:
            raise RefusedError(f"join: error {joined.error}")
        self.generation, self.size = joined.generation, len(joined.members)
        shares = [(each, wire.share(self.job.topic, index)) for index, each in enumerate(joined.members)]
        self._asked = "sync"
        self.send(wire.sync(self.group, self._id, self.generation, shares))

    def leaving(self) -> bytes:
        return wire.leave(self.group, self._id)

    @classmethod
    def are_stable(cls, members: list[Member]) -> bool:
        """All have synced in one generation, and its leader knew of all of them."""
        if not all(member.is_in for member in members):
            return False
        one_generation = len({member.generation for member in members}) == 1
        sizes = [member.size for member in members if isinstance(member, ClassicMember) and member.size]
        return one_generation and sizes == [len(members)]


class ConsumerMember(Member):
    """KIP-848: the broker assigns, a partition each; a member says at once what it now owns."""

    def __init__(self, job: Job, group: str, number: int) -> None:
        super().__init__(job, group, number)
        self._id = str(uuid.uuid4())
        self._topic_id = uuid.UUID(int=0)
        self.owned: list[int] = []

    def begin(self) -> None:
        self.send(wire.consumer_heartbeat(self.group, self._id, 0, self.job.topic, None))

    def beat(self) -> None:
        self.send(wire.consumer_heartbeat(self.group, self._id, self.generation, self.job.topic, None))

    def take(self, answer: bytes) -> None:
        beaten = wire.beaten(answer)
        if beaten.error:
            raise RefusedError(f"heartbeat: error {beaten.error}")
        self.generation, self.is_in = beaten.epoch, True
        if beaten.assigned is None or beaten.assigned == self.owned:
            self.beat_later()
            return
        self.owned, self._topic_id = beaten.assigned, beaten.topic_id or self._topic_id
        owned = (self._topic_id, self.owned)
        self.send(wire.consumer_heartbeat(self.group, self._id, self.generation, self.job.topic, owned))

    def leaving(self) -> bytes:
        return wire.consumer_heartbeat(self.group, self._id, -1, self.job.topic, None)

    @classmethod
    def are_stable(cls, members: list[Member]) -> bool:
        """One epoch for all, every partition with one owner, shared fairly."""
        if not all(member.is_in for member in members) or len({member.generation for member in members}) != 1:
            return False
        shares = [member.owned for member in members if isinstance(member, ConsumerMember)]
        owned = sorted(partition for each in shares for partition in each)
        return owned == list(range(members[0].job.partitions)) and min(map(len, shares)) > 0


KINDS: dict[str, type[Member]] = {"classic": ClassicMember, "consumer": ConsumerMember}


class Loop:
    """All members' sockets in one poll, and their beats."""

    def __init__(self, members: list[Member]) -> None:
        self._poll = select.poll()
        self._members = {member.sock.fileno(): member for member in members}
        for number in self._members:
            self._poll.register(number, select.POLLIN)

    def drop(self, member: Member) -> None:
        self._poll.unregister(member.sock.fileno())
        del self._members[member.sock.fileno()]

    @property
    def members(self) -> list[Member]:
        return list(self._members.values())

    def turn(self, wait_seconds: float) -> None:
        """Waits for an answer or for the next beat, at most so long."""
        now = time.perf_counter()
        due = min((member.beat_due for member in self._members.values()), default=float("inf"))
        wait = max(0.0, min(wait_seconds, due - now))
        for number, _ in self._poll.poll(wait * 1000):
            self._members[number].receive()
        now = time.perf_counter()
        for member in self._members.values():
            if member.beat_due <= now:
                member.beat()

    def until_stable(self, kind: type[Member]) -> float:
        """The moment it became so."""
        end = time.perf_counter() + ANSWER_SECONDS_MAX
        while not kind.are_stable(self.members):
            if time.perf_counter() > end:
                raise RefusedError("the group does not become stable")
            self.turn(0.1)
        return time.perf_counter()


def form(job: Job) -> Result:
    """All join at once. Then one dies, and again: how long after its session's end the others stand again."""
    kind = KINDS[job.protocol]
    for number in range(job.rounds):
        _form_once(job, kind, f"{job.group}-warm-{number}", kill=False)
    return _form_once(job, kind, job.group, kill=True)


def _form_once(job: Job, kind: type[Member], group: str, *, kill: bool) -> Result:
    members: list[Member] = [kind(job, group, number) for number in range(job.members)]
    loop, meter, started = Loop(members), Meter(job.pids), time.perf_counter()
    for member in members:
        member.begin()
    seconds = loop.until_stable(kind) - started
    result = {"stable_ms": seconds * 1000, **costs(meter.read(), seconds)}
    if kill:
        victims = members[1:][-KILLS_MAX:]
        result["heal_ms"] = statistics.median(_kill_one(job, kind, loop, victim) for victim in victims) * 1000
    for member in loop.members:
        _leave(member)
    for member in members:
        member.sock.close()
    return result


def _kill_one(job: Job, kind: type[Member], loop: Loop, victim: Member) -> float:
    """It is silent from its last beat on; what the session timeout takes is not counted."""
    settled = time.perf_counter() + 2 * job.beat_seconds
    while time.perf_counter() < settled or victim.beat_due == float("inf"):
        loop.turn(0.01)
    loop.drop(victim)
    return loop.until_stable(kind) - victim.last_beat - job.session_ms / 1000


def _leave(member: Member) -> None:
    """Past an answer that may still be under way."""
    member.sock.sendall(member.leaving())


def idle(job: Job) -> Result:
    """A thousand groups of one member that only beat, until standard input ends."""
    kind = KINDS[job.protocol]
    started, members = time.perf_counter(), []
    for first in range(0, job.members, GROUP):
        some: list[Member] = [
            kind(job, f"{job.group}-{number}", number) for number in range(first, min(first + GROUP, job.members))
        ]
        loop = Loop(some)
        for member in some:
            member.begin()
        while not all(member.is_in for member in some):
            loop.turn(0.1)
        members += some
    for member in members:
        member.beat_seconds = IDLE_BEAT_SECONDS
        member.beat_due = time.perf_counter() + IDLE_BEAT_SECONDS * member.number / job.members
    print(json.dumps({"groups": len(members), "seconds": time.perf_counter() - started}), flush=True)
    loop = Loop(members)
    while not select.select([sys.stdin], [], [], 0)[0]:
        loop.turn(0.2)
    for member in members:
        # a reset, not a goodbye: ports in TIME_WAIT would be missing in the next sample
        member.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        member.sock.close()
    return {"alive": sum(member.is_in for member in members)}


def commit(job: Job) -> Result:
    """Commits of one partition each, several under way on each of a few connections, each for a group of its own."""
    lanes = [_Lane(job, f"{job.group}-{number}") for number in range(job.connections)]
    poll = select.poll()
    by_number = {lane.sock.fileno(): lane for lane in lanes}
    for number in by_number:
        poll.register(number, select.POLLIN)

    def run(seconds: float) -> int:
        done, end = 0, time.perf_counter() + seconds
        for lane in lanes:
            lane.fill()
        while any(lane.in_flight for lane in lanes):
            more = time.perf_counter() < end
            events = poll.poll(ANSWER_SECONDS_MAX * 1000)
            if not events:
                raise RefusedError("no answer")
            for number, _ in events:
                done += by_number[number].receive()
                if more:
                    by_number[number].fill()
        return done

    run(job.warm_seconds)
    meter, started = Meter(job.pids), time.perf_counter()
    done = run(job.seconds)
    seconds, usage = time.perf_counter() - started, meter.read()
    for lane in lanes:
        lane.sock.close()
    return {"requests": done, **costs(usage, seconds)}


class _Lane:
    """One committing connection."""

    def __init__(self, job: Job, group: str) -> None:
        self.sock = connect(job.port)
        self.in_flight = 0
        self._window = job.in_flight
        self._requests = [wire.commit(group, job.topic, 0, offset) for offset in range(100)]
        self._next = 0
        self._size = wire.commit_answer_bytes(job.topic)
        self._error = wire.commit_error_position(job.topic)
        self._tail = b""

    def fill(self) -> None:
        count = self._window - self.in_flight
        if count > 0:
            wanted = [self._requests[(self._next + index) % 100] for index in range(count)]
            self._next += count
            self.in_flight += count
            self.sock.sendall(b"".join(wanted))

    def receive(self) -> int:
        data = self._tail + self.sock.recv(1 << 16)
        if len(data) == len(self._tail):
            raise RefusedError("connection closed by the broker")
        answered = len(data) // self._size
        for start in range(0, answered * self._size, self._size):
            error = int.from_bytes(data[start + self._error : start + self._error + 2], "big")
            if error or int.from_bytes(data[start : start + 4], "big") != self._size - 4:
                raise RefusedError(f"commit: error {error}: {data[start : start + 100].hex()}")
        self._tail = data[answered * self._size :]
        self.in_flight -= answered
        return answered
