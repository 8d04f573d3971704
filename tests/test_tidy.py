"""Style as a test: what a reviewer should never have to say twice."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LINES_MAX = 400
FUNCTION_LINES_MAX = 70
DRAWERS = {"util", "utils", "helpers", "common", "misc"}
CATCH_ALL_ALLOWED = {
    "src/bifrost/broker/registry.py",
    "src/bifrost/client/outbox.py",
    "src/bifrost/client/ownership.py",
}


def sources() -> list[Path]:
    return sorted((ROOT / "src").rglob("*.py"))


def problems(path: Path) -> list[str]:
    text = path.read_text()
    tree = ast.parse(text)
    name = str(path.relative_to(ROOT))
    found = []
    if not ast.get_docstring(tree):
        found.append("no module docstring")
    if text.count("\n") > LINES_MAX:
        found.append(f"{text.count(chr(10))} lines, at most {LINES_MAX}")
    if path.stem in DRAWERS:
        found.append("name the job, not the drawer")
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES_MAX:
                found.append(f"line {node.lineno}: {node.name} has {length} lines, at most {FUNCTION_LINES_MAX}")
        if isinstance(node, ast.ExceptHandler) and name not in CATCH_ALL_ALLOWED and catches_everything(node):
            found.append(f"line {node.lineno}: few files may catch everything")
    return [f"{name}: {problem}" for problem in found]


def catches_everything(handler: ast.ExceptHandler) -> bool:
    """Catches whatever comes and does not raise it on."""
    broad = handler.type is None or (
        isinstance(handler.type, ast.Name) and handler.type.id in {"Exception", "BaseException"}
    )
    return broad and not any(isinstance(node, ast.Raise) for node in ast.walk(handler))


def test_every_source_file_is_tidy() -> None:
    assert [problem for path in sources() for problem in problems(path)] == []


def test_every_package_says_what_it_is_for() -> None:
    folders = {path.parent for path in sources()}
    assert [str(folder) for folder in folders if not (folder / "__init__.py").exists()] == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x = 1\n", "no module docstring"),
        ('"""D."""\n' + "x = 1\n" * 401, "at most 400"),
        ('"""D."""\ndef f():\n' + "    x = 1\n" * 71, "at most 70"),
        ('"""D."""\ntry:\n    pass\nexcept Exception:\n    pass\n', "may catch everything"),
    ],
)
def test_untidiness_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, expected: str) -> None:
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    path = tmp_path / "sample.py"
    path.write_text(source)
    assert any(expected in problem for problem in problems(path))
