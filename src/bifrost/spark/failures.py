"""What the data source raises by itself. Spark shows these on the driver, with the text as it stands here."""

from __future__ import annotations

from bifrost.client.errors import BifrostError, ConfigError


class OptionError(ConfigError):
    """An option of the source or sink that cannot be; the text names it and shows what can."""


class DataLossError(BifrostError):
    """Records that the query was to read are gone, or may be."""


class MalformedValueError(BifrostError, ValueError):
    """A value that is not what `valueFormat` promises, where `mode` is failfast."""


class SchemaError(BifrostError, ValueError):
    """Columns that the source cannot give or the sink cannot take."""


class StalledError(BifrostError, TimeoutError):
    """The broker has the partition but not the records that it said it had."""
