"""`make demo` on a machine without Java: it says what to install, and runs the half that needs no Spark."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("example", ["fleet", "orders"])
def test_without_java_the_other_half_runs(example: str, tmp_path: Path) -> None:
    (tmp_path / "apt-get").touch(mode=0o755)
    environment = {name: value for name, value in os.environ.items() if name not in {"JAVA_HOME", "PATH"}} | {
        "PATH": str(tmp_path),
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]),
    }
    size = {"fleet": ["--trucks", "3", "--hours", "0.5"], "orders": ["--orders", "200"]}[example]
    ran = subprocess.run(
        [sys.executable, "-m", f"examples.{example}.demo", *size],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
        check=False,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    assert "apt-get install openjdk-17-jre-headless" in ran.stdout
    assert {"fleet": "read back", "orders": "200 stored"}[example] in ran.stdout
    assert not list(tmp_path.glob("*.png"))
