"""A program that reads: notes every message it handles, in a file, until it is killed or told the last one.

Run as `python -m tests.compat.reader_process BOOTSTRAP TOPIC GROUP PROTOCOL DELIVERY FILE`.
"""

from __future__ import annotations

import os
import sys
import time

from bifrost import Consumer
from tests.compat.readers import SESSION

LAST = b"last"


def main(bootstrap: str, topic: str, group: str, protocol: str, delivery: str, path: str) -> None:
    handled = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    lasts = 0
    with Consumer(
        topic,
        bootstrap=bootstrap,
        group=group,
        group_protocol=protocol,  # type: ignore[arg-type]
        delivery=delivery,  # type: ignore[arg-type]
        from_beginning=True,
        commit_interval_s=0.3,
        config=SESSION[protocol],
    ) as consumer:
        for message in consumer:
            if message.value == LAST:
                lasts += 1
                if lasts == 2:
                    break
            else:
                time.sleep(0.001)
                os.write(handled, message.value + b"\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
