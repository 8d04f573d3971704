"""Whether Spark can start here at all. Asked first, so that nobody waits for an answer of a hundred lines."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from importlib.util import find_spec
from typing import Final

from bifrost.client.errors import UnreachableError
from bifrost.pipeline.failures import MissingSoftwareError

JAVA_LEAST: Final = 17
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


def require_java() -> None:
    """A Java that Spark can use, found as Spark finds it: JAVA_HOME first, then the path."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=os.path.join(home, "bin")) if home else shutil.which("java")
    if java is None:
        found = f"JAVA_HOME is {home}, and there is no java in it" if home else "there is no java on this machine"
        raise MissingSoftwareError(f"Spark runs on Java, and {found}", f"{_install_java()}")
    version = _version(java)
    if version is not None and version < JAVA_LEAST:
        raise MissingSoftwareError(
            f"Spark needs Java {JAVA_LEAST} or newer, and {java} is {version}", f"{_install_java()}"
        )


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


def _version(java: str) -> int | None:
    """The major version; None if Java does not say it in a way that we understand, and then Spark may decide."""
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', told.stderr + told.stdout)
    return int(found[1]) if found else None


def _install_java() -> str:
    if sys.platform == "darwin":
        return "brew install openjdk@17"
    for manager, command in (
        ("apt-get", "apt-get install openjdk-17-jre-headless"),
        ("dnf", "dnf install java-17-openjdk-headless"),
        ("apk", "apk add openjdk17-jre-headless"),
        ("pacman", "pacman -S jre17-openjdk-headless"),
    ):
        if shutil.which(manager):
            return command
    return "Install a Java runtime, version 17 or newer."
