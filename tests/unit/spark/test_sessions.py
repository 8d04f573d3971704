"""What travels to executors, and what a worker does once."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark import TaskContext

from bifrost.client.errors import UnsupportedError
from bifrost.spark import worker
from bifrost.spark.sessions import _is_local, _lacking, session
from bifrost.spark.shipping import venv_config, zip_package


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
    assert _lacking(None) == [], "this environment has everything"


def test_an_unknown_way_to_ship() -> None:
    with pytest.raises(ValueError, match="'zip', 'venv' or None"):
        session(ship="tar")  # type: ignore[arg-type]


def test_without_a_tool_an_environment_cannot_be_sent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("bifrost.spark.shipping.shutil.which", lambda *_, **__: None)
    with pytest.raises(UnsupportedError, match="pip install venv-pack"):
        venv_config(tmp_path)


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
