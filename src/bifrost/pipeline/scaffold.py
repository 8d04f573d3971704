"""A new project: small, complete, and tested from its first minute."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Final

from bifrost.pipeline.failures import ProjectError

_FILES: Final = {
    "spark-pipeline.yml": "spark-pipeline.yml",
    "transformations/readings.py": "readings.py",
    "tests/test_pipeline.py": "test_pipeline.py",
    "README.md": "README.md",
    ".gitignore": "gitignore",
}
"""Each file of a project, and the template that it is made from."""
_NAME: Final = re.compile(r"^[A-Za-z][A-Za-z0-9_-]*$")


def write_project(directory: Path) -> list[Path]:
    """Makes the directory, which gives the pipeline its name; returns the files. Overwrites nothing."""
    name = directory.resolve().name
    if not _NAME.match(name):
        raise ProjectError(f"{name!r} is no name for a pipeline", "Use letters, digits, - and _, with a letter first.")
    if directory.exists() and any(directory.iterdir() if directory.is_dir() else [directory]):
        raise ProjectError(f"{directory} exists already", "Choose another name, or remove it.")
    values = {"name": name, "storage": (directory.resolve() / "storage").as_uri()}
    template = files("bifrost.pipeline") / "template"
    written = []
    for target, source in _FILES.items():
        text = template.joinpath(f"{source}.template").read_text(encoding="utf-8")
        path = directory / target
        path.parent.mkdir(parents=True, exist_ok=True)
        # Code has no placeholders: only what is filled in is a template.
        path.write_text(text if path.suffix == ".py" else Template(text).substitute(values), encoding="utf-8")
        written.append(path)
    return written
