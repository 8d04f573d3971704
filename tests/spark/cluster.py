"""Real clusters on one machine: a master with workers on two hosts of the loopback net, and drivers as processes.

A driver is a process of its own because a process has one Spark context, and because a test may want to kill it.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyspark

from tests.compat.oracle import java
from tests.waiting import eventually

SPARK = Path(pyspark.__file__).parent
ROOT = Path(__file__).parents[2]
HOSTS = ("127.0.0.1", "127.0.0.2")
"""Two, since Spark runs no second copy of a task on the host of the first."""
LEAN_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

WHAT_SPARK_NEEDS = ("pyspark", "py4j")
WHAT_THE_SOURCE_NEEDS = ("pyarrow", "numpy", "msgspec", "cramjam", "crc32c")


def make_python(folder: Path, packages: Iterable[str] = (), own: bool = False) -> Path:
    """A virtual environment with just these packages of ours."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (target,) = folder.glob("lib/python*/site-packages")
    for name in packages:
        for path in (
            SPARK.parent / name,
            *SPARK.parent.glob(f"{name}.libs"),
            *SPARK.parent.glob(f"{name}-*.dist-info"),
        ):
            (target / path.name).symlink_to(path)
    if own:
        for name in ("bifrost", "pyspark_bifrost"):
            (target / name).symlink_to(ROOT / "src" / name)
    return folder


class Standalone:
    """A master and its workers, one core each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._python = folder / "python"
        self._processes: list[subprocess.Popen[bytes]] = []
        self.master = ""

    def __enter__(self) -> Standalone:
        try:
            self._form()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _form(self) -> None:
        self._start("master", "master.Master", HOSTS[0])
        self.master = self._heard("master", r"Starting Spark master at (spark://\S+)")
        for host in HOSTS:
            work = ("--work-dir", str(self._folder / f"work-{host}"), "--cores", "1", "--memory", "1g", self.master)
            self._start(f"worker-{host}", "worker.Worker", host, *work)
        for host in HOSTS:
            self._heard(f"worker-{host}", "Successfully registered with master (.*)")

    def use_python(self, environment: Path) -> None:
        """What `python3` is for executors that start from now on: not what it is for drivers, as on other machines."""
        self._python.unlink(missing_ok=True)
        self._python.symlink_to(environment)

    def _start(self, name: str, kind: str, host: str, *arguments: str) -> None:
        command = [str(SPARK / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", "--host", host]
        environment = {
            "PATH": os.pathsep.join((str(self._python / "bin"), os.path.dirname(java()), os.defpath)),
            "SPARK_HOME": str(SPARK),
            "SPARK_LOCAL_DIRS": str(self._folder),
            "SPARK_DAEMON_MEMORY": "256m",
            # The master's REST server would take a port of its own choice. A worker that is silent for a while runs on
            # a busy machine, and is not dead.
            "SPARK_DAEMON_JAVA_OPTS": f"{LEAN_JVM} -Dspark.master.rest.enabled=false -Dspark.worker.timeout=600",
        }
        with (self._folder / f"{name}.log").open("wb") as output:
            process = subprocess.Popen(
                [*command, "--port", "0", "--webui-port", "0", *arguments],
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self._processes.append(process)

    def _heard(self, name: str, words: str) -> str:
        """What a process says in its log when it is ready."""
        log = self._folder / f"{name}.log"

        def said() -> bool:
            assert all(process.poll() is None for process in self._processes), log.read_text()
            return re.search(words, log.read_text()) is not None

        eventually(said, f"{name} is ready")
        found = re.search(words, log.read_text())
        assert found is not None
        return found[1]

    def stop(self) -> None:
        """Workers first: they end their executors."""
        for process in reversed(self._processes):
            process.terminate()
            process.wait()


class Driver:
    """A program with a Spark session: `tests/spark/driver.py` with a list of steps."""

    def __init__(
        self, folder: Path, python: Path | None, settings: dict[str, Any], steps: list[dict[str, Any]]
    ) -> None:
        folder.mkdir(exist_ok=True)
        self._log = folder / "driver.log"
        environment = {**_environment(), "SPARK_HOME": str(_spark_home(folder / "spark"))}
        if python is not None:
            del environment["PYTHONPATH"]
        script = ROOT / "tests" / "spark" / "driver.py"
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable if python is None else str(python / "bin" / "python"), str(script)],
                cwd=folder,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"settings": settings, "steps": steps}).encode())
        self._process.stdin.close()

    @property
    def log(self) -> str:
        return self._log.read_text()

    def runs(self) -> bool:
        return self._process.poll() is None

    def wait(self) -> None:
        assert self._process.wait() == 0, self.log

    def kill(self) -> None:
        """With its JVM and the executors of a local cluster, which are in one group; gone when this returns."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def run_command(folder: Path, *arguments: str) -> str:
    """What `bifrost` prints, started in that folder."""
    ran = subprocess.run(
        [sys.executable, "-m", "bifrost", *arguments],
        cwd=folder,
        env=_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def _environment() -> dict[str, str]:
    """Without what pytest's own session of Spark has set; drivers find the package in the sources."""
    kept = {name: each for name, each in os.environ.items() if not name.startswith(("PYSPARK", "SPARK", "PYTHON"))}
    return {**kept, "SPARK_LOCAL_IP": HOSTS[0], "PYTHONPATH": str(ROOT / "src")}


def _spark_home(folder: Path) -> Path:
    """The installed Spark under a directory that may be written to: a local cluster works in it."""
    folder.mkdir()
    for name in ("bin", "jars", "python"):
        (folder / name).symlink_to(SPARK / name)
    return folder
