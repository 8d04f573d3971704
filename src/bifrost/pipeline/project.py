"""A pipeline's project on disk: where its specification is, and what it says. File and reader are Spark's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from bifrost.pipeline.failures import ProjectError
from bifrost.pipeline.prerequisites import trust_pandas

SPEC_NAMES: Final = ("spark-pipeline.yml", "spark-pipeline.yaml")
BOOTSTRAP: Final = "spark.bifrost.bootstrap"
"""The configuration that definitions ask for the address of the brokers."""


@dataclass(frozen=True, slots=True)
class Project:
    """What Spark is told of it. `spec` is Spark's own object, with which it finds the files of definitions."""

    file: Path
    spec: Any
    storage: str
    """A URI: checkpoints, and unless another catalog is configured, tables."""

    @property
    def name(self) -> str:
        return str(self.spec.name)

    @property
    def configuration(self) -> Mapping[str, str]:
        return dict(self.spec.configuration)

    @property
    def local_storage(self) -> Path | None:
        """The directory, if the storage is one of this machine."""
        return local_path(self.storage)

    def display_name(self, flow: str) -> str:
        """A flow as its author calls it: without the catalog and database that Spark puts before it."""
        home = f"{self.spec.catalog or 'spark_catalog'}.{self.spec.database or 'default'}."
        return flow.removeprefix(home)


def find_spec_file(path: Path) -> Path:
    """The specification at `path`: the file itself, or that of the directory or of one above it, as Spark looks."""
    if path.is_file():
        return path
    if not path.is_dir():
        raise ProjectError(f"there is no directory {path}", "`bifrost pipeline init NAME` makes a project.")
    start = path.resolve()
    for directory in (start, *start.parents):
        for name in SPEC_NAMES:
            if (directory / name).is_file():
                return directory / name
    raise ProjectError(
        f"there is no pipeline in {path}: it has no {SPEC_NAMES[0]}", "`bifrost pipeline init NAME` makes a project."
    )


def read_project(file: Path, storage: str | Path | None = None) -> Project:
    """`storage` takes the place of what the specification says."""
    import yaml

    trust_pandas()
    from pyspark.errors import PySparkException
    from pyspark.pipelines.cli import load_pipeline_spec

    try:
        spec = load_pipeline_spec(file)
    except (PySparkException, yaml.YAMLError, OSError, UnicodeDecodeError) as error:
        raise ProjectError(f"{file} cannot be read: {' '.join(str(error).split())}") from error
    except (AttributeError, KeyError, TypeError) as error:  # what Spark's reader makes of YAML of another shape
        raise ProjectError(f"{file} is no specification of a pipeline: {error!r}") from error
    return Project(file.resolve(), spec, storage_uri(str(storage or spec.storage), file.resolve().parent))


def storage_uri(storage: str, directory: Path) -> str:
    """Spark takes only whole URIs; a path belongs to the project's directory."""
    if "://" in storage or storage.startswith("file:"):
        return storage
    return (directory / storage).resolve().as_uri()


def local_path(uri: str) -> Path | None:
    parts = urlsplit(uri)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None
