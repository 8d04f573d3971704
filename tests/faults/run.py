"""A random nemesis under load: `make faults FAULT_SEED=7 FAULT_SECONDS=300`. Ends with one line of figures.

Its own process, its own directory, kept if something was found: the logs of all nodes are in it.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
import warnings
from pathlib import Path

from tests.faults.load import EVERYONE, Load
from tests.faults.nemesis import Nemesis
from tests.faults.realm import Realm


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1_000_000)
    warnings.simplefilter("ignore", DeprecationWarning)  # of kafka-python, which reads its definitions the old way
    folder = Path(tempfile.mkdtemp(prefix="bifrost-faults-"))
    print(f"seed {seed}, {options.seconds:g} seconds of faults, logs in {folder / 'logs'}", flush=True)
    try:
        print(f"seed {seed}: {play(folder, seed, options.seconds, options.writers.split(','))}")
    except AssertionError as error:
        print(f"seed {seed} failed: {error}\nagain: make faults FAULT_SEED={seed} FAULT_SECONDS={options.seconds:g}")
        return 1
    shutil.rmtree(folder)
    return 0


def play(folder: Path, seed: int, seconds: float, writers: list[str]) -> str:
    """One run; AssertionError has the evidence."""
    started = time.monotonic()

    def tell(what: str) -> None:
        print(f"{time.monotonic() - started:7.2f} {what}", flush=True)

    min_insync = str(random.Random(seed).choice((1, 2)))
    with Realm(folder, links="proxy") as realm:
        with Load(realm, writers=writers, readers=EVERYONE, min_insync_replicas=min_insync) as load:
            Nemesis(realm, seed, tell).run(seconds)
            return load.finish()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.run", description=__doc__)
    parser.add_argument("--seed", type=int, help="which faults are drawn; any, if not given")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long faults are done")
    parser.add_argument("--writers", default=",".join(EVERYONE), help="of confluent, python and java")
    return parser


if __name__ == "__main__":
    sys.exit(main())
