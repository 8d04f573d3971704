"""Frames are cut in place, and no peer makes the node allocate what it only announces."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bifrost.broker.receive import BufferPool, Receiver
from bifrost.errors import ProtocolError

MAX_FRAME = 8 * 1024 * 1024


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def make(pool: BufferPool | None = None) -> tuple[Receiver, BufferPool]:
    pool = pool or BufferPool(limit_bytes=1 << 30)
    return Receiver(pool, MAX_FRAME, evict=lambda: None), pool


def feed(receiver: Receiver, data: bytes) -> list[bytes]:
    """What the loop does: offer a buffer, fill it, let the frames be taken."""
    frames = []
    while data:
        buffer = receiver.get_buffer()
        taken = min(len(buffer), len(data))
        assert taken > 0
        buffer[:taken] = data[:taken]
        data = data[taken:]
        receiver.received(taken)
        while receiver.has_frame():
            frames.append(bytes(receiver.take_frame()))
        receiver.keep_rest()
    return frames


@given(
    bodies=st.lists(st.binary(min_size=8, max_size=600), max_size=20),
    cuts=st.lists(st.integers(1, 700), min_size=1, max_size=40),
)
def test_frames_come_out_as_they_went_in_however_the_stream_is_cut(bodies: list[bytes], cuts: list[int]) -> None:
    receiver, pool = make()
    stream = b"".join(map(frame, bodies))
    frames, position, index = [], 0, 0
    while position < len(stream):
        size = cuts[index % len(cuts)]
        frames += feed(receiver, stream[position : position + size])
        position, index = position + size, index + 1
    assert frames == bodies
    assert pool.in_use_bytes == 0


def test_a_frame_larger_than_every_buffer_arrives_whole() -> None:
    receiver, pool = make()
    body = bytes(range(256)) * 20_000
    assert feed(receiver, frame(body)) == [body]
    assert pool.in_use_bytes == 0


def test_two_connections_share_the_scratch_buffer_without_mixing() -> None:
    pool = BufferPool(limit_bytes=1 << 30)
    one, _ = make(pool)
    two, _ = make(pool)
    whole = frame(b"A" * 100)
    assert feed(one, whole[:50]) == []
    assert feed(two, frame(b"B" * 100)) == [b"B" * 100]
    assert feed(one, whole[50:]) == [b"A" * 100]


@pytest.mark.parametrize("size", [-1, 0, 7, MAX_FRAME + 1, 0x7FFFFFFF, -0x80000000])
def test_an_absurd_frame_size_is_refused(size: int) -> None:
    receiver, _ = make()
    with pytest.raises(ProtocolError):
        feed(receiver, struct.pack(">i", size) + b"x" * 8)


def test_an_announced_frame_costs_only_what_has_arrived() -> None:
    receiver, pool = make()
    feed(receiver, struct.pack(">i", MAX_FRAME) + b"x" * 1000)
    assert pool.in_use_bytes <= 1024 * 1024
    feed(receiver, b"x" * (2 * 1024 * 1024))
    assert pool.in_use_bytes <= 4 * 1024 * 1024


def test_buffers_are_reused() -> None:
    receiver, _ = make()
    body = b"z" * 500_000
    feed(receiver, frame(body)[:400_000])
    first = receiver.get_buffer().obj
    feed(receiver, frame(body)[400_000:])
    feed(receiver, frame(body)[:400_000])
    assert receiver.get_buffer().obj is first


class Crowd:
    """Connections that share a pool and note who had to go."""

    def __init__(self, limit_bytes: int) -> None:
        self.pool = BufferPool(limit_bytes)
        self.evicted: list[int] = []

    def join(self, number: int) -> Receiver:
        return Receiver(self.pool, MAX_FRAME, evict=lambda: self.evicted.append(number))


def test_past_the_bound_the_oldest_unfinished_frame_has_to_go() -> None:
    crowd = Crowd(limit_bytes=3 * 1024 * 1024)
    for number in range(4):
        feed(crowd.join(number), struct.pack(">i", MAX_FRAME) + b"x" * 1000)
    assert crowd.evicted == [0]
    assert crowd.pool.in_use_bytes <= 3 * 1024 * 1024


def test_as_many_have_to_go_as_it_takes() -> None:
    """Or many connections with little each would shield one that takes a lot."""
    crowd = Crowd(limit_bytes=8 * 1024 * 1024)
    for number in range(100):
        feed(crowd.join(number), frame(b"x" * 3000)[:100])
    greedy = crowd.join(100)
    feed(greedy, struct.pack(">i", MAX_FRAME) + b"x" * (7 * 1024 * 1024))
    assert crowd.evicted == list(range(100))
    assert crowd.pool.in_use_bytes <= 16 * 1024 * 1024, "one frame may pass the bound, alone"
    feed(crowd.join(101), frame(b"x" * 3000)[:100])
    assert crowd.evicted[100:] == [100]
    assert crowd.pool.in_use_bytes <= 8 * 1024 * 1024


def test_who_asks_for_more_is_not_the_one_to_go() -> None:
    crowd = Crowd(limit_bytes=2 * 1024 * 1024)
    first = crowd.join(0)
    feed(first, struct.pack(">i", MAX_FRAME) + b"x" * 1000)
    feed(crowd.join(1), struct.pack(">i", MAX_FRAME) + b"x" * 1000)
    feed(first, b"x" * (1024 * 1024))
    assert crowd.evicted == [1]
