"""A client that is no bottleneck: frames encoded beforehand, plain sockets, answers counted and not decoded.

Run as a process of its own (`python -m bench.rawclient JOB`, a JSON object), so that its CPU is never taken for the
broker's; prints one JSON object. Each job warms up on the very connections it then measures, and reads the broker's CPU
at both ends of the measured window itself, so that nothing else falls into it.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable

from bench.clients import fetch, groups, idle, latency, produce
from bench.clients.job import Job, Result

JOBS: dict[str, Callable[[Job], Result]] = {
    "produce": produce.produce,
    "fill": produce.fill,
    "fetch": fetch.fetch,
    "sync": latency.sync,
    "sync_while_copied": latency.sync_while_copied,
    "paced": latency.paced,
    "idle": idle.idle,
    "form": groups.form,
    "commit": groups.commit,
    "idle_groups": groups.idle,
}


def main() -> None:
    job = Job(**json.loads(sys.argv[1]))
    gc.disable()  # nothing here makes cycles, and a pause would look like the broker's
    print(json.dumps(JOBS[job.kind](job)), flush=True)


if __name__ == "__main__":
    main()
