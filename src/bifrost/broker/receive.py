"""Cuts length-prefixed frames out of a byte stream, in place. Part of hot path 1/9.

Every connection of a node reads into one shared scratch buffer, because a read and the handling of what it
brought are one synchronous step of the loop: an idle connection costs no buffer, and the memory that frames
arrive in is always warm. Only a frame that has not fully arrived moves to a buffer of its connection's own.

Must never: allocate what a peer merely announces. A buffer grows with the bytes that really came.
"""

from __future__ import annotations

from collections.abc import Callable
from mmap import mmap
from struct import Struct

from bifrost.errors import ProtocolError

_SIZE = Struct(">i")
_SCRATCH_BYTES = 256 * 1024
_SMALLEST_BYTES = 4096
_MAPPED_BYTES = 64 * 1024
# Up to here a frame's buffer is allocated whole; beyond it doubles with what has arrived.
_TRUSTED_BYTES = 1024 * 1024


class BufferPool:
    """Buffers for frames that are still arriving, reused while warm, bounded in total.

    When the total passes its bound, the connections that have held a buffer longest have to go, until the total fits:
    they are either stuck or hostile, and waiting for them could block everybody who would finish.
    """

    def __init__(self, limit_bytes: int, keep_bytes: int = 32 * 1024 * 1024) -> None:
        self.scratch = memoryview(bytearray(_SCRATCH_BYTES))
        self.in_use_bytes = 0
        self._limit_bytes = limit_bytes
        self._keep_bytes = keep_bytes
        self._kept_bytes = 0
        self._free: dict[int, list[memoryview]] = {}
        self._holders: dict[Receiver, None] = {}  # who has held a buffer longest comes first

    def take(self, receiver: Receiver, size: int) -> memoryview:
        capacity = max(_SMALLEST_BYTES, 1 << (size - 1).bit_length())
        self._holders.setdefault(receiver, None)
        self.in_use_bytes += capacity
        if self.in_use_bytes > self._limit_bytes:
            self._make_room(receiver)
        free = self._free.get(capacity)
        if free:
            self._kept_bytes -= capacity
            return free.pop()
        # Fresh pages cost nothing before bytes arrive in them; a bytearray would be filled with zeros at once.
        return memoryview(mmap(-1, capacity) if capacity >= _MAPPED_BYTES else bytearray(capacity))

    def give_back(self, receiver: Receiver, buffer: memoryview, *, last: bool) -> None:
        if last:
            self._holders.pop(receiver, None)
        self.in_use_bytes -= len(buffer)
        if self._kept_bytes + len(buffer) <= self._keep_bytes:
            self._kept_bytes += len(buffer)
            self._free.setdefault(len(buffer), []).append(buffer)

    def _make_room(self, asking: Receiver) -> None:
        """Buffers are only asked for when bytes arrive, so no other connection is at work on a frame of its own."""
        for holder in [one for one in self._holders if one is not asking]:
            holder.release()  # now: the connection itself ends only in a later turn of the loop
            holder.evict()
            if self.in_use_bytes <= self._limit_bytes:
                return


class Receiver:
    """The receiving end of one connection."""

    __slots__ = ("_end", "_max_frame_bytes", "_own", "_pool", "_start", "_view", "_wanted", "evict")

    def __init__(self, pool: BufferPool, max_frame_bytes: int, evict: Callable[[], None]) -> None:
        self._pool = pool
        self._max_frame_bytes = max_frame_bytes
        self.evict = evict
        self._own: memoryview | None = None
        self._view = pool.scratch
        self._start = 0
        self._end = 0
        self._wanted = 0  # bytes from _start that the frame under way needs

    def get_buffer(self) -> memoryview:
        """Where the next bytes of the stream go."""
        if self._own is None:
            return self._view
        end = min(self._start + self._wanted, len(self._own))
        if self._end == end:  # the buffer was smaller than the frame: everything promised so far did come
            self._grow()
            end = min(self._start + self._wanted, len(self._own))
        return self._own[self._end : end]

    def received(self, size: int) -> None:
        self._end += size

    def peek_api_key(self) -> int:
        """The api key of the next frame, which `has_frame` said is there."""
        view, at = self._view, self._start + 4
        return (view[at] << 8) | view[at + 1]

    def has_frame(self) -> bool:
        available = self._end - self._start
        if available < 4:
            self._wanted = 4
            return False
        (size,) = _SIZE.unpack_from(self._view, self._start)
        if not 8 <= size <= self._max_frame_bytes:
            raise ProtocolError(f"frame of {size} bytes (allowed: 8 to {self._max_frame_bytes})")
        self._wanted = size + 4
        return bool(available >= self._wanted)

    def take_frame(self) -> memoryview:
        """The frame that `has_frame` said is there. It is valid until control returns to the loop."""
        start = self._start
        self._start = end = start + self._wanted
        return self._view[start + 4 : end]

    def keep_rest(self) -> None:
        """Call before control returns to the loop: the scratch buffer belongs to the next connection then."""
        rest = self._end - self._start
        if rest == 0:
            self.release()
        elif self._own is None:
            wanted = max(self._wanted, rest)
            own = self._pool.take(self, max(rest, min(wanted, _TRUSTED_BYTES)))
            own[:rest] = self._view[self._start : self._end]
            self._own = self._view = own
            self._start, self._end = 0, rest

    def release(self) -> None:
        """Nothing of the stream is left: back to the scratch buffer."""
        if self._own is not None:
            self._pool.give_back(self, self._own, last=True)
            self._own = None
            self._view = self._pool.scratch
        self._start = self._end = 0

    def _grow(self) -> None:
        old = self._own
        assert old is not None
        rest = self._end - self._start
        size = self._wanted if self._wanted <= _TRUSTED_BYTES else min(self._wanted, max(2 * rest, _TRUSTED_BYTES))
        new = self._pool.take(self, size)
        new[:rest] = old[self._start : self._end]
        self._pool.give_back(self, old, last=False)
        self._own = self._view = new
        self._start, self._end = 0, rest
