"""Whether Spark can start here at all. Asked first, so that nobody waits for an answer of a hundred lines."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

from bifrost.spark.failures import MissingSoftwareError
from bifrost.spark.java import require_java

_MODULES: Final = ("pyspark", "grpc", "grpc_status", "yaml", "pandas", "pyarrow")
_INSTALL_SPARK: Final = "pip install 'bifrost-stream[spark]'"


def require_spark(master: str = "local") -> None:
    """Raises MissingSoftwareError, which names the one thing to install. A driver elsewhere needs no Java here."""
    missing = [name for name in _MODULES if find_spec(name) is None]
    if missing:
        raise MissingSoftwareError(f"Python here has no {missing[0]}, which pipelines need", f"{_INSTALL_SPARK}")
    if not master.startswith("sc://"):
        require_java()
