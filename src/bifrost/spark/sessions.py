"""A Spark session in which `format("bifrost")` works, on this machine or on a cluster.

Spark finds the source by itself where the package is installed on every node under the driver's own interpreter. On a
cluster that is rarely so: then the class is registered, which makes Spark use the executors' Python, and the package
travels along.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal

from bifrost.spark.failures import OptionError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)
Ship = Literal["zip", "venv"]
_NEEDED: Final = ("pyarrow", "numpy", "msgspec", "cramjam", "crc32c")
_FASTER: Final = ("numba",)


def session(
    app_name: str = "bifrost",
    *,
    master: str | None = None,
    ship: Ship | None = None,
    config: Mapping[str, object] | None = None,
    check: bool = True,
) -> SparkSession:
    """Makes or finds the session, registers the source, and sends the package along if asked.

    `ship="zip"` sends the package itself, for executors that have the libraries it needs; `ship="venv"` sends the whole
    virtual environment of this program, packed by venv-pack. With `check` the executors of a cluster are asked what
    they lack, which takes one small job.
    """
    from pyspark.sql import SparkSession

    from bifrost.spark.shipping import venv_config, zip_package
    from bifrost.spark.source import BifrostSource

    builder = SparkSession.builder.appName(app_name)
    if master is not None:
        builder = builder.master(master)
        if _is_local(master):
            # Spark would start whatever python3 comes first on the path, which may know nothing of this package.
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {name: str(value) for name, value in (config or {}).items()}
    if ship == "venv":
        settings = venv_config() | settings
    elif ship not in (None, "zip"):
        raise OptionError(f"ship cannot be {ship!r}", "It is 'zip', 'venv' or None.")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    if ship == "zip":
        spark.sparkContext.addPyFile(str(zip_package()))
    spark.dataSource.register(BifrostSource)
    if check and not _is_local(str(spark.sparkContext.master)):
        tell_what_executors_lack(spark)
    return spark


def _is_local(master: str) -> bool:
    """In this process: `local` and `local[2]` are, `local-cluster[...]` and the rest are not."""
    return master == "local" or master.startswith("local[")


def tell_what_executors_lack(spark: SparkSession) -> list[str]:
    """Asks an executor which modules it can import; raises for one that is needed, and warns of one that is missed."""
    lacking = spark.sparkContext.parallelize([0], 1).mapPartitions(_lacking).collect()
    missing = sorted({name for name in lacking if name not in _FASTER})
    if missing:
        raise OptionError(
            f"the executors' Python lacks {', '.join(missing)}",
            "Install bifrost-stream[spark] there, or let session(ship='venv') bring everything along.",
        )
    if lacking:
        _log.warning("the executors' Python has no numba: reading and writing takes several times the processor time")
    return sorted(lacking)


def _lacking(_: object) -> list[str]:
    from importlib.util import find_spec

    return [name for name in ("bifrost", *_NEEDED, *_FASTER) if find_spec(name) is None]
