"""Where Apache Kafka's jars are kept, and how they get there once.

The cache holds `kafka-<version>/libs/*.jar`; `.done` says that the folder is whole, `.lock` is held while Maven fills
it, so that two runs that start together fetch once. The jars never enter the repository. No address of a registry is
written here: Maven's own settings say where it looks.
"""

from __future__ import annotations

import fcntl
import os
import pathlib
import shutil
import subprocess
import tempfile

KAFKA_VERSION = "4.3.0"
LOG4J_VERSION = "2.24.3"
DOWNLOAD_SECONDS_MAX = 600

_DEPENDENCIES = (
    ("org.apache.kafka", "kafka_2.13", KAFKA_VERSION),
    ("org.apache.kafka", "kafka-tools", KAFKA_VERSION),
    ("org.apache.logging.log4j", "log4j-slf4j-impl", LOG4J_VERSION),
    ("org.apache.logging.log4j", "log4j-1.2-api", LOG4J_VERSION),
    ("org.apache.logging.log4j", "log4j-core", LOG4J_VERSION),
)


class KafkaUnavailableError(RuntimeError):
    """Java, Maven or the jars could not be had; the text names what is missing."""


def cache_root() -> pathlib.Path:
    """`BIFROST_CACHE`, else the user's cache folder as the XDG base directory specification has it."""
    if chosen := os.environ.get("BIFROST_CACHE"):
        return pathlib.Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (pathlib.Path(base) if base else pathlib.Path.home() / ".cache") / "bifrost"


def java() -> str:
    found = shutil.which("java")
    if found is None:
        raise KafkaUnavailableError(
            "no java on PATH: install a Java runtime, 17 or newer (Debian: openjdk-17-jre-headless)"
        )
    return found


def ensure_jars() -> pathlib.Path:
    """The folder of jars, downloaded at the first call on this machine (about a minute)."""
    home = cache_root() / f"kafka-{KAFKA_VERSION}"
    libs, done = home / "libs", home / ".done"
    home.mkdir(parents=True, exist_ok=True)
    with (home / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            _download(libs)
            done.write_text(f"{len(list(libs.glob('*.jar')))} jars\n")
    return libs


def _download(libs: pathlib.Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise KafkaUnavailableError("no mvn on PATH: install Maven (Debian: maven) to fetch Apache Kafka's jars")
    with tempfile.TemporaryDirectory() as folder:
        pom = pathlib.Path(folder) / "pom.xml"
        pom.write_text(_pom())
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={libs}"]
        command = [maven, "-q", "-B", "-f", str(pom), *goal]
        try:
            outcome = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_SECONDS_MAX, check=False)
        except subprocess.TimeoutExpired as error:
            raise KafkaUnavailableError(f"Maven took more than {DOWNLOAD_SECONDS_MAX} s") from error
    if outcome.returncode != 0:
        raise KafkaUnavailableError(f"Maven failed: {(outcome.stdout + outcome.stderr)[-2000:]}")


def _pom() -> str:
    wanted = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version></dependency>"
        for group, artifact, version in _DEPENDENCIES
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>bifrost</groupId><artifactId>kafka-jars</artifactId><version>1</version>"
        f"<dependencies>{wanted}</dependencies></project>"
    )
