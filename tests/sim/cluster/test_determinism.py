"""One seed is one run of a whole cluster: the same events at the same moments, in any process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.sim.cluster.scenario import simulate

ROOT = Path(__file__).resolve().parents[3]
SEED = 7


def trace(hash_seed: str) -> list[str]:
    """Every line that a process of its own prints about the seed, the nodes' log lines among them."""
    command = [sys.executable, "-m", "tests.sim.cluster.run", "--trace", "--first", str(SEED)]
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    environment = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": paths}
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=100)
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr
    return run.stdout.splitlines()


def test_two_processes_with_one_seed_print_the_same_trace() -> None:
    first, second = trace("1"), trace("2")
    assert len(first) > 1000
    assert first == second


def test_another_seed_is_another_run() -> None:
    assert simulate(SEED).digest != simulate(SEED + 1).digest
