"""What Spark looks for: it imports every top-level package named `pyspark_...` and asks for its `DefaultSource`.

That happens in each session that uses any Python data source, so nothing heavy is imported here.
"""

from __future__ import annotations

from bifrost.spark.source import BifrostSource as DefaultSource

__all__ = ["DefaultSource"]
