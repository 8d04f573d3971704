"""The two streams: totals of each category, and orders joined with their payments. Topics in, topics out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from examples.orders.shop import IN_TIME_MS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ORDERS, PAYMENTS, TOTALS, PAID = "orders", "payments", "category-totals", "paid-orders"


class Queries:
    """Each run takes what is there, and the next one goes on: checkpoints remember offsets, sums and unpaid orders."""

    def __init__(self, spark: SparkSession, bootstrap: str, checkpoints: Path) -> None:
        self._spark = spark
        self._cluster = {"kafka.bootstrap.servers": bootstrap}
        self._checkpoints = checkpoints

    def run(self) -> None:
        """Both at once, until all that is in the topics now has gone through."""
        running = [
            self._start(self.totals(), TOTALS, "complete"),
            self._start(self.paid(), PAID, "append"),
        ]
        for query in running:
            query.awaitTermination()

    def totals(self) -> DataFrame:
        """All categories in every run: the newest record of a category is its total."""
        from pyspark.sql import functions as F

        orders = self._read(ORDERS, "category STRING, cents BIGINT")
        sums = orders.groupBy("category").agg(F.count("*").alias("orders"), F.sum("cents").alias("cents"))
        return sums.select(F.col("category").alias("key"), F.to_json(F.struct("orders", "cents")).alias("value"))

    def paid(self) -> DataFrame:
        """Orders wait for half an hour for their payments; the watermarks say when that is over, in the shop's time."""
        from pyspark.sql import functions as F

        orders = self._read(ORDERS, "order BIGINT, category STRING, cents BIGINT, at_ms BIGINT")
        made = orders.withColumn("at", F.timestamp_millis("at_ms")).withWatermark("at", "5 minutes")
        payments = self._read(PAYMENTS, "order BIGINT, paid_cents BIGINT, paid_ms BIGINT")
        came = payments.withColumn("paid_at", F.timestamp_millis("paid_ms")).withWatermark("paid_at", "5 minutes")
        wait = F.expr(f"INTERVAL {IN_TIME_MS // 60_000} MINUTES")
        in_time = (came.paid_at >= made.at) & (came.paid_at <= made.at + wait)
        both = made.join(came, (made.order == came.order) & in_time, "inner")
        said = F.struct(made.order, "category", "cents", "paid_ms")
        return both.select(F.col("category").alias("key"), F.to_json(said).alias("value"))

    def _read(self, topic: str, schema: str) -> DataFrame:
        reader = self._spark.readStream.format("bifrost").options(**self._cluster, subscribe=topic)
        return reader.options(startingOffsets="earliest", valueFormat="json").schema(schema).load()

    def _start(self, frame: DataFrame, topic: str, mode: str) -> Any:
        writer = frame.writeStream.format("bifrost").options(**self._cluster, topic=topic).outputMode(mode)
        checkpoint = writer.option("checkpointLocation", str(self._checkpoints / topic))
        return checkpoint.trigger(availableNow=True).start()
