"""One Apache Kafka for all test workers of a run: whoever comes first starts it, it ends with the last of them.

Each worker holds the same named pipe open; the keeper process waits for the pipe's end of file, which the kernel
delivers even when workers crash. So no JVM outlives its run and nobody counts references. A lock file makes joining
and ending exclusive: under it the keeper looks once more for a late worker before it gives up the node.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.compat import cache, oracle

_ROOT = Path(__file__).resolve().parents[2]


@dataclass(slots=True)
class Lease:
    """A worker's share in the common node; the node lives at least as long as the lease."""

    port: int
    log_dirs: Path
    pipe: int

    def release(self) -> None:
        os.close(self.pipe)


def join(shared: Path, settings: dict[str, str]) -> Lease:
    """The run's node, started if this worker is the first; `shared` is a folder all workers of the run know."""
    oracle.jars()
    shared.mkdir(parents=True, exist_ok=True)
    pipe, state = shared / "workers.pipe", shared / "state.json"
    with cache.locked(shared / "lock"):
        if not pipe.exists():
            os.mkfifo(pipe)
        # Read-write never blocks and counts as a writer, which is what the keeper waits for.
        held = os.open(pipe, os.O_RDWR)
        if not state.exists():
            _start(shared, settings)
        found = json.loads(state.read_text())
    return Lease(port=found["port"], log_dirs=Path(found["log_dirs"]), pipe=held)


def _start(shared: Path, settings: dict[str, str]) -> None:
    keeper = subprocess.Popen(
        [sys.executable, "-m", "tests.compat.keeper", str(shared), json.dumps(settings)],
        cwd=_ROOT,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert keeper.stdout is not None
    with keeper.stdout as lines:
        said = lines.readline().strip()
    if said != "ready":
        raise oracle.StartFailedError(said or "the keeper of Apache Kafka died")
    # Nobody waits for the keeper: it outlives this worker if another one needs it.
    keeper.returncode = 0


def main(shared: Path, settings: dict[str, str]) -> None:
    state = shared / "state.json"
    workers = os.open(shared / "workers.pipe", os.O_RDONLY | os.O_NONBLOCK)
    node = oracle.KafkaNode(shared / "node", advertised_port=None, **settings)
    try:
        node.start()
        state.write_text(json.dumps({"port": node.port, "log_dirs": str(node.log_dirs)}))
        print("ready", flush=True)
        while True:
            _wait_for_end(workers)
            with cache.locked(shared / "lock"):
                if _ended(workers, timeout_ms=0):
                    state.unlink()
                    return
    finally:
        node.stop()


def _ended(pipe: int, timeout_ms: int | None) -> bool:
    poller = select.poll()
    poller.register(pipe, select.POLLIN)
    return any(event & select.POLLHUP for _, event in poller.poll(timeout_ms))


def _wait_for_end(pipe: int) -> None:
    while not _ended(pipe, timeout_ms=None):
        os.read(pipe, 1024)


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
