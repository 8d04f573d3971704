"""What the data source raises by itself. Spark shows these on the driver, with the text as it stands here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bifrost.client.errors import (
    BifrostError,
    ConfigError,
    InvalidRequestError,
    TimedOutError,
    UnknownTopicError,
    UnreachableError,
)


class OptionError(ConfigError):
    """An option of the source or sink that cannot be; the text names it and shows what can."""


class MissingSoftwareError(BifrostError):
    """Spark, or the Java that it needs, is not installed; the hint names what to install."""


class DataLossError(BifrostError):
    """Records that the query was to read are gone, or may be."""


class MalformedValueError(BifrostError, ValueError):
    """A value that is not what `valueFormat` promises, where `mode` is failfast."""


class SchemaError(BifrostError, ValueError):
    """Columns that the source cannot give or the sink cannot take."""


class StalledError(BifrostError, TimeoutError):
    """The broker has the partition but not the records that it said it had."""


@contextmanager
def told_of(option: str) -> Iterator[None]:
    """A topic that does not exist, or cannot, is an error that says where its name came from."""
    try:
        yield
    except (UnknownTopicError, InvalidRequestError) as error:
        raise type(error)(f"{option}: {error.problem}", error.hint, code=error.code) from error


@contextmanager
def first_contact() -> Iterator[None]:
    """The same for the address of a cluster that nobody has heard of yet."""
    try:
        yield
    except (UnreachableError, TimedOutError) as error:
        raise type(error)(f"kafka.bootstrap.servers: {error.problem}", error.hint, code=error.code) from error
