"""What travels to executors, and what a worker does once."""

from __future__ import annotations

import gc
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path

import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

from bifrost.client.errors import UnsupportedError
from bifrost.spark import worker
from bifrost.spark.failures import OptionError
from bifrost.spark.sessions import Ship, _is_local, _settings, session
from bifrost.spark.shipping import libraries_config, pack_libraries, package_config, zip_package


def test_the_package_runs_from_a_zip(tmp_path: Path) -> None:
    archive = zip_package(tmp_path)
    code = "import pyspark_bifrost, bifrost.columnar; print(pyspark_bifrost.DefaultSource.name(), bifrost.__file__)"
    ran = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": str(archive)}, capture_output=True, text=True, check=True
    )
    assert ran.stdout.split() == ["bifrost", str(archive / "bifrost" / "__init__.py")]


def test_finding_the_source_loads_nothing_heavy() -> None:
    """Spark imports it for every session that uses any Python source at all."""
    code = (
        "import pyspark.sql.datasource, sys; before = set(sys.modules); import pyspark_bifrost;"
        "print(*[name for name in ('numba', 'pyarrow', 'numpy', 'confluent_kafka', 'bifrost.columnar.kernels',"
        " 'bifrost.client.wire') if name in sys.modules.keys() - before])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == []


def test_only_real_clusters_are_asked_what_they_lack() -> None:
    assert [_is_local(each) for each in ("local", "local[2]", "local[*]")] == [True] * 3
    assert [_is_local(each) for each in ("local-cluster[2,1,1024]", "spark://host:7077", "yarn")] == [False] * 3


def test_checkpoints_on_this_machine_are_written_the_quick_way_unless_told_otherwise() -> None:
    (name,) = _settings("local[2]", {})
    assert _settings("local", {name: "Own", "spark.ui.enabled": False}) == {name: "Own", "spark.ui.enabled": "False"}
    assert _settings("spark://host:7077", {}) == _settings(None, {}) == {}, "their checkpoints lie elsewhere"


def test_an_unknown_way_to_ship() -> None:
    with pytest.raises(ValueError, match="'zip', 'venv' or None"):
        session(ship="tar")  # type: ignore[arg-type]


def test_an_environment_is_sent_without_what_spark_brings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    installed = tmp_path / "site-packages"
    for name in ("library/part", "library/__pycache__", "pyspark", "bifrost"):
        (installed / name).mkdir(parents=True)
    (installed / "library" / "part" / "code.so").touch()
    (installed / "linked").symlink_to(installed / "library")
    (installed / "elsewhere.pth").write_text("/somewhere/else")
    monkeypatch.setattr(sysconfig, "get_paths", lambda: dict.fromkeys(("purelib", "platlib"), str(installed)))
    with tarfile.open(pack_libraries(tmp_path)) as archive:
        names = set(archive.getnames())
    assert {name for name in names if name.split("/")[0] not in ("bifrost", "pyspark_bifrost")} == {
        "library",
        "library/part",
        "library/part/code.so",
        "linked",
        "linked/part",
        "linked/part/code.so",
    }
    assert {"bifrost/spark/source.py", "pyspark_bifrost/__init__.py"} <= names, "from where they are imported"


def test_outside_an_environment_nothing_is_sent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    with pytest.raises(UnsupportedError, match="Run inside a virtual environment, or use ship='zip'"):
        pack_libraries(tmp_path)


def test_what_the_program_sends_by_itself_is_sent_too() -> None:
    archives, files, path = "spark.archives", "spark.files", "spark.executorEnv.PYTHONPATH"
    archive, package = Path("/made/env.tar.gz"), Path("/made/bifrost.zip")
    assert libraries_config(archive, {}) == {archives: f"{archive}#bifrost_env", path: "bifrost_env:../bifrost_env"}
    assert package_config(package, {files: "data.csv", path: "theirs"}) == {
        files: f"{package},data.csv",
        path: "bifrost.zip:../bifrost.zip:theirs",
    }


class RunningSession:
    """As much of a session as is asked before something is sent to it."""

    def __init__(self, isolation: str) -> None:
        self.conf = {"spark.sql.artifact.isolation.enabled": isolation}


@pytest.mark.parametrize(
    ("ship", "isolation", "remedy"),
    [("venv", "false", r"Stop it first, or use ship='zip'\.$"), ("zip", "true", r"Stop it first\.$")],
)
def test_a_running_session_cannot_be_given_everything(
    monkeypatch: pytest.MonkeyPatch, ship: Ship, isolation: str, remedy: str
) -> None:
    running = RunningSession(isolation)
    monkeypatch.setattr(SparkSession, "getActiveSession", classmethod(lambda cls: running))
    with pytest.raises(OptionError, match=remedy):
        session(ship=ship)


def test_a_worker_freezes_what_is_loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    frozen: list[int] = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(1))
    monkeypatch.setattr(worker, "_settled", False)
    worker.settle()
    assert frozen == [], "not in a process that runs no task of Spark's"
    monkeypatch.setattr(TaskContext, "get", classmethod(lambda cls: object()))
    worker.settle()
    worker.settle()
    assert frozen == [1]
