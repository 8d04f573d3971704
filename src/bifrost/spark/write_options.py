"""What a program asked of the sink."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from bifrost.spark.failures import OptionError
from bifrost.spark.option_table import Use, check_names
from bifrost.spark.option_values import OptionValues, checked_settings

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
BATCH_BYTES: Final = 500_000
"""Half of what a broker takes by default, so that a batch passes whatever it was made of."""

IN_FLIGHT_MAX: Final = 5
"""Of so many batches of a partition a broker recognises repetitions."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """All of it; pickled to every task."""

    bootstrap: str
    settings: Mapping[str, str]
    """Of the wire client, under Kafka's names."""
    topic: str | None
    """For all rows; it goes before a column of that name."""
    acks: int = -1
    idempotent: bool = True
    codec: str = "none"
    batch_bytes: int = BATCH_BYTES
    max_in_flight: int = IN_FLIGHT_MAX


def write_options(given: Mapping[str, str], use: Use) -> WriteOptions:
    """Checks everything that can be checked without a broker."""
    options = OptionValues(given)
    check_names(options, use)
    settings = options.kafka_settings()
    bootstrap = options.bootstrap()
    settings.pop("bootstrap.servers")
    topic = options.text("topic")
    if topic is not None and not topic:
        raise OptionError("topic is empty", "Name one, or leave the option away and give the rows a column topic.")
    acks = _acks(settings.pop("acks", "all"))
    idempotence = settings.pop("enable.idempotence", None)
    if idempotence is not None and idempotence.strip().lower() not in {"true", "false"}:
        raise OptionError(f"kafka.enable.idempotence is neither true nor false: {idempotence}")
    if acks != -1 and idempotence is not None and idempotence.strip().lower() == "true":
        raise OptionError(f"kafka.enable.idempotence needs all acknowledgements, kafka.acks is {acks}")
    # As in Kafka's producer: idempotence is on unless fewer acknowledgements, or the program itself, speak against it.
    idempotent = acks == -1 if idempotence is None else idempotence.strip().lower() == "true"
    return WriteOptions(
        bootstrap=bootstrap,
        topic=topic,
        acks=acks,
        idempotent=idempotent,
        codec=_codec(settings.pop("compression.type", "none")),
        batch_bytes=_number(settings, "batch.size", BATCH_BYTES),
        max_in_flight=_number(settings, "max.in.flight.requests.per.connection", IN_FLIGHT_MAX, most=IN_FLIGHT_MAX),
        settings=checked_settings(settings),
    )


def _acks(given: str) -> int:
    known = {"all": -1, "-1": -1, "1": 1}
    if given.strip().lower() not in known:
        raise OptionError(
            f"kafka.acks cannot be {given}",
            "It is all or 1: a task that hears nothing cannot tell Spark that it is done.",
        )
    return known[given.strip().lower()]


def _codec(given: str) -> str:
    if given.strip().lower() not in CODECS:
        raise OptionError(f"kafka.compression.type cannot be {given}", f"It is {', '.join(CODECS)}.")
    return given.strip().lower()


def _number(settings: dict[str, str], name: str, default: int, most: int | None = None) -> int:
    given = settings.pop(name, None)
    if given is None:
        return default
    if not given.strip().isdecimal() or int(given) == 0 or (most is not None and int(given) > most):
        raise OptionError(f"kafka.{name} is {given}", f"Give a number from 1 {'on' if most is None else f'to {most}'}.")
    return int(given)
