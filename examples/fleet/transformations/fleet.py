"""From positions to alerts: cleaned, gathered in windows of five minutes of the trucks' own time, and judged."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()
CLUSTER = {"kafka.bootstrap.servers": spark.conf.get("spark.bifrost.bootstrap")}
WINDOW = "5 minutes"
LATEST = "10 minutes"
"""How far a report may lag behind the newest one and still count."""
TOO_FAST_KMH = 100
FIELDS = "truck STRING, seq BIGINT, at_ms BIGINT, lat DOUBLE, lon DOUBLE, speed_kmh INT"


@dp.temporary_view
def cleaned() -> DataFrame:
    """What is JSON, and from Earth."""
    topic = spark.readStream.format("bifrost").options(**CLUSTER, subscribe="truck-positions")
    parsed = topic.options(startingOffsets="earliest", valueFormat="json", mode="dropmalformed").schema(FIELDS).load()
    real = parsed.where("truck IS NOT NULL AND lat BETWEEN -90 AND 90 AND lon BETWEEN -180 AND 180")
    timed = real.where("speed_kmh BETWEEN 0 AND 200").withColumn("at", F.timestamp_millis("at_ms"))
    return timed.withWatermark("at", LATEST)


@dp.table
def positions() -> DataFrame:
    """All of them, whenever they came."""
    return spark.readStream.table("cleaned")


@dp.table
def truck_windows() -> DataFrame:
    """Speed and stops of each truck, once no report in time can change them any more."""
    gathered = (
        spark.readStream.table("cleaned")
        .groupBy("truck", F.window("at", WINDOW))
        .agg(
            F.count("*").alias("reports"),
            F.avg("speed_kmh").alias("mean_kmh"),
            F.max("speed_kmh").alias("top_kmh"),
            F.sum(F.expr("CAST(speed_kmh = 0 AS INT)")).alias("stopped"),
            F.max_by("lat", "at").alias("lat"),
            F.max_by("lon", "at").alias("lon"),
        )
    )
    return gathered.select(
        "truck", F.col("window.start").alias("start"), "reports", "mean_kmh", "top_kmh", "stopped", "lat", "lon"
    )


dp.create_sink("alerts", "bifrost", {**CLUSTER, "topic": "truck-alerts"})


@dp.append_flow(target="alerts")
def alerts() -> DataFrame:
    """Too fast, or standing for a whole window."""
    kind = F.expr(f"CASE WHEN top_kmh > {TOO_FAST_KMH} THEN 'speeding' WHEN stopped = reports THEN 'standing' END")
    # select, not withColumn: that would look the table up here and now, and Spark would not wait for its flow.
    windows = spark.readStream.table("truck_windows").select("*", kind.alias("kind"))
    said = F.struct("truck", "kind", F.unix_millis("start").alias("start_ms"), "top_kmh", "stopped")
    return windows.where("kind IS NOT NULL").select(F.col("truck").alias("key"), F.to_json(said).alias("value"))
