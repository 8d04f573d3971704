"""What a Spark finds that is too old for the source: a name, and an error that says so."""

from __future__ import annotations

from typing import NoReturn

from pyspark import __version__
from pyspark.sql.datasource import DataSource

from bifrost.client.errors import UnsupportedError


class OlderSparkSource(DataSource):
    """Can be looked up, and no more."""

    def __init__(self, options: dict[str, str]) -> NoReturn:  # noqa: ARG002 - Spark's name
        raise UnsupportedError(
            f'format("bifrost") needs PySpark 4.2 or newer, and this is {__version__}',
            "pip install 'bifrost-stream[spark]' brings one that fits.",
        )

    @classmethod
    def name(cls) -> str:
        return "bifrost"
