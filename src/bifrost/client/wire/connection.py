"""One connection to one broker: frames out, frames in, answers in the order of the requests.

A connection has one owner at a time, who may send several requests before it takes the first answer. Whatever goes
wrong closes it: an answer that nobody waited for must never be taken for another. It belongs to the process that
opened it; after a fork the child finds it lost and touches nothing but its own copy of the descriptor.
"""

from __future__ import annotations

import os
import socket
import ssl
import struct
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

from bifrost.client.errors import InvalidRequestError, TimedOutError, UnreachableError, UnsupportedError
from bifrost.client.wire.patience import Deadline
from bifrost.errors import ProtocolError
from bifrost.protocol.apis import ApiKey
from bifrost.protocol.codec import reader, writer
from bifrost.protocol.frame import encode_request, has_flexible_response_header, read_response_header
from bifrost.protocol.schema import Message
from bifrost.protocol.wire import Buffer

_LENGTH: Final = struct.Struct(">i")
_PIECES_MAX: Final = 512
"""At most this many buffers for one system call; Linux takes 1024."""

Answer = TypeVar("Answer", bound=Message)


class Address(NamedTuple):
    """Where somebody listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Expected(NamedTuple):
    """What is known of an answer before it comes."""

    correlation_id: int
    api_key: int
    version: int


class Frame(NamedTuple):
    """An answer: its bytes, where its body starts in them, and the version it is in."""

    data: memoryview
    body: int
    version: int


class Connection:
    """A socket with what was agreed on over it. `handshake.connect` makes one that is ready for use."""

    def __init__(self, sock: socket.socket, address: Address, *, client_id: str, receive_bytes_max: int) -> None:
        self.address = address
        self.client_id = client_id
        self.versions: dict[int, tuple[int, int]] = {}
        """Lowest and highest version of each API that the broker knows."""
        self.idle_since = 0.0
        self._socket: socket.socket | None = sock
        self._receive_bytes_max = receive_bytes_max
        self._expected: deque[Expected] = deque()
        self._correlation_id = 0
        self._process = os.getpid()

    @property
    def closed(self) -> bool:
        return self._socket is None or self._process != os.getpid()

    @property
    def unanswered(self) -> int:
        """How many answers are still to come."""
        return len(self._expected)

    def fileno(self) -> int:
        """For selectors."""
        return -1 if self._socket is None else self._socket.fileno()

    def has_decrypted(self) -> bool:
        """Whether bytes wait where no selector sees them: in the TLS layer."""
        return isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0

    def version(self, api_key: int, ours: range, *, below: int | None = None) -> int:
        """The highest version that both sides know."""
        low, high = self.versions.get(api_key, (0, -1))
        found = min(high, ours[-1] if below is None else below - 1)
        if found < max(low, ours[0]):
            raise UnsupportedError(
                f"{self.address} does not know {ApiKey(api_key).name} in a version that this client speaks",
                "It may be older than Kafka 0.11, or not for clients: check the address.",
            )
        return found

    def ask(self, request: Message, kind: type[Answer], deadline: Deadline, *, version: int | None = None) -> Answer:
        """The answer to one request, when no others are under way."""
        if version is None:
            version = self.version(request.api, request.versions)
        self.send_message(request, version, deadline)
        return self.receive_message(kind, deadline)

    def send_message(self, request: Message, version: int, deadline: Deadline) -> None:
        expected = self.expect(request.api, version)
        body = writer(type(request), version)(request)
        self.send([encode_request(*self._header(expected), body)], expected, deadline)

    def receive_message(self, kind: type[Answer], deadline: Deadline) -> Answer:
        frame = self.receive(deadline)
        try:
            return reader(kind, frame.version)(frame.data, frame.body)[0]
        except ProtocolError as error:
            raise self._nonsense(str(error)) from error

    def expect(self, api_key: int, version: int) -> Expected:
        """A correlation id for the next request."""
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        return Expected(self._correlation_id, api_key, version)

    def send(self, pieces: Sequence[Buffer], expected: Expected, deadline: Deadline) -> None:
        """A whole frame, given in pieces that are not copied. Its answer is expected after those of earlier ones."""
        sock = self._open_socket()
        try:
            sock.settimeout(max(deadline.remaining_s(), 0.001))
            if isinstance(sock, ssl.SSLSocket):
                sock.sendall(b"".join(pieces))
            else:
                _send_pieces(sock, pieces)
        except OSError as error:
            raise self._broken(error, deadline, "take a request") from error
        except BaseException:
            self.close()  # half a frame may be out
            raise
        self._expected.append(expected)

    def receive(self, deadline: Deadline, take: Callable[[int], bytearray] = bytearray) -> Frame:
        """The next answer, in a buffer of at least its size that `take` finds; nothing is copied after that."""
        sock = self._open_socket()
        assert self._expected, "an answer is awaited that nobody asked for"
        expected = self._expected[0]
        try:
            sock.settimeout(max(deadline.remaining_s(), 0.001))
            head = memoryview(bytearray(_LENGTH.size))
            _receive_into(sock, head, deadline)
            (length,) = _LENGTH.unpack(head)
            self._check_length(length)
            data = memoryview(take(length))[:length]
            _receive_into(sock, data, deadline)
        except OSError as error:
            raise self._broken(error, deadline, f"answer {ApiKey(expected.api_key).name}") from error
        except BaseException:
            self.close()  # an interrupt: half an answer may be out of the socket
            raise
        try:
            flexible = has_flexible_response_header(expected.api_key, expected.version)
            correlation_id, body = read_response_header(data, 0, flexible)
        except ProtocolError as error:
            raise self._nonsense(str(error)) from error
        if correlation_id != expected.correlation_id:
            raise self._nonsense(f"answer {correlation_id} instead of {expected.correlation_id}")
        self._expected.popleft()
        return Frame(data, body, expected.version)

    def close(self) -> None:
        """Safe to call twice, and in a process that did not open the connection."""
        sock, self._socket = self._socket, None
        self._expected.clear()
        if sock is not None:
            sock.close()

    def __del__(self) -> None:
        self.close()

    def _header(self, expected: Expected) -> tuple[int, int, int, str]:
        return expected.api_key, expected.version, expected.correlation_id, self.client_id

    def _open_socket(self) -> socket.socket:
        if self._process != os.getpid():
            self.close()
        if self._socket is None:
            raise UnreachableError(f"the connection to {self.address} is closed", "Connect anew.")
        return self._socket

    def _check_length(self, length: int) -> None:
        if 4 <= length <= self._receive_bytes_max:
            return
        if length == 0x15030000 or length >> 8 == 0x150303:
            raise self._nonsense("it answered in TLS; set security.protocol to SSL or SASL_SSL")
        if length > 0 and self.versions:
            self.close()
            raise InvalidRequestError(
                f"an answer of {self.address} has {length} bytes, {self._receive_bytes_max} are allowed",
                "Raise receive.message.max.bytes, or ask for less at a time.",
            )
        raise self._nonsense(f"an answer of {length} bytes")

    def _broken(self, error: OSError, deadline: Deadline, what: str) -> UnreachableError | TimedOutError:
        self.close()
        if isinstance(error, TimeoutError):
            return TimedOutError(
                f"{self.address} did not {what} within {deadline.seconds:.3g} s",
                "Is it running and reachable? If it is only slow, raise request.timeout.ms.",
            )
        return UnreachableError(
            f"the connection to {self.address} broke: {error.strerror or error}",
            "Is it running? If it hangs up at once, check security.protocol.",
        )

    def _nonsense(self, problem: str) -> UnreachableError:
        self.close()
        return UnreachableError(
            f"what answers at {self.address} does not speak Kafka's protocol: {problem}",
            "Check the address, and security.protocol.",
        )


def _send_pieces(sock: socket.socket, pieces: Sequence[Buffer]) -> None:
    views = deque(memoryview(piece).cast("B") for piece in pieces if len(piece))
    while views:
        sent = sock.sendmsg([views[index] for index in range(min(len(views), _PIECES_MAX))])
        while sent and sent >= len(views[0]):
            sent -= len(views.popleft())
        if sent:
            views[0] = views[0][sent:]


def _receive_into(sock: socket.socket, target: memoryview, deadline: Deadline) -> None:
    position, size = 0, len(target)
    while position < size:
        received = sock.recv_into(target[position:])
        if not received:
            raise ConnectionResetError(0, "the broker hung up")
        position += received
        if position < size and deadline.passed:
            raise TimeoutError
