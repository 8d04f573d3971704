"""Thousands of connections that were greeted once and then say nothing until standard input ends."""

from __future__ import annotations

import json
import socket
import struct
import sys
import time

from bench import wire
from bench.clients.job import Job, RefusedError, Result, connect

GROUP = 32  # connections greeted together: fewer than the 50 that Kafka lets wait (socket.listen.backlog.size)


def idle(job: Job) -> Result:
    started = time.perf_counter()
    held: list[socket.socket] = []
    hello = wire.api_versions()
    for first in range(0, job.connections, GROUP):
        group = [connect(job.port) for _ in range(min(GROUP, job.connections - first))]
        for sock in group:
            sock.sendall(hello)
        for sock in group:
            (length,) = struct.unpack(">i", sock.recv(4, socket.MSG_WAITALL))
            if len(sock.recv(length, socket.MSG_WAITALL)) != length:
                raise RefusedError("no greeting")
        held += group
    print(json.dumps({"connected": len(held), "seconds": time.perf_counter() - started}), flush=True)
    sys.stdin.read()
    alive = 0
    for sock in held:
        alive += _still_open(sock)
        # a reset, not a goodbye: ten thousand ports in TIME_WAIT would be missing in the next sample
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.close()
    return {"alive": alive}


def _still_open(sock: socket.socket) -> bool:
    sock.setblocking(False)
    try:
        return bool(sock.recv(1))
    except BlockingIOError:
        return True
    except OSError:
        return False
