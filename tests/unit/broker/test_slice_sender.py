"""Slices of files leave through the socket in order, whole, and around a peer that reads slowly or not at all."""

from __future__ import annotations

import asyncio
import random
import socket
from pathlib import Path
from typing import Any

import pytest

from bifrost.broker.slice_sender import MIN_SLICE_BYTES, SliceSender, is_sendable
from bifrost.log.memory_disk import MemoryDisk
from bifrost.log.real_disk import RealDisk, RealFile
from bifrost.log.slices import LogSlice
from tests.unit.broker.stand_ins import on_loop, turns, until

CONTENT = random.Random(1).randbytes(3_000_000)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> RealFile:
    path: Path = tmp_path_factory.mktemp("slices") / "00000000000000000000.log"
    path.write_bytes(CONTENT)
    return RealDisk().open(str(path))


class Line:
    """A sender at one end of a real socket pair."""

    def __init__(self) -> None:
        ours, self.peer = socket.socketpair()
        ours.setblocking(False)
        self.peer.setblocking(False)
        self.ours = ours
        self.aborted = False
        self.drained = 0
        self.sender = SliceSender(asyncio.get_running_loop(), self, self._on_drained)  # type: ignore[arg-type]

    def get_extra_info(self, name: str) -> Any:
        return self.ours if name == "socket" else None

    def abort(self) -> None:
        self.aborted = True

    def _on_drained(self) -> None:
        self.drained += 1

    async def read(self, size: int) -> bytes:
        loop, got = asyncio.get_running_loop(), bytearray()
        while len(got) < size:
            got += await loop.sock_recv(self.peer, min(100_000, size - len(got)))
        return bytes(got)

    def close(self) -> None:
        self.sender.close()
        self.ours.close()
        self.peer.close()


@on_loop
async def test_what_the_socket_takes_leaves_at_once(file: RealFile) -> None:
    line = Line()
    line.sender.send([b"header", LogSlice(file, 1000, 40_000, 0), b"between", LogSlice(file, 5, 10, 0)])
    assert not line.sender.is_busy
    expected = b"header" + CONTENT[1000:41_000] + b"between" + CONTENT[5:15]
    assert await line.read(len(expected)) == expected
    assert line.drained == 0, "nobody was made to wait"
    line.close()


@on_loop
async def test_the_rest_follows_as_the_peer_reads(file: RealFile) -> None:
    line = Line()
    line.sender.send([b"<", LogSlice(file, 7, 2_900_000, 0), b">"])
    assert line.sender.is_busy
    line.sender.send([b"second answer"])
    expected = b"<" + CONTENT[7:2_900_007] + b">second answer"
    assert await line.read(len(expected)) == expected
    assert not line.sender.is_busy
    assert line.drained == 1
    line.close()


@on_loop
async def test_bytes_that_the_socket_takes_only_in_part_arrive_whole(file: RealFile) -> None:
    line = Line()
    line.sender.send([CONTENT, bytearray(CONTENT), memoryview(CONTENT)[:100], b"", LogSlice(file, 0, 100, 0)])
    assert line.sender.is_busy
    expected = CONTENT + CONTENT + CONTENT[:100] + CONTENT[:100]
    assert await line.read(len(expected)) == expected
    line.close()


@on_loop
async def test_a_full_socket_is_waited_for_and_not_asked_again_and_again(file: RealFile) -> None:
    line = Line()
    line.sender.send([LogSlice(file, 0, 3_000_000, 0)])
    await turns(20)
    assert line.sender.is_busy
    assert line.drained == 0
    line.close()


@on_loop
async def test_a_peer_that_is_gone_ends_the_connection(file: RealFile) -> None:
    line = Line()
    line.peer.close()
    line.sender.send([b"header", LogSlice(file, 0, 100_000, 0)])
    assert line.aborted
    assert not line.sender.is_busy
    line.close()


@on_loop
async def test_a_peer_that_goes_while_it_is_waited_for_ends_the_connection(file: RealFile) -> None:
    line = Line()
    line.sender.send([LogSlice(file, 0, 3_000_000, 0)])
    assert line.sender.is_busy
    line.peer.close()
    await until(lambda: line.aborted)
    assert not line.sender.is_busy
    assert line.drained == 0
    line.close()


@on_loop
async def test_a_file_that_ends_too_early_ends_the_connection(file: RealFile) -> None:
    line = Line()
    line.sender.send([b"header", LogSlice(file, len(CONTENT) - 10, 100, 0)])
    await until(lambda: line.aborted)
    line.close()


@on_loop
async def test_closing_drops_what_waits_and_lets_go_of_the_loop(file: RealFile) -> None:
    line = Line()
    line.sender.send([LogSlice(file, 0, 3_000_000, 0)])
    line.close()
    await turns(5)
    assert not line.sender.is_busy
    assert (line.aborted, line.drained) == (False, 0)


@on_loop
async def test_the_transport_may_be_closed_first(file: RealFile) -> None:
    """The sender has a descriptor of its own: it never writes into whatever got the transport's old number."""
    line = Line()
    line.sender.send([LogSlice(file, 0, 3_000_000, 0)])
    line.ours.close()
    other, other_peer = socket.socketpair()
    other_peer.setblocking(False)
    await line.read(1_000_000)
    with pytest.raises(BlockingIOError):
        other_peer.recv(1)
    other.close()
    other_peer.close()
    line.close()


def test_small_slices_and_files_without_descriptor_go_through_memory(file: RealFile) -> None:
    memory = MemoryDisk().open("/f", create=True)
    memory.write_at(CONTENT, 0)
    assert is_sendable(LogSlice(file, 0, MIN_SLICE_BYTES, 0))
    assert not is_sendable(LogSlice(file, 0, MIN_SLICE_BYTES - 1, 0))
    assert not is_sendable(LogSlice(memory, 0, MIN_SLICE_BYTES, 0))


class Cold:
    """A file whose pages from `first_cold` on are not in memory."""

    def __init__(self, first_cold: int) -> None:
        self.first_cold = first_cold

    def fileno(self) -> int:
        return 0

    def read_cached(self, size: int, position: int) -> bytes | None:
        return None if position + size > self.first_cold else bytes(size)


@pytest.mark.parametrize(("first_cold", "sendable"), [(0, False), (600_000, False), (999_999, False), (10**6, True)])
def test_a_slice_that_is_not_in_memory_is_not_sent_from_the_loop(first_cold: int, sendable: bool) -> None:
    assert is_sendable(LogSlice(Cold(first_cold), 0, 1_000_000, 0)) is sendable  # type: ignore[arg-type]
