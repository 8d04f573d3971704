"""Topics as Spark DataFrames and back: `format("bifrost")`, through Spark's Python Data Source API and without a jar.

    from bifrost.spark import session

    spark = session("readings")
    topic = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "readings"}
    rows = spark.read.format("bifrost").options(**topic).load()

Options, their JSON and the columns are those of Spark's own Kafka connector. What decides (options, offsets, ranges,
admission) is pure and knows no Spark; `source.py` is what Spark finds. Nothing here knows a server: Apache Kafka serves
as well.
"""

from __future__ import annotations

TYPE_CHECKING = False  # a driver-side worker imports this for every query, and typing is not free

if TYPE_CHECKING:
    from bifrost.spark.sessions import session as session

__all__ = ["session"]


def __getattr__(name: str) -> object:
    if name != "session":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from bifrost.spark.sessions import session

    return session
