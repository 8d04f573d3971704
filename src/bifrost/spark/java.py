"""Whether there is a Java that Spark can use. Spark itself says only that some process has ended."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from typing import Final

from bifrost.spark.failures import MissingSoftwareError

JAVA_LEAST: Final = 17


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
