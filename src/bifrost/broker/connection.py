"""One client connection. Hot path 1/9.

Frames are handled the moment they arrive, in the buffer that they arrived in. Answers leave in the order of their
requests. Those that write may follow each other before the first is answered, so that one fsync serves many of them,
and so may a follower's fetches; any other request waits its turn, as it would with Kafka, which mutes a connection
while it works on a request.

Must never: buffer without bound. A peer that does not read its answers is not read from either, nor is one whose
requests wait for other nodes (`hold`), nor one that has used more than it may (`mute`).
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol, cast

from bifrost.broker.receive import BufferPool, Receiver
from bifrost.broker.slice_sender import SliceSender
from bifrost.errors import ProtocolError
from bifrost.log.slices import LogSlice
from bifrost.metrics import Metrics
from bifrost.protocol.apis import ApiKey
from bifrost.protocol.wire import Buffer

Buffers = Sequence[Buffer | LogSlice]
"""One answer, whole, in pieces that need not be joined; some of them may still be in a file."""

WRITES = frozenset({ApiKey.PRODUCE, ApiKey.OFFSET_COMMIT})
"""Their handlers have done all that the order matters for when they return, so they may follow each other."""
ANONYMOUS = "ANONYMOUS"
"""The user of a connection that nobody has authenticated, under Kafka's name."""
FETCHES = frozenset({ApiKey.FETCH})
"""A follower's next fetch may come before the last is answered, and makes that happen."""
NOTHING: frozenset[ApiKey] = frozenset()


class Reply:
    """A place in a connection's queue of answers; `buffers` is None until the answer exists."""

    __slots__ = ("_connection", "buffers", "cancel", "followed_by")

    def __init__(self, connection: Connection, *, followed_by: frozenset[ApiKey] = NOTHING) -> None:
        self._connection = connection
        self.followed_by = followed_by
        """Which requests need not wait for this answer."""
        self.buffers: Buffers | None = None
        self.cancel: Callable[[], object] | None = None

    def send(self, buffers: Buffers) -> None:
        """The answer is ready; it leaves as soon as those before it have."""
        if self.buffers is None:
            self.buffers = buffers
            self._connection.flush_replies()

    def fail(self, error: BaseException) -> None:
        """There is no answer: the connection is closed."""
        self._connection.fail(error)


class Dispatcher(Protocol):
    """What stands behind a connection. See broker.registry."""

    def dispatch(self, connection: Connection, frame: memoryview) -> Buffers | Reply | None:
        """Start one request: its answer, a Reply that will be completed later, or None when no answer is owed."""
        ...


class Connection(asyncio.BufferedProtocol):
    """Bytes in, requests to the dispatcher, answers out."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        pool: BufferPool,
        metrics: Metrics,
        *,
        listener: str,
        max_frame_bytes: int,
        max_pipelined: int,
        max_unsent_bytes: int,
        on_open: Callable[[Connection], bool],
        on_close: Callable[[Connection, str | None], None],
    ) -> None:
        self.listener = listener
        self.peer = self.address = ""
        self.user = ANONYMOUS
        self.opened_at = self.last_active = 0.0
        self.is_lost = False
        self.when_lost: dict[str, Callable[[], None]] = {}
        """Called when the connection has ended, for whoever takes that for a sign; one for each purpose."""
        self._dispatcher = dispatcher
        self._metrics = metrics
        self._receiver = Receiver(pool, max_frame_bytes, self.abort)
        self._max_pipelined = max_pipelined
        self._max_unsent_bytes = max_unsent_bytes
        self._on_open = on_open
        self._on_close = on_close
        self._replies: deque[Reply] = deque()
        self._out: list[Buffer | LogSlice] = []
        self._sender: SliceSender | None = None
        self._corked = False
        self._flush_is_due = False
        self._write_paused = False
        self._read_paused = False
        self._held: set[str] = set()
        self._muted: asyncio.TimerHandle | None = None
        self._closing = False
        self._error: str | None = None
        self._may_send_slices = True

    # What the loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._loop = asyncio.get_running_loop()
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(high=self._max_unsent_bytes, low=self._max_unsent_bytes // 4)
        peer = transport.get_extra_info("peername")
        self.peer = f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else str(peer)
        self.address = peer[0].removeprefix("::ffff:") if isinstance(peer, tuple) else self.peer
        self.opened_at = self.last_active = self._loop.time()
        if not self._on_open(self):
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # asyncio calls it so
        self._closing = self.is_lost = True
        for reply in self._replies:
            if reply.cancel is not None:
                reply.cancel()
        self._replies.clear()
        if self._muted is not None:
            self._muted.cancel()
        self._receiver.release()
        if self._sender is not None:
            self._sender.close()
        self._on_close(self, self._error)
        for tell in self.when_lost.values():
            tell()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002  # asyncio calls it so
        return self._receiver.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self._metrics.bytes_in += nbytes
        self.last_active = self._loop.time()
        self._receiver.received(nbytes)
        self._process()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._write_paused = True

    def resume_writing(self) -> None:
        self._write_paused = False
        if self._closing:
            self._close_when_sent()
        elif not self._corked:
            self._process()

    def can_send_slices(self) -> bool:
        """Whether an answer may contain slices of files: a plain socket, and a kernel with sendfile(2)."""
        if self._sender is None and self._may_send_slices:
            self._may_send_slices = False
            if hasattr(os, "sendfile") and self.transport.get_extra_info("socket") is not None:
                self._sender = SliceSender(self._loop, self.transport, self.resume_writing)
        return self._sender is not None

    # What the rest of the node calls.

    def flush_replies(self) -> None:
        """Send the answers that are ready, in request order, and go on with requests that waited for them.

        What made one of several safe mostly made the others safe, and they are told in the same turn of the loop. A
        write costs more than all else about a small answer, so it waits for them.
        """
        replies = self._replies
        out = self._out
        while replies and replies[0].buffers is not None:
            out.extend(replies.popleft().buffers)  # type: ignore[arg-type]  # the line above looked
        if self._corked:
            return
        if not replies:
            self._process()
        elif out and not self._flush_is_due:
            self._flush_is_due = True
            self._loop.call_soon(self._flush_late)

    def hold(self, reason: str) -> None:
        """Start no more requests of this peer until `release` is told the same: what it has sent is more than others
        take, or has to be through before what comes next."""
        self._held.add(reason)

    def release(self, reason: str) -> None:
        """Go on with what waited, unless there is another reason to wait."""
        if reason in self._held:
            self._held.remove(reason)
            if not self._held and not self._closing and not self._corked:
                self._process()

    def mute(self, wait_ms: int) -> None:
        """Start no more requests of this peer for so long, and send what is answered all the same (KIP-219)."""
        until = self._loop.time() + wait_ms / 1000
        if self._muted is not None:
            until = max(until, self._muted.when())
            self._muted.cancel()
        self._muted = self._loop.call_at(until, self._unmute)

    def _unmute(self) -> None:
        self._muted = None
        if not self._closing and not self._corked:
            self._process()

    def fail(self, error: BaseException) -> None:
        """Close because of what this peer sent."""
        if not self._closing:
            self._error = f"{type(error).__name__}: {error}"
            self.close()

    def close(self) -> None:
        """Take no more requests, and close when what is already answered has been sent."""
        if not self._closing:
            self._closing = True
            self._send()
            self._close_when_sent()

    def abort(self) -> None:
        """Close at once, without sending what is queued."""
        self._closing = True
        self.transport.abort()

    # Inside.

    def _flush_late(self) -> None:
        self._flush_is_due = False
        if self._out and not self._closing:
            self._process()

    def _process(self) -> None:
        """Handle every frame that is there and may start now, then send what is ready."""
        self._corked = True
        try:
            self._start_frames()
        except ProtocolError as error:
            self._metrics.protocol_errors += 1
            self.fail(error)
        finally:
            self._corked = False
        self._send()
        self._receiver.keep_rest()
        self._pause_or_resume_reading()

    def _start_frames(self) -> None:
        receiver, dispatch = self._receiver, self._dispatcher.dispatch
        while not (self._closing or self._write_paused or self._held or self._muted) and receiver.has_frame():
            if self._replies and not self._may_pipeline(receiver.peek_api_key()):
                return
            answer = dispatch(self, receiver.take_frame())
            if answer is None:
                continue
            if isinstance(answer, Reply):
                if answer.buffers is None or self._replies:
                    self._replies.append(answer)
                    continue
                answer = answer.buffers
            if self._replies:
                done = Reply(self, followed_by=self._replies[-1].followed_by)
                done.buffers = answer
                self._replies.append(done)
            else:
                self._out.extend(answer)
                if len(answer) > 1:  # small answers of one piece share a write; larger ones must not pile up
                    self._send()

    def _may_pipeline(self, api_key: int) -> bool:
        return api_key in self._replies[-1].followed_by and len(self._replies) < self._max_pipelined

    def _send(self) -> None:
        out = self._out
        if not out or self.transport.is_closing():
            return
        self._out = []
        self._metrics.bytes_out += sum(piece.size if isinstance(piece, LogSlice) else len(piece) for piece in out)
        if self._sender is not None and (self._sender.is_busy or any(isinstance(piece, LogSlice) for piece in out)):
            self._send_slices(self._sender, out)
        elif len(out) == 1:
            self.transport.write(cast("Buffer", out[0]))
        else:
            self.transport.writelines(cast("list[Buffer]", out))

    def _send_slices(self, sender: SliceSender, out: list[Buffer | LogSlice]) -> None:
        """Around the transport if it is idle, else through it, in memory: order comes first."""
        if sender.is_busy or self.transport.get_write_buffer_size() == 0:
            sender.send(out)
            self._write_paused = sender.is_busy
            return
        for piece in out:
            self.transport.write(
                piece.file.read_at(piece.size, piece.position) if isinstance(piece, LogSlice) else piece
            )

    def _close_when_sent(self) -> None:
        """The transport waits for its own queue, but knows nothing of the sender's."""
        if self._sender is None or not self._sender.is_busy:
            self.transport.close()

    def _pause_or_resume_reading(self) -> None:
        """Read on unless whole requests already wait: the kernel's buffer is the queue, and it has a bound."""
        if self._closing:
            return
        stuck = (
            self._write_paused
            or self._held
            or self._muted
            or len(self._replies) >= self._max_pipelined
            or self._waiting()
        )
        if stuck and not self._read_paused:
            self._read_paused = True
            self.transport.pause_reading()
        elif not stuck and self._read_paused:
            self._read_paused = False
            self.transport.resume_reading()

    def _waiting(self) -> bool:
        return bool(self._replies) and self._receiver.has_frame()
