"""A server that reads requests and answers them from ready-made bytes, doing nothing else.

Not a broker: it exists to show how fast the raw client itself can go, which is the highest figure any peer can reach
here. `python -m bench.nullsink PORT`.
"""

from __future__ import annotations

import select
import socket
import struct
import sys

from bench import wire

BUFFER_BYTES = 1 << 20
FETCHED_BYTES = 8 << 20
NAME = "bench00000"  # topics of a run have names of this length, so answers have this shape

# length, api key, version, correlation id, client id, tags, null transactional id; then acks
_ACKS_POSITION = 4 + 2 + 2 + 4 + 2 + len(wire.CLIENT_ID) + 1 + 1
_HEAD_BYTES = _ACKS_POSITION + 2


class Connection:
    """Counts its way from frame to frame without keeping them."""

    __slots__ = ("_answer", "_answers", "_carry", "_skip", "sock")

    def __init__(self, sock: socket.socket, answers: dict[int, bytes]) -> None:
        self.sock = sock
        self._answers = answers
        self._carry = b""  # the start of a frame that arrived without the rest of its head
        self._skip = 0
        self._answer = b""

    def serve(self, buffer: memoryview) -> bool:
        """Reads once and answers every request that ended; False when the peer has gone."""
        kept = len(self._carry)
        buffer[:kept] = self._carry
        received = self.sock.recv_into(buffer[kept:])
        if not received:
            return False
        end, position, out = kept + received, 0, []
        self._carry = b""
        while position < end:
            if self._skip:
                step = min(self._skip, end - position)
                position += step
                self._skip -= step
                if not self._skip:
                    out.append(self._answer)
            elif end - position < _HEAD_BYTES:
                self._carry = bytes(buffer[position:end])
                break
            else:
                length, api_key = struct.unpack_from(">ih", buffer, position)
                unanswered = api_key == wire.PRODUCE and not any(
                    buffer[position + _ACKS_POSITION : position + _HEAD_BYTES]
                )
                self._answer = b"" if unanswered else self._answers[api_key]
                self._skip = length + wire.LENGTH_BYTES
        if answer := b"".join(out):
            self.sock.sendall(answer)
        return True


def main() -> None:
    answers = {wire.PRODUCE: wire.produce_answer(NAME, [0]), wire.FETCH: wire.fetch_answer(NAME, bytes(FETCHED_BYTES))}
    buffer = memoryview(bytearray(BUFFER_BYTES))
    connections: dict[int, Connection] = {}
    with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as server, select.epoll() as poll:
        poll.register(server.fileno(), select.EPOLLIN)
        while True:
            for number, _ in poll.poll():
                if number == server.fileno():
                    sock, _address = server.accept()
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    connections[sock.fileno()] = Connection(sock, answers)
                    poll.register(sock.fileno(), select.EPOLLIN)
                elif not _serve(connections[number], buffer):
                    connections.pop(number).sock.close()


def _serve(connection: Connection, buffer: memoryview) -> bool:
    try:
        return connection.serve(buffer)
    except ConnectionError:
        return False


if __name__ == "__main__":
    main()
