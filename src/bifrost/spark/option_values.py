"""Options as typed values: numbers, switches and spans of time, with errors that name the option."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from bifrost.client.errors import ConfigError
from bifrost.spark.failures import OptionError
from bifrost.spark.option_table import KAFKA_PREFIX, OPTIONS

_SPAN: Final = re.compile(r"(\d+)\s*([a-z]*)")
_UNITS_MS: Final = {
    "us": 0.001, "ms": 1, "": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000,
}  # fmt: skip


class OptionValues(Mapping[str, str]):
    """What the program set, under names whose case does not matter.

    Spark hands over a mapping like this one, but `dict()` of it is an ordinary one with names in lower case: then
    `get("maxOffsetsPerTrigger")` finds nothing, and nobody notices. Hence one wrapper, made once.
    """

    def __init__(self, given: Mapping[str, str]) -> None:
        self._values = {name.lower(): value for name, value in given.items()}

    def __getitem__(self, name: str) -> str:
        return self._values[name.lower()]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def text(self, name: str) -> str | None:
        """Without blanks around it, or None if it is not set."""
        assert name.lower() in OPTIONS, name
        value = self._values.get(name.lower())
        return None if value is None else value.strip()

    def integer(self, name: str, *, at_least: int) -> int | None:
        value = self.text(name)
        if value is None:
            return None
        try:
            number = int(value)
        except ValueError:
            raise OptionError(f"{name} is not a whole number: {value}", f"Give a number from {at_least} on.") from None
        if number < at_least:
            raise OptionError(f"{name} is {number}", f"Give a number from {at_least} on.")
        return number

    def switch(self, name: str, *, default: bool) -> bool:
        value = self.text(name)
        if value is None:
            return default
        if value.lower() not in {"true", "false"}:
            raise OptionError(f"{name} is neither true nor false: {value}")
        return value.lower() == "true"

    def choice(self, name: str, among: tuple[str, ...]) -> str | None:
        """One of some words, case aside."""
        value = self.text(name)
        if value is not None and value.lower() not in among:
            raise OptionError(f"{name} cannot be {value}", f"It is {' or '.join(among)}.")
        return value.lower() if value is not None else None

    def span_ms(self, name: str, default: str) -> int:
        """A span of time as Spark writes it: 15m, 30s, 500ms; a bare number is milliseconds."""
        value = self.text(name) or default
        match = _SPAN.fullmatch(value.lower())
        if match is None or match[2] not in _UNITS_MS:
            raise OptionError(f"{name} is no span of time: {value}", "Write it as 500ms, 30s, 15m, 2h or 1d.")
        return int(int(match[1]) * _UNITS_MS[match[2]])

    def words(self, name: str) -> list[str]:
        """What stands between commas, in order, each once."""
        return list(dict.fromkeys(word.strip() for word in (self.text(name) or "").split(",") if word.strip()))

    def kafka_settings(self) -> dict[str, str]:
        """What begins with `kafka.`, without that."""
        return {
            name.removeprefix(KAFKA_PREFIX): value
            for name, value in self._values.items()
            if name.startswith(KAFKA_PREFIX)
        }

    def bootstrap(self) -> str:
        servers = self._values.get("kafka.bootstrap.servers", "").strip()
        if not servers:
            raise OptionError("kafka.bootstrap.servers is not set", "Give the address of a broker: host:9092.")
        return servers


def checked_settings(settings: dict[str, str]) -> dict[str, str]:
    """Each is one of Kafka's clients, with a value that can be: otherwise tasks would be the first to complain.

    Checking loads the wire client, so that only those programs wait for it that set something.
    """
    if settings:
        from bifrost.client.wire.settings import read_settings

        try:
            read_settings(settings)
        except ConfigError as error:
            raise OptionError(f"of the options that begin with kafka.: {error.problem}", error.hint) from None
    return settings
