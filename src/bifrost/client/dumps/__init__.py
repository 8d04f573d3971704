"""Topics as files: carry real records into a test, a notebook or another cluster, and back.

    from bifrost.client.dumps import dump, load

    dump("orders", "orders.parquet", bootstrap="localhost:9092")
    load("orders-copy", "orders.parquet", bootstrap="localhost:9092")

Keys, values, headers, timestamps, partitions, nulls and bytes that are no text come back as they were. Memory is
bounded, whatever the size of the topic. A file appears under its name only when it is whole.
"""

from __future__ import annotations

from bifrost.client.dumps.dump import Dumped, Range, dump
from bifrost.client.dumps.load import Loaded, LoadError, load

__all__ = ["Dumped", "LoadError", "Loaded", "Range", "dump", "load"]
