"""A Spark driver in this process with a Connect server in it, which is what Spark's pipelines are told through.

On any master: the driver is an ordinary one, and its Connect server listens on this machine only, on a port that the
system chose, with a token of this process. An address `sc://` means a server that runs already.
"""

from __future__ import annotations

import logging
import os
import secrets
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from subprocess import Popen
from traceback import walk_tb
from typing import TYPE_CHECKING, Any, Final

from bifrost.client.errors import BifrostError, UnsupportedError
from bifrost.pipeline.failures import PipelineError, cause
from bifrost.pipeline.prerequisites import trust_pandas

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from bifrost.spark.sessions import Ship

SERVER: Final = {
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
    "spark.sql.artifact.isolation.enabled": "true",
    "spark.sql.artifact.isolation.alwaysApplyClassloader": "true",
}
"""What a session needs so that pipelines can run in it."""
_QUIET: Final = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "WARN"}
_MODE: Final = "SPARK_CONNECT_MODE_ENABLED"
_TOKEN: Final = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
_SERVICE: Final = "org.apache.spark.sql.connect.service.SparkConnectService$"


@contextmanager
def connected(
    name: str,
    master: str,
    settings: Mapping[str, str],
    runtime: Mapping[str, str],
    log: Path | None = None,
    ship: Ship | None = None,
) -> Iterator[SparkSession]:
    """A session of Spark Connect. `runtime` is for it in any case, `settings` and `ship` for a driver that is started.

    What the driver prints goes to the file `log`. A driver that this program had started before is used, and stays.
    """
    from pyspark.errors import PySparkException

    if ship is not None and master.startswith("sc://"):
        raise UnsupportedError(
            f"nothing can be sent to the executors of a server that runs already: {master}",
            "Leave out --ship; the package is to be there.",
        )
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    with ExitStack() as stack:
        if master.startswith("sc://"):
            url = master
        else:
            running = _running() or stack.enter_context(driver(name, master, settings, log, ship))
            url = f"sc://localhost:{_port(running)}"
        builder: Any = ConnectSession.builder.remote(url).config("spark.sql.connect.serverStacktrace.enabled", "false")
        for key, value in runtime.items():
            builder = builder.config(key, value)
        try:
            session = builder.create()
        except PySparkException as error:
            raise PipelineError(f"no session of Spark at {url}: {cause(str(error))}", _see(log)) from error
        stack.callback(session.stop)
        if not master.startswith(("sc://", "local[")) and master != "local":
            from bifrost.spark.source import BifrostSource

            # Found by itself, the source would be run with this driver's Python, which need not be where executors are.
            session.dataSource.register(BifrostSource)
        stack.enter_context(_connect_mode())
        yield session


def _running() -> SparkSession | None:
    from pyspark.sql import SparkSession

    session = SparkSession._instantiatedSession
    return session if session is not None and session._sc._jsc is not None else None


@contextmanager
def driver(
    name: str,
    master: str,
    settings: Mapping[str, str] | None = None,
    log: Path | None = None,
    ship: Ship | None = None,
) -> Iterator[SparkSession]:
    """A session in which any number of pipelines can run, one after the other: every `run` meanwhile uses it."""
    from bifrost.spark import session

    trust_pandas()
    os.environ.setdefault(_TOKEN, secrets.token_hex())
    if master == "local" or master.startswith("local["):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with _silent_py4j():
        try:
            with _printing_to(log):
                started = session(name, master=master, ship=ship, config=_QUIET | SERVER | dict(settings or {}))
        except KeyboardInterrupt as interrupt:
            _end_java(interrupt)
            raise
        except BifrostError:
            raise
        except Exception as error:
            raise PipelineError(f"Spark does not start on {master}: {cause(str(error))}", _see(log)) from error
        try:
            yield started
        finally:
            started.stop()


def _end_java(interrupt: BaseException) -> None:
    """A JVM that was still starting would run for ever: pyspark takes away the directory in which it was to report."""
    for frame, _ in walk_tb(interrupt.__traceback__):
        process = frame.f_locals.get("proc")
        if frame.f_code.co_name == "launch_gateway" and isinstance(process, Popen):
            process.terminate()
            process.wait()


def _port(running: SparkSession) -> int:
    """Where its Connect server listens."""
    if "SparkConnectPlugin" not in str(running.sparkContext.getConf().get("spark.plugins", "")):
        raise UnsupportedError(
            "this program has a Spark session that cannot run pipelines",
            "Stop it, or make it with the settings of bifrost.pipeline.connect.SERVER.",
        )
    service = getattr(getattr(running._jvm, _SERVICE), "MODULE$")
    return int(service.localPort())


@contextmanager
def _connect_mode() -> Iterator[None]:
    """Functions of pyspark ask the environment whether columns are Connect's or the driver's own."""
    before = os.environ.get(_MODE)
    os.environ[_MODE] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_MODE]


@contextmanager
def _silent_py4j() -> Iterator[None]:
    """What it raises is told; it would log the traceback as well, and Ctrl-C is no reason for one."""

    def is_news(record: logging.LogRecord) -> bool:
        return f"{os.sep}py4j{os.sep}" not in record.pathname

    root, own = logging.getLogger(), logging.getLogger("py4j")
    level = own.level
    root.addFilter(is_news)  # part of it is logged as if it were the program's own
    own.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        root.removeFilter(is_news)
        own.setLevel(level)


@contextmanager
def _printing_to(log: Path | None) -> Iterator[None]:
    """What starts meanwhile, the JVM and through it Python's workers, prints to the file for as long as it lives."""
    if log is None:
        yield
        return
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(1), os.dup(2)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept[0], 1)
        os.dup2(kept[1], 2)
        for each in kept:
            os.close(each)


def _see(log: Path | None) -> str:
    return "" if log is None else f"Spark's own words are in {log}."
