"""What is in `deploy/`, run: the image's command and settings, its health check, and the unit as systemd reads it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bifrost.realm.ports import ReservedPorts
from tests import dockerfile
from tests.dockerfile import ROOT
from tests.integration.command import Command

UNIT = ROOT / "deploy" / "systemd" / "bifrost@.service"
_TIMEOUT_S = 30


def is_healthy(port: int) -> bool:
    """As Docker finds out: by the exit code of the command."""
    program, *arguments = dockerfile.health_check()
    assert program == "python"
    done = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "BIFROST_HEALTH_PORT": str(port)},
        capture_output=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    return done.returncode == 0


def test_the_image_starts_with_its_settings_and_its_health_check_tells_whether_it_lives(tmp_path: Path) -> None:
    entry, command = dockerfile.only("ENTRYPOINT").words, dockerfile.only("CMD").words
    assert entry == ["bifrost"]
    (source,) = (each.sources[0] for each in dockerfile.copied() if each.target == command[-1])
    with ReservedPorts(1) as ports:
        (port,) = ports.numbers
        here = {
            "listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "log.dirs": str(tmp_path / "data"),
            "http.listener": "127.0.0.1:0",
        }
        options = [part for name, value in here.items() for part in ("--set", f"{name}={value}")]
        assert not is_healthy(port)
        with Command(*command[:-1], ROOT / source, *options) as node:
            assert node.told["http"].startswith("http://")
            assert is_healthy(port)
        assert not is_healthy(port)


def verify(unit: str, folder: Path) -> str:
    """What systemd has against it. An instance of the unit, whose program is installed."""
    path = folder / "bifrost@broker.service"
    path.write_text(unit.replace("/opt/bifrost/bin/bifrost", "/bin/true"), encoding="utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(path)],
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    mine = [line for line in (done.stdout + done.stderr).splitlines() if path.name in line]
    return "\n".join([*mine, *([f"exit code {done.returncode}"] if done.returncode else [])])


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_has_nothing_against_the_unit(tmp_path: Path) -> None:
    unit = UNIT.read_text(encoding="utf-8")
    assert verify(unit, tmp_path) == ""
    assert "Unknown key 'RestartSecs'" in verify(unit.replace("RestartSec=", "RestartSecs="), tmp_path)
