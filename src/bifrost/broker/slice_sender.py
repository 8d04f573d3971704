"""Sends record data from file to socket inside the kernel: sendfile(2), around the transport.

The transport knows only bytes in memory. While it has nothing queued, the socket may be written to directly, so an
answer that carries slices of a log goes out here: the parts around the slices with send(2), the slices with
sendfile(2), and when the socket is full the rest follows as soon as it drains.

Must never: write while the transport has bytes of its own queued, or be given pages that are not in memory, for
sendfile(2) would wait for the disk and the loop with it.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque
from collections.abc import Callable, Iterable

from bifrost.log.slices import LogSlice
from bifrost.protocol.wire import Buffer

MIN_SLICE_BYTES = 32 * 1024
"""Smaller slices are cheaper to copy than to send by a system call of their own."""

_PROBE_BYTES = 256 * 1024
_TURN_BYTES = 1024 * 1024
"""What one connection may send before the others get a turn: a few hundred microseconds of the loop's time."""
_MORE = getattr(socket, "MSG_MORE", 0)  # Linux only: hold a short piece back until the next one comes


def is_sendable(piece: LogSlice) -> bool:
    """Whether the slice is worth it, in a real file, and in memory as far as a few probes can tell."""
    if piece.size < MIN_SLICE_BYTES or piece.file.fileno() is None:
        return False
    last = piece.position + piece.size - 1
    probes = (*range(piece.position, last, _PROBE_BYTES), last)
    return all(piece.file.read_cached(1, position) is not None for position in probes)


class SliceSender:
    """The direct way out of one connection."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, transport: asyncio.Transport, on_drained: Callable[[], None]
    ) -> None:
        own = transport.get_extra_info("socket")
        # A descriptor of our own: the transport's may be closed, and its number reused, while we wait to write.
        self._socket = socket.socket(fileno=os.dup(own.fileno()))
        self._loop = loop
        self._transport = transport
        self._on_drained = on_drained
        self._queue: deque[Buffer | LogSlice] = deque()
        self._waiting = False

    @property
    def is_busy(self) -> bool:
        """Whether something waits here; then everything that follows must wait here too."""
        return bool(self._queue)

    def send(self, pieces: Iterable[Buffer | LogSlice]) -> None:
        """Queue the pieces and send what the socket takes."""
        self._queue.extend(pieces)
        if not self._waiting:
            self._pump()

    def close(self) -> None:
        self._queue.clear()
        self._stop_waiting()
        self._socket.close()

    def _pump(self) -> None:
        """Send until the socket is full, the turn is over or nothing is left."""
        queue, turn_bytes = self._queue, 0
        try:
            while queue and turn_bytes < _TURN_BYTES:
                piece = queue[0]
                turn_bytes += piece.size if isinstance(piece, LogSlice) else len(piece)
                rest = self._send_slice(piece) if isinstance(piece, LogSlice) else self._send_bytes(piece)
                if rest is not None:
                    queue[0] = rest
                    break  # the socket is full, or the turn is over
                queue.popleft()
            if queue:
                self._wait()
        except BlockingIOError:
            self._wait()
        except OSError:
            self._queue.clear()
            self._stop_waiting()
            self._transport.abort()

    def _send_bytes(self, data: Buffer) -> Buffer | None:
        """What is left of the data, if anything."""
        more = _MORE if len(self._queue) > 1 else 0
        sent = self._socket.send(data, more)
        return memoryview(data)[sent:] if sent < len(data) else None

    def _send_slice(self, piece: LogSlice) -> LogSlice | None:
        """What is left of the slice, if anything."""
        source = piece.file.fileno()
        assert source is not None, "only real files are sent this way"
        sent = os.sendfile(self._socket.fileno(), source, piece.position, min(piece.size, _TURN_BYTES))
        if sent == 0:
            raise OSError(f"{piece.file.path} ends before its slice does")
        if sent == piece.size:
            return None
        return piece._replace(position=piece.position + sent, size=piece.size - sent)

    def _on_writable(self) -> None:
        self._pump()
        if not self._queue and self._waiting:
            self._stop_waiting()
            self._on_drained()

    def _wait(self) -> None:
        if not self._waiting:
            self._waiting = True
            self._loop.add_writer(self._socket.fileno(), self._on_writable)

    def _stop_waiting(self) -> None:
        if self._waiting:
            self._waiting = False
            self._loop.remove_writer(self._socket.fileno())
