"""The machine a run happens on: its facts for the record, its limits raised, its memory touched before it counts."""

from __future__ import annotations

import mmap
import os
import pathlib
import resource
import sys
import time

from bench.kafka_jars import KAFKA_VERSION

WARM_BYTES_MAX = 4 << 30
_MADV_POPULATE_WRITE = 23  # linux/mman.h; since 5.14, older kernels answer EINVAL
_CHUNK_BYTES = 64 << 20


def facts() -> dict[str, object]:
    cpuinfo = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(":")[2].strip() for line in cpuinfo if line.startswith("model name")), "unknown")
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "memory_gb": round(_meminfo_bytes("MemTotal") / 1e9, 1),
        "kernel": os.uname().release,
        "python": sys.version.split()[0],
        "kafka": KAFKA_VERSION,
        "load_average": os.getloadavg(),
    }


def raise_open_files() -> int:
    """Lifts the limit, which peers and clients inherit, as far as allowed."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def warm_memory(seconds_max: float) -> int:
    """Touches memory and gives it back, for at most so long.

    On a virtual machine the first write to a page is served by the host and costs several times more than any later
    one; whichever peer came first would pay for it. Returns the bytes touched.
    """
    wanted = min(WARM_BYTES_MAX, _meminfo_bytes("MemAvailable") // 2) // _CHUNK_BYTES * _CHUNK_BYTES
    end = time.monotonic() + seconds_max
    with mmap.mmap(-1, wanted) as region:
        for start in range(0, wanted, _CHUNK_BYTES):
            if time.monotonic() > end:
                return start
            try:
                region.madvise(_MADV_POPULATE_WRITE, start, _CHUNK_BYTES)
            except OSError:
                for page in range(start, start + _CHUNK_BYTES, mmap.PAGESIZE):
                    region[page] = 1
    return wanted


def _meminfo_bytes(name: str) -> int:
    for line in pathlib.Path("/proc/meminfo").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise LookupError(name)
