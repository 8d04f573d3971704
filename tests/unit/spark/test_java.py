"""A machine without Java, or with an old one, is told the one package to install."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bifrost.spark import session
from bifrost.spark.failures import MissingSoftwareError
from bifrost.spark.java import require_java


def test_without_java_one_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    (tmp_path / "apt-get").touch(mode=0o755)
    with pytest.raises(MissingSoftwareError, match="there is no java") as raised:
        require_java()
    assert raised.value.hint == "apt-get install openjdk-17-jre-headless"
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    with pytest.raises(MissingSoftwareError, match=r"JAVA_HOME is .*jdk"):
        require_java()


def test_an_old_java_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_392\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", os.environ["PATH"])
    with pytest.raises(MissingSoftwareError, match=r"needs Java 17 or newer, and .* is 8"):
        require_java()


def test_a_session_is_not_even_tried_without_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(MissingSoftwareError, match="Spark runs on Java"):
        session("never", master="local[1]")
