"""Settings of Kafka's Java clients, as people type them, for librdkafka.

Most names are the same. The others are translated here; what only the Java client can use is left out with a remark,
since a command copied from a page must not fail for a setting that would change nothing it prints.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from bifrost.client.errors import ConfigError

_JAAS = re.compile(r'(\w+)\s*=\s*"([^"]*)"')
_ACKS = {"all", "-1", "1", "0"}
_SAME: Callable[[str], str] = str


def _kilobytes(value: str) -> str:
    return str(max(1, int(value) // 1024))


def _no_negative(value: str) -> str:
    """-1 is the system's default to Java; to librdkafka that is 0."""
    return str(max(0, int(value)))


_TRANSLATED: dict[str, tuple[str, Callable[[str], str]]] = {
    "buffer.memory": ("queue.buffering.max.kbytes", _kilobytes),
    "max.request.size": ("message.max.bytes", _SAME),
    "send.buffer.bytes": ("socket.send.buffer.bytes", _no_negative),
    "receive.buffer.bytes": ("socket.receive.buffer.bytes", _no_negative),
    "fetch.max.wait.ms": ("fetch.wait.max.ms", _SAME),
}
_JAVA_ONLY = {
    "key.serializer",
    "value.serializer",
    "key.deserializer",
    "value.deserializer",
    "max.block.ms",
    "partitioner.class",
    "max.poll.records",
    "interceptor.classes",
    "metric.reporters",
    "metrics.num.samples",
    "metrics.recording.level",
    "metrics.sample.window.ms",
    "default.api.timeout.ms",
    "exclude.internal.topics",
    "auto.include.jmx.reporter",
    "partitioner.ignore.keys",
    "partitioner.adaptive.partitioning.enable",
}


def load(path: Path | None) -> dict[str, str]:
    """A properties file, as the tools of Kafka take it."""
    from bifrost.settings import parse_properties

    if path is None:
        return {}
    try:
        return dict(parse_properties(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}", "It has lines such as linger.ms=5.") from error


def parse_assignments(assignments: Iterable[str], option: str) -> dict[str, str]:
    """`name=value` as typed. A value may hold `=`, and spaces count."""
    found: dict[str, str] = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals or not name.strip():
            raise ConfigError(f"{option} takes NAME=VALUE, not {assignment!r}", "Such as linger.ms=5.")
        found[name.strip()] = value
    return found


def _without_java(properties: Mapping[str, str]) -> dict[str, str]:
    """How Java clients log in and whom they trust, as librdkafka has it. ConfigError for what it cannot read."""
    rest = dict(properties)
    if login := rest.pop("sasl.jaas.config", None):
        parts = dict(_JAAS.findall(login))
        if not {"username", "password"} <= parts.keys():
            raise ConfigError("sasl.jaas.config has no username and password", "Give sasl.username and sasl.password.")
        rest = {"sasl.username": parts["username"], "sasl.password": parts["password"]} | rest
    trusted, kind = rest.pop("ssl.truststore.location", None), rest.pop("ssl.truststore.type", "JKS")
    rest.pop("ssl.truststore.password", None)
    if trusted is not None and kind.upper() != "PEM":
        raise ConfigError(
            f"ssl.truststore.location is a {kind} file, which only Java can read",
            "Export it as PEM and give ssl.ca.location.",
        )
    if trusted is not None:
        rest.setdefault("ssl.ca.location", trusted)
    if rest.get("ssl.endpoint.identification.algorithm") == "":
        rest["ssl.endpoint.identification.algorithm"] = "none"
    return rest


def for_librdkafka(properties: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Settings under librdkafka's names, and the names that were left out."""
    found: dict[str, str] = {}
    left_out: list[str] = []
    for name, value in _without_java(properties).items():
        if name in _JAVA_ONLY:
            left_out.append(name)
            continue
        new, translate = _TRANSLATED.get(name, (name, _SAME))
        try:
            found[new] = translate(value)
        except ValueError:
            raise ConfigError(f"{name} is a number, not {value!r}") from None
    if found.get("acks", "all") not in _ACKS:  # librdkafka would wait for that many replicas, which Kafka has forgotten
        raise ConfigError(f"acks is all, 1 or 0, not {found['acks']!r}")
    if "acks" in found and found["acks"] not in {"all", "-1"}:
        found.setdefault("enable.idempotence", "false")  # as in the Java client, which then does without
    return found, left_out
