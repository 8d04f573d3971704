"""What Spark finds under `format("bifrost")`, and asks for readers and writers. Decides nothing itself."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from bifrost.spark.batch_reader import BifrostReader, PushdownReader
from bifrost.spark.brokers import check_target
from bifrost.spark.failures import OptionError
from bifrost.spark.option_table import Use
from bifrost.spark.read_options import read_options
from bifrost.spark.rows import default_schema
from bifrost.spark.sink import BifrostStreamWriter, BifrostWriter
from bifrost.spark.stream_reader import BifrostStreamReader
from bifrost.spark.write_options import write_options


class BifrostSource(DataSource):
    """Topics as DataFrames. Every option is described in docs/spark.md."""

    @classmethod
    def name(cls) -> str:
        return "bifrost"

    def schema(self) -> StructType:
        """Asked by load(), so that a mistake in the options is told right there."""
        return default_schema(read_options(self.options, Use.READ))

    def reader(self, schema: StructType) -> BifrostReader:
        options = read_options(self.options, Use.BATCH_READ)
        return (PushdownReader if options.pushdown else BifrostReader)(options, schema)

    def streamReader(self, schema: StructType) -> BifrostStreamReader:  # noqa: N802 - Spark's name
        return BifrostStreamReader(read_options(self.options, Use.STREAM_READ), schema)

    def writer(self, schema: StructType, overwrite: bool) -> BifrostWriter:
        if overwrite:
            raise OptionError("a topic cannot be overwritten", 'Use mode("append"), or write to a new topic.')
        options = write_options(self.options, Use.BATCH_WRITE)
        check_target(options)
        return BifrostWriter(options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> BifrostStreamWriter:  # noqa: ARG002, N802
        """In the mode "complete" Spark asks to overwrite; all rows are then written again, as in its Kafka sink."""
        options = write_options(self.options, Use.STREAM_WRITE)
        check_target(options)
        return BifrostStreamWriter(options, schema)
