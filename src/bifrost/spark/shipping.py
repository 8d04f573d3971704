"""The package, or all libraries of this program's environment, as a file that Spark sends to its executors."""

from __future__ import annotations

import atexit
import shutil
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from bifrost import __version__
from bifrost.client.errors import UnsupportedError

_UNPACKED: Final = "bifrost_env"
_OWN: Final = ("bifrost", "pyspark_bifrost")
_LEFT_OUT: Final = ("pyspark", "py4j", "pip", "setuptools", "_distutils_hack", "__pycache__")
"""Spark gives executors its own Python part, and nothing is installed there."""


def zip_package(directory: Path | None = None) -> Path:
    """`bifrost` and `pyspark_bifrost` as a zip; made anew each time, since sources may have changed."""
    target = _folder(directory) / f"bifrost_stream-{__version__}.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for root in _own_packages():
            for path in sorted(root.rglob("*")):
                if path.is_file() and "__pycache__" not in path.parts:
                    archive.write(path, path.relative_to(root.parent))
    return target


def pack_libraries(directory: Path | None = None) -> Path:
    """What is installed in this program's virtual environment, and this package wherever it lies.

    Only libraries, no interpreter: in client mode Spark would start a packed one on the driver too, under a path that
    only executors have.
    """
    if sys.prefix == sys.base_prefix:
        raise UnsupportedError(
            "there is no virtual environment to send", "Run inside a virtual environment, or use ship='zip'."
        )
    target = _folder(directory) / f"{_UNPACKED}.tar.gz"
    # Much of it hardly shrinks; whoever packs more tightly waits for it at every start.
    with tarfile.open(target, "w:gz", compresslevel=1, dereference=True) as archive:
        for path in [*_own_packages(), *_installed()]:
            archive.add(path, path.name, filter=_without_caches)
    return target


def package_config(package: Path, settings: Mapping[str, str]) -> dict[str, str]:
    """Has Spark bring the zip to where its executors run, and their Python look there before anywhere else."""
    return _config("spark.files", str(package), package.name, settings)


def libraries_config(archive: Path, settings: Mapping[str, str]) -> dict[str, str]:
    """The same for the archive of libraries, which Spark unpacks there."""
    return _config("spark.archives", f"{archive}#{_UNPACKED}", _UNPACKED, settings)


def _config(kind: str, sent: str, arrives_as: str, settings: Mapping[str, str]) -> dict[str, str]:
    """What is sent arrives in the executor's directory. Python runs in it, or one below.

    Sessions that keep their files apart, as those of Spark Connect do, run Python in a directory of their own, in
    which nothing is that was sent for all: neither a file that was added nor an unpacked archive.
    """
    path = "spark.executorEnv.PYTHONPATH"
    return {
        kind: ",".join(filter(None, (sent, settings.get(kind)))),
        path: ":".join(filter(None, (arrives_as, f"../{arrives_as}", settings.get(path)))),
    }


def _folder(directory: Path | None) -> Path:
    """Executors that start later ask the driver for the file, so that it stays until the program ends."""
    if directory is not None:
        return directory
    made = tempfile.mkdtemp(prefix="bifrost-")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return Path(made)


def _own_packages() -> list[Path]:
    import bifrost
    import pyspark_bifrost

    return [Path(str(package.__file__)).parent for package in (bifrost, pyspark_bifrost)]


def _installed() -> Iterator[Path]:
    paths = sysconfig.get_paths()
    for folder in sorted({paths["purelib"], paths["platlib"]}):
        for path in sorted(Path(folder).iterdir()):
            if path.name not in (*_OWN, *_LEFT_OUT) and path.suffix != ".pth":
                yield path


def _without_caches(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if member.name.endswith("/__pycache__") else member
