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


def test_past_the_bound_the_oldest_unfinished_frame_has_to_go() -> None:
    pool = BufferPool(limit_bytes=3 * 1024 * 1024)
    evicted: list[int] = []
    receivers: list[Receiver] = []
    for number in range(4):
        receiver = Receiver(
            pool, MAX_FRAME, evict=lambda number=number: (evicted.append(number), receivers[number].release())
        )  # type: ignore[misc]
        receivers.append(receiver)
        feed(receiver, struct.pack(">i", MAX_FRAME) + b"x" * 1000)
    assert evicted == [0]
    assert pool.in_use_bytes <= 3 * 1024 * 1024
