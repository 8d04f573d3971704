"""The package, or the whole environment, as a file that Spark sends to its executors."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Final

from bifrost import __version__
from bifrost.client.errors import UnsupportedError

_UNPACKED: Final = "bifrost_env"


def zip_package(directory: Path | None = None) -> Path:
    """`bifrost` and `pyspark_bifrost` as a zip; made anew each time, since sources may have changed."""
    import bifrost
    import pyspark_bifrost

    folder = Path(tempfile.mkdtemp(prefix="bifrost-")) if directory is None else directory
    target = folder / f"bifrost_stream-{__version__}.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in (bifrost, pyspark_bifrost):
            assert package.__file__ is not None
            root = Path(package.__file__).parent
            for path in sorted(root.rglob("*")):
                if path.is_file() and "__pycache__" not in path.parts:
                    archive.write(path, path.relative_to(root.parent))
    return target


def venv_config(directory: Path | None = None) -> dict[str, str]:
    """Packs this program's virtual environment, and says how executors are to use it.

    In client mode the driver starts that interpreter too, under the very same relative path: hence the link to it in
    the working directory.
    """
    tool = shutil.which("venv-pack", path=f"{Path(sys.prefix) / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}")
    if sys.prefix == sys.base_prefix or tool is None:
        raise UnsupportedError(
            "there is no virtual environment to send" if tool is not None else "venv-pack is not installed",
            "Run inside a virtual environment with pip install venv-pack, or use ship='zip'.",
        )
    folder = Path(tempfile.mkdtemp(prefix="bifrost-")) if directory is None else directory
    archive = folder / "bifrost_env.tar.gz"
    subprocess.run([tool, "--quiet", "--force", "--prefix", sys.prefix, "--output", str(archive)], check=True)
    link = Path(_UNPACKED)
    if not link.exists():
        link.symlink_to(sys.prefix)
    python = f"./{_UNPACKED}/bin/python"
    os.environ["PYSPARK_PYTHON"] = python
    return {"spark.archives": f"{archive}#{_UNPACKED}", "spark.pyspark.python": python}
