"""Projects on disk, what is missing on a machine, and failures in one line."""

from __future__ import annotations

import ast
import socket
from pathlib import Path

import pytest

from bifrost.client.errors import UnreachableError
from bifrost.pipeline.failures import ProjectError, cause
from bifrost.pipeline.graph import Graph
from bifrost.pipeline.prerequisites import check_master, require_spark
from bifrost.pipeline.project import find_spec_file, local_path, read_project, storage_uri
from bifrost.pipeline.running import _driver_settings, _log
from bifrost.pipeline.scaffold import write_project
from bifrost.pipeline.topics import TopicUse
from bifrost.spark.failures import MissingSoftwareError


def test_a_new_project_is_complete(tmp_path: Path) -> None:
    written = write_project(tmp_path / "readings")
    assert sorted(str(path.relative_to(tmp_path / "readings")) for path in written) == [
        ".gitignore",
        "README.md",
        "spark-pipeline.yml",
        "tests/test_pipeline.py",
        "transformations/readings.py",
    ]
    project = read_project(find_spec_file(tmp_path / "readings" / "transformations"))
    assert (project.name, project.local_storage) == ("readings", tmp_path / "readings" / "storage")
    assert project.display_name("spark_catalog.default.hot") == "hot"
    for path in written:
        text = path.read_text()
        assert "$name" not in text
        assert "$$" not in text
        if path.suffix == ".py":
            ast.parse(text)


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "thesis.txt").write_text("dear")
    with pytest.raises(ProjectError, match="exists already"):
        write_project(tmp_path / "taken")
    with pytest.raises(ProjectError, match="no name for a pipeline"):
        write_project(tmp_path / "7 seas")


def test_no_project(tmp_path: Path) -> None:
    with pytest.raises(ProjectError, match="there is no pipeline in") as raised:
        find_spec_file(tmp_path)
    assert "bifrost pipeline init" in raised.value.hint
    with pytest.raises(ProjectError, match="there is no directory"):
        find_spec_file(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("name: [", "cannot be read"),
        ("storage: s", "cannot be read: .*name"),
        ("- a list", "is no specification|cannot be read"),
        ("name: x\nstorage: s\nlibraires: []", "libraires"),
        ("name: x\nstorage: s\nlibraries: [glob]", "is no specification"),
    ],
)
def test_a_broken_specification(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "spark-pipeline.yml").write_text(text)
    with pytest.raises(ProjectError, match=problem) as raised:
        read_project(tmp_path / "spark-pipeline.yml")
    assert "\n" not in str(raised.value)


def test_storage_is_a_uri(tmp_path: Path) -> None:
    assert storage_uri("s3a://bucket/x", tmp_path) == "s3a://bucket/x"
    assert local_path(storage_uri("a b", tmp_path)) == tmp_path.resolve() / "a b"
    assert local_path("s3a://bucket/x") is None


def test_the_catalog_lasts_unless_another_is_configured(tmp_path: Path) -> None:
    write_project(tmp_path / "readings")
    project = read_project(tmp_path / "readings" / "spark-pipeline.yml")
    settings = _driver_settings(project, {})
    assert settings["spark.sql.catalogImplementation"] == "hive"
    assert str(tmp_path / "readings" / "storage" / "catalog") in settings["spark.hadoop.javax.jdo.option.ConnectionURL"]
    own = _driver_settings(project, {"spark.sql.catalogImplementation": "in-memory"})
    assert own["spark.sql.catalogImplementation"] == "in-memory"
    assert "spark.hadoop.javax.jdo.option.ConnectionURL" not in own


def test_a_driver_prints_to_a_file_of_the_project(tmp_path: Path) -> None:
    write_project(tmp_path / "readings")
    spec = tmp_path / "readings" / "spark-pipeline.yml"
    assert _log(read_project(spec), "local[2]") == tmp_path / "readings" / "storage" / "spark.log"
    elsewhere = read_project(spec, "s3a://bucket/readings")
    assert _log(elsewhere, "yarn") == tmp_path / "readings" / "spark.log"
    assert _log(elsewhere, "sc://host") is None, "that driver is not ours"


def test_without_pyspark_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bifrost.pipeline.prerequisites.find_spec", lambda name: None if name == "pyspark" else name)
    with pytest.raises(MissingSoftwareError, match="no pyspark") as raised:
        require_spark()
    assert raised.value.hint == "pip install 'bifrost-stream[spark]'"


@pytest.mark.parametrize("scheme", ["spark", "sc"])
def test_a_master_that_is_not_there_is_told_before_spark_tries(scheme: str) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # taken, and nobody listens
        master = f"{scheme}://127.0.0.1:{nobody.getsockname()[1]}"
        with pytest.raises(UnreachableError, match=f"no Spark answers at {master}: Connection refused"):
            check_master(master)


def test_one_master_of_several_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as master, socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        silent, there = nobody.getsockname()[1], master.getsockname()[1]
        check_master(f"spark://127.0.0.1:{silent},localhost:{there}")
        check_master(f"sc://localhost:{there}/;user_id=me")


@pytest.mark.parametrize("master", ["local", "local[2]", "yarn", "k8s://https://host:443"])
def test_other_masters_are_left_to_spark(master: str) -> None:
    check_master(master)


def test_an_address_without_a_number_is_no_address() -> None:
    with pytest.raises(UnreachableError, match="no Spark answers at spark://host:port"):
        check_master("spark://host:port")


def test_views_give_their_topics_to_those_who_read_them() -> None:
    graph = Graph("id", targets={"cleaned": "cleaned", "fine": "fine", "windows": "windows", "alerts": "sink"})
    graph.views = {"cleaned", "fine"}
    graph.tables = {"fine": {"cleaned"}, "windows": {"fine"}, "alerts": {"windows"}}
    graph.uses = [TopicUse("cleaned", {"subscribe": "a, b"}), TopicUse("sink", {"topic": "out"}, is_sink=True)]
    graph.inline_views()
    assert graph.targets == {"windows": "windows", "alerts": "sink"}
    assert sorted((use.owner, use.names) for use in graph.uses) == [("sink", ("out",)), ("windows", ("a", "b"))]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("Traceback (most recent call last):\n  File x\nValueError: no such thing\n SQLSTATE: 38000", "no such thing"),
        (
            "[TABLE_OR_VIEW_NOT_FOUND] The table `x` cannot be found. SQLSTATE: 42P01;\n'U",
            "The table `x` cannot be found.",
        ),
        (
            "Caused by: ERROR XSDB6: Another instance of Derby may have already booted the database",
            "another run of this",
        ),
        ("", "Spark does not say why"),
        ("\nsomething else\nmore", "something else"),
    ],
)
def test_causes_are_one_line(text: str, line: str) -> None:
    assert cause(text).startswith(line)
    assert "\n" not in cause(text)
