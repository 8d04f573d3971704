"""The demos on a machine without Java: they say what to install, and run the half that needs no Spark."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run_without_java(example: str, tmp_path: Path, *size: str) -> str:
    """What it says, in one line of words: where it is folded depends on how long numbers are."""
    (tmp_path / "apt-get").touch(mode=0o755)
    environment = {name: value for name, value in os.environ.items() if name not in {"JAVA_HOME", "PATH"}} | {
        "PATH": str(tmp_path),
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]),
    }
    ran = subprocess.run(
        [sys.executable, "-m", f"examples.{example}.demo", *size],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
        check=False,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "apt-get install openjdk-17-jre-headless" in ran.stdout
    assert not list(tmp_path.glob("*.png"))
    return " ".join(ran.stdout.replace("│", " ").split())


def test_the_shop_runs_without_java(tmp_path: Path) -> None:
    assert "200 stored" in run_without_java("orders", tmp_path, "--orders", "200")


def test_the_fleet_loses_a_leader_without_java_and_nothing_else(tmp_path: Path) -> None:
    said = run_without_java("fleet", tmp_path, "--trucks", "3", "--hours", "0.5")
    assert "4 partitions, 3 copies, acks=all, min.insync.replicas=2" in said
    killed = re.search(r"kill -9 heimdall-(\d) \(process (\d+)\), which leads partitions? ([\d and]+) \d+\.\d s", said)
    assert killed is not None, said
    broker, process, led = killed.groups()
    for partition in led.split(" and "):
        leader = re.search(rf"heimdall-(\d) leads {partition}\b", said)
        assert leader is not None, said
        assert leader[1] != broker
    assert re.search(r"\+ *[\d.]+ m?s partitions? [\d and]+ acknowledged what was sent since then", said), said
    back = re.search(rf"heimdall-{broker} is back, as process (\d+)", said)
    assert back is not None, said
    assert back[1] != process
    assert f"heimdall-{broker} is in sync: three copies of everything again" in said
    assert "all sent, 270 of 270 acknowledged" in said
    assert "sent 540 acknowledged, so on 2 disks at least 540 read back 540" in said
    assert "trucks out of order or incomplete 0 trucks in more than one partition 0" in said
    assert "Nothing was lost: 540 sent = 540 acknowledged = 540 read back, every truck in order." in said
