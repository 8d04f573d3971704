"""One seed is one run: whoever plays it sees the same events at the same moments, in any process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.sim.scenario import simulate

ROOT = Path(__file__).resolve().parents[2]


def trace(seed: int, policy: str, hash_seed: str) -> list[str]:
    """Every line that a process of its own prints about the seed, the node's log lines among them."""
    command = [sys.executable, "-m", "tests.sim.run", "--trace", "--first", str(seed), "--policy", policy]
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    environment = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": paths}
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=100)
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr
    return run.stdout.splitlines()


def test_two_processes_with_one_seed_print_the_same_trace() -> None:
    first, second = trace(7, "ack", "1"), trace(7, "ack", "2")
    assert len(first) > 1000
    assert any("__consumer_offsets" in line for line in first), "no group takes part; another seed has some"
    assert first == second


def test_another_seed_and_another_policy_are_other_runs() -> None:
    assert len({simulate(seed, policy).digest for seed, policy in ((7, "ack"), (8, "ack"), (7, "os"))}) == 3
