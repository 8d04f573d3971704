"""Whether Spark can start here at all. Asked first, so that nobody waits for an answer of a hundred lines."""

from __future__ import annotations

import socket
import warnings
from importlib.util import find_spec
from typing import Final

from bifrost.client.errors import UnreachableError
from bifrost.spark.failures import MissingSoftwareError
from bifrost.spark.java import require_java

_MODULES: Final = ("pyspark", "grpc", "grpc_status", "yaml", "pandas", "pyarrow")
_PORTS: Final = {"spark": "7077", "sc": "15002"}
_PATIENCE_S: Final = 5.0
_INSTALL_SPARK: Final = "pip install 'bifrost-stream[spark]'"


def require_spark(master: str = "local") -> None:
    """Raises MissingSoftwareError, which names the one thing to install. A driver elsewhere needs no Java here."""
    missing = [name for name in _MODULES if find_spec(name) is None]
    if missing:
        raise MissingSoftwareError(f"Python here has no {missing[0]}, which pipelines need", f"{_INSTALL_SPARK}")
    if not master.startswith("sc://"):
        require_java()


def trust_pandas() -> None:
    """Spark warns of every new pandas as soon as it is imported; what pipelines use of it works."""
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)


def check_master(master: str) -> None:
    """Raises UnreachableError if a master is named by its address and nobody is there; Spark tries for a minute."""
    scheme, _, rest = master.partition("://")
    if scheme not in _PORTS or not rest:
        return
    refused = ""
    for address in rest.partition("/")[0].split(","):
        host, _, port = address.rpartition(":") if ":" in address else (address, "", _PORTS[scheme])
        try:
            socket.create_connection((host.strip("[]"), int(port)), _PATIENCE_S).close()
        except (OSError, ValueError) as error:
            refused = refused or getattr(error, "strerror", None) or str(error)
        else:
            return
    raise UnreachableError(f"no Spark answers at {master}: {refused}", "Is it running, and is the address right?")
