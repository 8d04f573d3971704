"""Files of records: every row comes back, every mistake is named with its place, no half file gets a name."""

from __future__ import annotations

import builtins
import os
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bifrost.client.dumps.files import check_name, read_rows, written
from bifrost.client.dumps.rows import DumpFileError, Row
from bifrost.client.errors import UnsupportedError

parts = st.none() | st.binary(max_size=20) | st.text(max_size=10).map(lambda text: text.encode())
rows = st.builds(
    Row,
    value=parts,
    key=parts,
    headers=st.lists(st.tuples(st.text(max_size=5), parts), max_size=3),
    partition=st.integers(0, 2**31 - 1),
    offset=st.integers(0, 2**63 - 1),
    timestamp_ms=st.none() | st.integers(0, 253402300799999),
    timestamp_type=st.integers(0, 1),
)


@pytest.mark.parametrize("suffix", ["jsonl", "ndjson", "parquet", "PARQUET"])
@given(st.lists(st.lists(rows, max_size=4), max_size=3))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
def test_rows_come_back(tmp_path: Path, suffix: str, chunks: list[list[Row]]) -> None:
    if suffix.lower() == "parquet":
        pytest.importorskip("pyarrow")
    path = tmp_path / f"rows.{suffix}"
    with written(path, "t", overwrite=True) as writer:
        for chunk in chunks:
            writer.write(chunk)
    assert [row._replace(headers=list(row.headers)) for row in read_rows(path)] == [*chain(*chunks)]


@pytest.mark.parametrize(
    ("line", "row"),
    [
        ('{"value": null}', Row(None)),
        ('{"value": {"n": 1}, "key": 7}', Row(b'{"n":1}', b"7")),
        ('{"value": "v", "headers": null, "topic": "x"}', Row(b"v", headers=[])),
        ('{"value_base64": "/w==", "key_base64": ""}', Row(b"\xff", b"")),
    ],
)
def test_a_person_may_leave_things_out(tmp_path: Path, line: str, row: Row) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(f"\n{line}\n")
    assert [found._replace(headers=tuple(found.headers)) for found in read_rows(path)] == [row._replace(headers=())]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "not JSON"),
        ("[1]", "not an object"),
        ('{"vlaue": 1}', "unknown field vlaue"),
        ('{"key": "k"}', "there is no value"),
        ('{"value_base64": "?"}', "not base64"),
        ('{"value_base64": 7}', "."),
        ('{"value": "\\ud800"}', "."),
        ('{"value": "v", "partition": "0"}', 'partition is a number, and not "0"'),
        ('{"value": "v", "timestamp": true}', "timestamp is a number, and not true"),
        ('{"value": "v", "headers": [["a"]]}', r'a header is .*, and not \["a"\]'),
        ('{"value": "v", "headers": {"a": "b"}}', "a header is"),
        ('{"value": "v", "headers": 7}', "."),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, problem: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"value": "fine"}\n' * 16 + line + "\n")
    found = read_rows(path)
    assert len([next(found) for _ in range(16)]) == 16
    with pytest.raises(DumpFileError, match=rf"rows\.jsonl line 17: {problem}"):
        next(found)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, ValueError])
@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_an_interrupted_file_is_no_file(tmp_path: Path, suffix: str, kind: type[BaseException]) -> None:
    if suffix == "parquet":
        pytest.importorskip("pyarrow")
    path = tmp_path / f"rows.{suffix}"
    path.write_text("what was there before")

    def interrupted() -> None:
        with written(path, "t", overwrite=True) as writer:
            writer.write([Row(b"x" * 1000)] * 100)
            raise kind

    with pytest.raises(kind):
        interrupted()
    assert os.listdir(tmp_path) == [path.name]
    assert path.read_text() == "what was there before"


def test_a_file_is_not_overwritten_unasked(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.touch()
    with pytest.raises(DumpFileError, match="exists already"), written(path, "t", overwrite=False):
        pass


def test_the_name_says_the_kind(tmp_path: Path) -> None:
    with pytest.raises(DumpFileError, match=r"Use \.jsonl"):
        check_name(Path("rows.csv"))
    with (
        pytest.raises(DumpFileError, match="cannot be written: No such file"),
        written(tmp_path / "nowhere" / "rows.jsonl", "t", overwrite=False),
    ):
        pass
    with pytest.raises(DumpFileError, match="cannot be read: No such file"):
        list(read_rows(tmp_path / "rows.jsonl"))


def test_a_new_file_has_the_rights_that_others_have(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    with written(path, "t", overwrite=False):
        pass
    (tmp_path / "plain").touch()
    assert path.stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_without_pyarrow_the_way_out_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *rest: Any, **named: Any) -> Any:
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(UnsupportedError, match=r"pip install 'bifrost-stream\[arrow\]', or use \.jsonl"):
        check_name(Path("rows.parquet"))


def test_a_foreign_parquet_file_is_read_if_it_has_values(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "rows.parquet"
    parquet.write_table(pyarrow.table({"value": ["text", None], "extra": [1, 2]}), path)
    assert list(read_rows(path)) == [Row(b"text", headers=[]), Row(None, headers=[])]
    parquet.write_table(pyarrow.table({"key": ["text"]}), path)
    with pytest.raises(DumpFileError, match=r"has no column value.*Its columns are key"):
        list(read_rows(path))
    path.write_bytes(b"no parquet")
    with pytest.raises(DumpFileError, match="cannot be read as a dump"):
        list(read_rows(path))
