"""The process that runs a real client (`python -m bench.realclient JOB`); prints one JSON object."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

from bench.clients import failover, librdkafka
from bench.clients.job import Job, Result

JOBS: dict[str, Callable[[Job], Result]] = {
    "produce": librdkafka.produce,
    "consume": librdkafka.consume,
    "end_to_end": librdkafka.end_to_end,
    "fail_over": failover.fail_over,
}


def main() -> None:
    job = Job(**json.loads(sys.argv[1]))
    print(json.dumps(JOBS[job.kind](job)), flush=True)


if __name__ == "__main__":
    main()
