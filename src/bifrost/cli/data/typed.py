"""Values of options as they were typed, with a ConfigError that names the option if they make no sense."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from bifrost.cli.data.properties import for_librdkafka, load
from bifrost.cli.data.times import TimeError, parse_moment, parse_timeout
from bifrost.cli.output import remark
from bifrost.client.clusters import Connection, resolve
from bifrost.client.errors import ConfigError


def timeout_ms(option: str, text: str, *, bare_unit: str = "s") -> int:
    try:
        return parse_timeout(text, bare_unit=bare_unit)
    except TimeError as error:
        raise ConfigError(f"{option}: {error}") from None


def moment_ms(option: str, text: str) -> int:
    try:
        return parse_moment(text, int(time.time() * 1000))
    except TimeError as error:
        raise ConfigError(f"{option}: {error}") from None


def offset(text: str, *, relative: bool) -> str | int:
    """`earliest`, `latest` or a number; with `relative`, a negative number is so many before the end."""
    word = {"beginning": "earliest", "end": "latest"}.get(text.lower(), text.lower())
    if word in {"earliest", "latest"}:
        return word
    if word.isdecimal() or (relative and word[:1] == "-" and word[1:].isdecimal()):
        return int(word)
    rest = "a number from 0 on, or -N for the last N" if relative else "a number from 0 on"
    raise ConfigError(f"--offset: {text!r} is no offset", f"It is earliest, latest, {rest}.")


def kcat_offsets(
    given: Sequence[str], since: str | None, until: str | None
) -> tuple[str | None, str | None, str | None]:
    """Where to start and what `s@` and `e@` say, kcat's `--since` and `--until` in milliseconds."""
    marks: dict[str, str | None] = {"s@": since, "e@": until, "": None}
    names = {"s@": "--since", "e@": "--until"}
    for text in given:
        mark = text[:2] if text[:2] in names else ""
        if marks[mark] is not None:
            raise ConfigError(f"--offset {text} and {names.get(mark, '--offset')} {marks[mark]} contradict each other")
        if mark and not text[2:].isdecimal():
            raise ConfigError(f"--offset: {text!r} is no moment", f"Behind {mark} come milliseconds since 1970.")
        marks[mark] = f"{int(text[2:]):013}" if mark else text
    return marks[""], marks["s@"], marks["e@"]


def connection(typed: Iterable[str | None], cluster: str | None, settings: dict[str, str]) -> Connection:
    """The first address that was typed; `bootstrap.servers`, which is taken out of the settings, comes last."""
    last = settings.pop("bootstrap.servers", None)
    return resolve(next((each for each in [*typed, last] if each), None), cluster=cluster)


def from_file(path: Path, bootstrap: str | None, cluster: str | None) -> tuple[str, dict[str, str]]:
    """The address and the settings of `--command-config`; a typed address wins over the file's."""
    if cluster is not None:
        raise ConfigError("--cluster and --command-config contradict each other", "Both say how to reach a cluster.")
    settings, left_out = for_librdkafka(load(path))
    remark_on(left_out)
    found = connection([bootstrap], None, settings)
    return found.bootstrap, found.config | settings


def reached(bootstrap: str | None, cluster: str | None, path: Path | None) -> Connection:
    """The cluster of a command that may have `--command-config`."""
    if path is None:
        return resolve(bootstrap, cluster=cluster)
    address, settings = from_file(path, bootstrap, cluster)
    return Connection(address, settings, None)


def remark_on(left_out: Iterable[str]) -> None:
    for name in left_out:
        remark(f"{name} is a setting of the Java client and was left out")
