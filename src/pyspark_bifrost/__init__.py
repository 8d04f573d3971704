"""What Spark looks for: it imports every top-level package named `pyspark_...` and asks for its `DefaultSource`.

That happens in each session that uses any Python data source, so nothing heavy is imported here, and nothing may fail:
with an older Spark other sources still have to work.
"""

from __future__ import annotations

try:
    from bifrost.spark.source import BifrostSource as DefaultSource
except ImportError:
    from bifrost.spark.older_spark import OlderSparkSource as DefaultSource  # type: ignore[assignment]

__all__ = ["DefaultSource"]
