"""What is in `deploy/`, run: the image's command and settings, its health check, and the unit as systemd reads it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import urllib.request
import zipfile
from pathlib import Path

import pytest

from bifrost.protocol.messages.cluster import DescribeClusterRequest
from bifrost.realm.ports import ReservedPorts
from tests import dockerfile
from tests.dockerfile import ROOT
from tests.integration.command import Command, environment
from tests.integration.wire import Wire

UNIT = ROOT / "deploy" / "systemd" / "bifrost@.service"
_TIMEOUT_S = 30
_BUILD_S = 180


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


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the image has of Bifrost: a wheel of what the Dockerfile copies, and of nothing else. Its dependencies are
    those of the tests."""
    context, wheels, target = (tmp_path_factory.mktemp(name) for name in ("context", "wheels", "installed"))
    names = [line.removeprefix("!") for line in (ROOT / ".dockerignore").read_text("utf-8").split() if line[0] == "!"]
    for source in [one for each in dockerfile.copied() if each.stage is None for one in each.sources]:
        assert any(Path(source).is_relative_to(name) for name in names), f"{source} is kept out by .dockerignore"
        path = context / source
        path.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, path, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / source, path)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(wheels), str(context)]
    built = subprocess.run(pip, capture_output=True, text=True, timeout=_BUILD_S, check=False)
    if "hatchling" in built.stderr:
        pytest.skip("what builds wheels cannot be had here (hatchling)")
    assert built.returncode == 0, built.stderr
    (wheel,) = wheels.iterdir()
    with zipfile.ZipFile(wheel) as files:
        files.extractall(target)
    return target


def test_what_the_image_installs_serves_with_all_that_it_needs(installed: Path, tmp_path: Path) -> None:
    where = [sys.executable, "-c", "import bifrost; print(bifrost.__file__)"]
    found = subprocess.run(where, env=environment(installed), cwd=tmp_path, capture_output=True, text=True, check=True)
    assert Path(found.stdout.strip()).is_relative_to(installed)
    (source,) = (each.sources[0] for each in dockerfile.copied() if each.target == dockerfile.only("CMD").words[-1])
    here = ["listeners=PLAINTEXT://127.0.0.1:0", "advertised.listeners=", f"log.dirs={tmp_path / 'data'}"]
    options = [part for one in [*here, "http.listener=127.0.0.1:0"] for part in ("--set", one)]
    with Command("server", "--config", ROOT / source, *options, cwd=tmp_path, sources=installed) as node:
        for path in ("/", "/docs", "/v1/topics"):
            with urllib.request.urlopen(node.told["http"] + path, timeout=_TIMEOUT_S) as answer:
                assert answer.status == 200, path
        with Wire(node.bootstrap) as wire:
            assert wire.call(0, DescribeClusterRequest()).error_code == 0


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
