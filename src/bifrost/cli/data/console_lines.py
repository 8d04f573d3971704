"""Lines as `kafka-console-producer` reads them, with the properties of its default reader.

The rules and names are those of Kafka's LineMessageReader: `h1:v1,h2:v2<TAB>key<TAB>value`, each part on request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from bifrost.cli.data.lines import Header, LineError, Record, shown
from bifrost.cli.output import remark
from bifrost.client.errors import ConfigError, nearest


@dataclass(frozen=True, slots=True)
class LineReader:
    """A property `parse.key` is the field `parse_key`."""

    parse_key: bool = False
    key_separator: bytes = b"\t"
    parse_headers: bool = False
    headers_delimiter: bytes = b"\t"
    headers_separator: bytes = b","
    headers_key_separator: bytes = b":"
    null_marker: bytes | None = None
    ignore_error: bool = False

    def __call__(self, line: bytes) -> Record:
        headers, rest = self._split(line, self.parse_headers, self.headers_delimiter, "headers delimiter")
        key, value = self._split(rest, self.parse_key, self.key_separator, "key separator")
        return Record(
            self._null(value),
            self._null(key),
            [] if headers is None or headers == self.null_marker else self._headers(headers),
        )

    def _split(self, line: bytes, enabled: bool, separator: bytes, name: str) -> tuple[bytes | None, bytes]:
        if not enabled:
            return None, line
        part, found, rest = line.partition(separator)
        if found:
            return part, rest
        if self.ignore_error:
            return None, line
        raise LineError(f"there is no {name} {shown(separator)} in {shown(line)}")

    def _headers(self, text: bytes) -> list[Header]:
        found: list[Header] = []
        for pair in text.split(self.headers_separator):
            name, separator, value = pair.partition(self.headers_key_separator)
            if not separator and not self.ignore_error:
                raise LineError(f"there is no header key separator in {shown(pair)}")
            if separator and name == self.null_marker:
                raise LineError(f"the name of a header is the null marker {shown(name)}, and a name cannot be null")
            found.append((name.decode("utf-8", "replace"), self._null(value) if separator else None))
        return found

    def _null(self, part: bytes | None) -> bytes | None:
        return None if part == self.null_marker else part


_FLAGS = {"parse_key", "parse_headers", "ignore_error"}


def line_reader(properties: Mapping[str, str]) -> LineReader:
    """From `--reader-property` and `--property`; ConfigError for a combination that makes no sense.

    A name that nobody knows is only remarked upon: Kafka's tool does not mind, and pages show some that are gone.
    """
    known = {field.name.replace("_", "."): field.name for field in fields(LineReader)}
    given: dict[str, bool | bytes] = {}
    for name, value in properties.items():
        if name == "topic":  # the reader of Kafka is told the topic this way
            continue
        if name not in known:
            hint = nearest(name, known) or f"It has: {', '.join(known)}."
            remark(f"the reader has no property {name}, which is ignored. {hint}")
            continue
        field = known[name]
        given[field] = value.strip().lower() == "true" if field in _FLAGS else value.encode()
    reader = LineReader(**given)  # type: ignore[arg-type]  # bool and bytes go where _FLAGS says
    _check(reader)
    return reader


def _check(reader: LineReader) -> None:
    """Marks that are equal cannot be told apart."""
    marks = ("headers_delimiter", "headers_separator", "headers_key_separator", "null_marker")
    pairs = [(one, other) for index, one in enumerate(marks) for other in marks[index + 1 :]]
    for one, other in [*pairs, ("key_separator", "null_marker")]:
        if getattr(reader, one) == getattr(reader, other):
            names = [name.replace("_", ".") for name in (one, other)]
            raise ConfigError(f"{names[0]} and {names[1]} are equal", "Choose different ones.")
    for name in ("key_separator", *marks[:3]):
        if not getattr(reader, name):
            raise ConfigError(f"{name.replace('_', '.')} is empty", "Give it at least one character.")
