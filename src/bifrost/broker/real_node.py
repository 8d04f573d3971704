"""A node on this machine: its disk, its clock, its network."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import Executor

from bifrost.broker.node import Node
from bifrost.clock import SystemClock
from bifrost.log.disk import Disk
from bifrost.log.memory_disk import MemoryDisk
from bifrost.log.real_disk import RealDisk
from bifrost.peers.transport import TcpTransport
from bifrost.settings import Settings


def real_node(
    settings: Settings,
    *,
    worker_pool: Callable[[], Executor] | None = None,
    cleaner_pool: Callable[[], Executor] | None = None,
) -> Node:
    """Flush policy `memory` has no disk at all.

    Long recoveries, and looks into batches, go to `worker_pool`, and compaction to pools of one worker each, if they
    can be made: only a process that may be started again as a worker, which somebody's test run is not, can offer
    that. Without them all take a thread.
    """
    disk: Disk = MemoryDisk() if settings.flush_policy == "memory" else RealDisk()
    return Node(
        settings,
        disk=disk,
        clock=SystemClock(),
        rng=random.Random(),
        transport=TcpTransport(
            send_buffer_bytes=settings.socket_send_buffer_bytes,
            receive_buffer_bytes=settings.socket_receive_buffer_bytes,
        ),
        worker_pool=worker_pool,
        cleaner_pool=None if settings.flush_policy == "memory" else cleaner_pool,
    )
