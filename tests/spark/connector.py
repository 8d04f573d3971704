"""Spark's own Kafka connector, where it can be had: from jars that are named, else from Maven.

`BIFROST_SPARK_CONNECTOR` names jars with commas between them: the connector and what it needs.
"""

from __future__ import annotations

import os
from pathlib import Path

from tests.compat import cache

NAMED_BY = "BIFROST_SPARK_CONNECTOR"


def connector_jars() -> list[Path]:
    """All jars that `format("kafka")` needs beside Spark's own; `Unavailable` if there are none."""
    import pyspark

    named = os.environ.get(NAMED_BY)
    if named:
        return [Path(each).resolve(strict=True) for each in named.split(",")]
    version = pyspark.__version__

    def download(target: Path) -> None:
        mvn = cache.tool("mvn", "Debian: apt-get install maven")
        (target / "pom.xml").write_text(_pom(version))
        command = [mvn, "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime"]
        cache.run(
            [*command, f"-DoutputDirectory={target / 'libs'}"],
            what=f"Maven download of Spark's Kafka connector (or name its jars in {NAMED_BY})",
            cwd=target,
        )

    return sorted((cache.once(f"spark-kafka-{version}", download) / "libs").glob("*.jar"))


def _pom(version: str) -> str:
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>connector</groupId><artifactId>connector</artifactId><version>1</version><packaging>pom</packaging>"
        "<dependencies><dependency><groupId>org.apache.spark</groupId>"
        f"<artifactId>spark-sql-kafka-0-10_2.13</artifactId><version>{version}</version>"
        "</dependency></dependencies></project>\n"
    )
