"""The settings of Odin's HTTP side. None of them is Kafka's."""

from __future__ import annotations

from dataclasses import dataclass

from bifrost.settings.fields import key
from bifrost.settings.keys import Kind
from bifrost.settings.produce import ProduceSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings(ProduceSettings):
    """Part of `Settings`."""

    # fmt: off
    http_listener: str | None = key(
        "http.listener", None, kind=Kind.STRING, own=True,
        doc="Where a controller speaks HTTP, as HOST:PORT; not at all unless it is set. Port 0: one that is free.",
    )
    http_token: str | None = key(
        "http.token", None, kind=Kind.PASSWORD, own=True,
        doc="What HTTP clients have to send as bearer token. Needed where others than this machine can connect.",
    )
    http_events_max: int = key(
        "http.events.max", 20_000, at_least=1, own=True,
        doc="Events that are kept for streams that come back, at least; twice as many at most.",
    )
    # fmt: on
