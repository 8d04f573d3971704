"""Whole members of a quorum in one loop, on disks in memory, with cables between them that can be cut."""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from inspect import isawaitable
from typing import Any, cast

from bifrost.errors import ApiError
from bifrost.log.memory_disk import MemoryDisk
from bifrost.peers.transport import Listening
from bifrost.protocol.apis import ApiKey
from bifrost.protocol.codec import reader, writer
from bifrost.protocol.fetch.request import decode_request
from bifrost.protocol.fetch.response import encode_response
from bifrost.protocol.frame import has_flexible_response_header, read_request_header, response_prefix
from bifrost.protocol.messages import request_class
from bifrost.raft.core.effects import Timing
from bifrost.raft.core.messages import SnapshotId
from bifrost.raft.driver import QuorumMember, QuorumSettings
from bifrost.raft.links import VoterAddress
from bifrost.raft.serving import QuorumService
from bifrost.raft.storage import RaftStorage
from bifrost.settings import Settings
from bifrost.types import NodeId

TIMING = Timing(election_timeout_ms=200, backoff_max_ms=100, fetch_timeout_ms=400, spread_ms=10)


class StillClock:
    def now_ms(self) -> int:
        return 1_700_000_000_000


class Cable(asyncio.Transport):
    """One end of a connection: what is written here is received there, soon."""

    peer: Cable

    def __init__(self, protocol: asyncio.BaseProtocol) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._protocol = cast("asyncio.Protocol | asyncio.BufferedProtocol", protocol)
        self.is_cut = False

    def write(self, data: Any) -> None:
        if not self.is_cut:
            self._loop.call_soon(self.peer._receive, bytes(data))

    def abort(self) -> None:
        if not self.is_cut:
            self.is_cut = True
            self._loop.call_soon(self._protocol.connection_lost, None)
            self.peer.abort()

    close = abort

    def _receive(self, data: bytes) -> None:
        """As a loop would hand it over: to a protocol with a buffer of its own, in as many parts as fit."""
        protocol = self._protocol
        while data and not self.is_cut:
            if not isinstance(protocol, asyncio.BufferedProtocol):
                protocol.data_received(data)
                return
            buffer = memoryview(protocol.get_buffer(len(data)))
            part, data = data[: len(buffer)], data[len(buffer) :]
            buffer[: len(part)] = part
            protocol.buffer_updated(len(part))


class Door(asyncio.Protocol):
    """Answers what members ask each other, in the order that it is asked in."""

    def __init__(self, service: QuorumService) -> None:
        self._service = service
        self._received = b""
        self._frames: asyncio.Queue[bytes] = asyncio.Queue()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._task = asyncio.ensure_future(self._answer())

    def connection_lost(self, exc: Exception | None) -> None:
        self._task.cancel()

    def data_received(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= 4:
            (length,) = struct.unpack_from(">i", self._received)
            if len(self._received) < 4 + length:
                return
            self._frames.put_nowait(self._received[4 : 4 + length])
            self._received = self._received[4 + length :]

    async def _answer(self) -> None:
        while True:
            frame = await self._frames.get()
            header, at = read_request_header(frame)
            version, key = header.api_version, header.api_key
            if key == ApiKey.FETCH:
                response = await self._service.fetch(decode_request(memoryview(frame), at, version))
                parts = encode_response(version, header.correlation_id, response)
                self._transport.write(b"".join(map(bytes, cast("list[bytes]", parts))))
                continue
            request, _ = reader(request_class(key), version)(frame, at)
            answer = self._handler(key)(request)
            if isawaitable(answer):
                answer = await answer
            body = writer(type(answer), version)(answer)
            prefix = response_prefix(header.correlation_id, has_flexible_response_header(key, version), len(body))
            self._transport.write(prefix + body)

    def _handler(self, key: int) -> Callable[[Any], Any]:
        return {
            ApiKey.VOTE: self._service.vote,
            ApiKey.BEGIN_QUORUM_EPOCH: self._service.begin_epoch,
            ApiKey.END_QUORUM_EPOCH: self._service.end_epoch,
            ApiKey.FETCH_SNAPSHOT: self._service.fetch_snapshot,
        }[ApiKey(key)]


class Machine:
    """One node: a disk that stays, and a member that comes and goes."""

    def __init__(self, lab: Lab, me: int, voters: dict[NodeId, VoterAddress]) -> None:
        self.me = NodeId(me)
        self.disk = MemoryDisk()
        self.committed: dict[int, bytes] = {}
        self.member: QuorumMember | None = None
        self.service: QuorumService | None = None
        self.failures: list[BaseException] = []
        self._lab = lab
        self._voters = voters
        self._applied = 0
        self.cables: list[Cable] = []

    @property
    def running(self) -> QuorumMember:
        assert self.member is not None, f"{self.me} is down"
        return self.member

    def start(self) -> None:
        storage = RaftStorage.open(
            self.disk, "data", Settings(), StillClock(), has_others=len(self._voters) > 1 or self.me not in self._voters
        )
        self._applied, self.committed = 0, {}
        if storage.snapshot is not None:
            self._load(storage.snapshot, storage.snapshots.changes(storage.snapshot))
        self.member = QuorumMember(
            self.me,
            QuorumSettings(voters=self._voters, timing=TIMING, request_timeout_ms=400, fetch_wait_ms=100),
            storage,
            transport=self._lab.transport(self),
            clock=StillClock(),
            rng=random.Random(self.me),
            on_commit=self._on_commit,
            load_snapshot=self._prepare,
            on_change=lambda: None,
            on_failure=self.failures.append,
        )
        self.service = QuorumService(self.member)
        self.member.start()

    async def stop(self, *, clean: bool) -> None:
        member, self.member = self.running, None
        if clean:
            await member.stop(clean=True)
            self.service = None
        else:
            self.service = None
            for cable in self.cables:
                cable.abort()
            await member.stop(clean=False)
        self.cables.clear()
        member.storage.close()

    def snapshot(self) -> SnapshotId:
        """Replace what is committed by a snapshot of it."""
        storage = self.running.storage
        taken = SnapshotId(self._applied, storage.last_epoch)
        values = [b"%d=%s" % item for item in sorted(self.committed.items())]
        storage.snapshots.write(taken, [values], 0)
        storage.snapshots.add(taken)
        storage.on_snapshot()
        return taken

    def _on_commit(self, high_watermark: int) -> int:
        """A few at a time, as a node does."""
        end = min(high_watermark, self._applied + 3)
        for offset, _, value in self.running.storage.entries(self._applied, end):
            if not isinstance(value, bytes):
                continue
            self.committed[offset] = value
        self._applied = end
        return end

    async def _prepare(self, snapshot: SnapshotId, changes: Iterator[bytes]) -> Callable[[], None]:
        values = list(changes)
        return lambda: self._load(snapshot, iter(values))

    def _load(self, snapshot: SnapshotId, changes: Iterator[bytes]) -> None:
        pairs = (value.split(b"=", 1) for value in changes)
        self.committed = {int(offset): value for offset, value in pairs}
        self._applied = snapshot.end_offset


class _Wires:
    """The network as one machine sees it."""

    def __init__(self, lab: Lab, machine: Machine) -> None:
        self._lab = lab
        self._machine = machine

    async def connect(self, host: str, port: int, protocol: asyncio.BaseProtocol) -> asyncio.Transport:
        await asyncio.sleep(0)
        there = self._lab.machines[NodeId(port)]
        if frozenset((self._machine.me, there.me)) in self._lab.cut:
            raise OSError("no route")
        if there.service is None:
            raise ConnectionRefusedError
        here, end = Cable(protocol), Cable(Door(there.service))
        here.peer, end.peer = end, here
        self._machine.cables.append(here)
        there.cables.append(end)
        end._protocol.connection_made(end)
        here._protocol.connection_made(here)
        return here

    async def listen(
        self, host: str, port: int, protocol: Callable[[], asyncio.BaseProtocol], *, backlog: int
    ) -> Listening:
        raise AssertionError("members do not listen: the node does")

    def host_name(self) -> str:
        return "lab"


class Lab:
    """All machines, and which of them cannot reach each other."""

    def __init__(self, voters: int, observers: int = 0) -> None:
        ids = [NodeId(number) for number in range(1, voters + 1)]
        addresses = {me: VoterAddress("lab", me) for me in ids}
        everybody = [*ids, *(NodeId(100 + number) for number in range(observers))]
        self.machines = {me: Machine(self, me, addresses) for me in everybody}
        self.cut: set[frozenset[NodeId]] = set()

    def transport(self, machine: Machine) -> _Wires:
        return _Wires(self, machine)

    def __getitem__(self, me: int) -> Machine:
        return self.machines[NodeId(me)]

    @property
    def up(self) -> list[Machine]:
        return [machine for machine in self.machines.values() if machine.member is not None]

    async def until(self, condition: Callable[[], bool], timeout_s: float = 10) -> None:
        deadline = asyncio.get_running_loop().time() + timeout_s
        while not condition():
            assert asyncio.get_running_loop().time() < deadline, "it did not happen"
            await asyncio.sleep(0.002)

    async def leader(self) -> Machine:
        """The one that all who are up agree on, once they do."""

        def agreed() -> bool:
            return {machine.running.core.leader for machine in self.up} in [{machine.me} for machine in self.up]

        await self.until(agreed)
        return next(machine for machine in self.up if machine.running.core.leads)

    async def commit(self, *values: bytes) -> None:
        """Append at whoever leads, and wait until everybody who is up has it."""
        leader = await self.leader()
        try:
            offset = leader.running.propose(list(values), leader.running.core.epoch)
        except ApiError:
            await self.commit(*values)
            return
        await self.until(lambda: all(offset + len(values) - 1 in machine.committed for machine in self.up))


@asynccontextmanager
async def running(voters: int, observers: int = 0) -> AsyncIterator[Lab]:
    lab = Lab(voters, observers)
    for machine in lab.machines.values():
        machine.start()
    try:
        yield lab
    finally:
        for machine in lab.up:
            await machine.stop(clean=False)
    assert not any(machine.failures for machine in lab.machines.values())
