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
_CHECKPOINTS: Final = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    )
}
"""Spark's second way to write checkpoints. The first one starts a `chmod` for each file on a local disk, where Hadoop
has no native library: 70 of 155 ms of a small micro-batch went there. Both rename a finished file into its place."""


def session(
    app_name: str = "bifrost",
    *,
    master: str | None = None,
    ship: Ship | None = None,
    config: Mapping[str, object] | None = None,
    check: bool = True,
) -> SparkSession:
    """Makes or finds the session, registers the source, and sends the package along if asked.

    `ship="zip"` sends the package itself, for executors that have the libraries it needs; `ship="venv"` sends all
    libraries of this program's virtual environment. With `check` the executors of a cluster are asked what they lack,
    which takes one small job. On a local master checkpoints are written without a process for each file.
    """
    from pyspark.sql import SparkSession

    from bifrost.spark.java import require_java
    from bifrost.spark.source import BifrostSource

    running = SparkSession.getActiveSession()
    if running is None:
        require_java()
    settings = _settings(master, config or {})
    if ship not in (None, "zip", "venv"):
        raise OptionError(f"ship cannot be {ship!r}", "It is 'zip', 'venv' or None.")
    if ship is not None and running is None:
        settings |= _sent_along(ship, settings)
    elif ship is not None and running is not None:
        _send_later(ship, running)
    _choose_python(master)
    builder = SparkSession.builder.appName(app_name)
    if master is not None:
        builder = builder.master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        spark.dataSource.register(BifrostSource)
        if check and not _is_local(str(spark.sparkContext.master)):
            tell_what_executors_lack(spark)
    except BaseException:
        if running is None:
            spark.stop()  # or the next call would find it, and could not give it what it lacks
        raise
    return spark


def _settings(master: str | None, config: Mapping[str, object]) -> dict[str, str]:
    defaults = _CHECKPOINTS if master is not None and _is_local(master) else {}
    return {**defaults, **{name: str(value) for name, value in config.items()}}


def _sent_along(ship: Ship, settings: Mapping[str, str]) -> dict[str, str]:
    """Settings for a session that is yet to start."""
    from bifrost.spark.shipping import libraries_config, pack_libraries, package_config, zip_package

    if ship == "zip":
        return package_config(zip_package(), settings)
    _log.info("packing the libraries of %s", sys.prefix)
    return libraries_config(pack_libraries(), settings)


def _send_later(ship: Ship, running: SparkSession) -> None:
    """Executors that run already can be given a file, unless the session keeps its files apart from those of all."""
    from bifrost.spark.shipping import zip_package

    apart = running.conf.get("spark.sql.artifact.isolation.enabled", "false") == "true"
    if ship != "zip" or apart:
        remedy = "Stop it first." if apart else "Stop it first, or use ship='zip'."
        raise OptionError(f"ship={ship!r} cannot be had in a session that is running already", remedy)
    running.sparkContext.addPyFile(str(zip_package()))


def _choose_python(master: str | None) -> None:
    """Spark plans a query in a Python process on the driver. It has to be this Python, which knows this package.

    For a cluster Spark takes the name of one interpreter for both sides: `python3`, unless PYSPARK_PYTHON says
    otherwise. The name stays, and means this interpreter on the driver, as if its environment were activated.
    """
    if "PYSPARK_PYTHON" in os.environ or master is None:
        return
    if _is_local(master):
        os.environ["PYSPARK_PYTHON"] = sys.executable
    else:
        os.environ["PATH"] = os.pathsep.join((os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)))


def _is_local(master: str) -> bool:
    """In this process: `local` and `local[2]` are, `local-cluster[...]` and the rest are not."""
    return master == "local" or master.startswith("local[")


def tell_what_executors_lack(spark: SparkSession) -> list[str]:
    """Asks executors which modules they can import; raises for one that is needed, and warns of one that is missed."""
    from pyspark.sql.functions import udf

    wanted = ("bifrost", *_NEEDED, *_FASTER)

    def lacking(_: object) -> list[str]:
        """Inside, for Spark to send it as it stands: an executor may have no module to import it from."""
        from importlib.util import find_spec
        from socket import gethostname

        return [gethostname(), *(name for name in wanted if find_spec(name) is None)]

    # Not by an RDD: its tasks may run in another directory than those of queries, and find other modules there.
    # Not by Arrow, which may be what is lacking.
    ask = udf(lacking, "array<string>", useArrow=False)
    tasks = spark.sparkContext.defaultParallelism
    answers = spark.range(0, tasks, numPartitions=tasks).select(ask("id")).collect()
    found = sorted({(host, name) for ((host, *names),) in answers for name in names})
    missing = [(host, name) for host, name in found if name not in _FASTER]
    if missing:
        hosts = ", ".join(sorted({host for host, _ in missing}))
        names = ", ".join(sorted({name for _, name in missing}))
        raise OptionError(
            f"the Python of the executors on {hosts} lacks {names}",
            "Install bifrost-stream[spark] there, or bring it along: session(ship='venv'), or --ship venv.",
        )
    if found:
        _log.warning("the executors' Python has no numba: reading and writing takes several times the processor time")
    return sorted({name for _, name in found})
