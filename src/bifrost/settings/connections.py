"""What a node can be told about connections: how many it holds, how fast they come, how long they may be silent."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from bifrost.settings.coordinator import CoordinatorSettings
from bifrost.settings.fields import INT_MAX, key, long
from bifrost.settings.keys import Update

CLUSTER_WIDE = Update.CLUSTER_WIDE
OF_LISTENERS: Final = re.compile(r"listener\.name\.[^.]+\.(max\.connections|max\.connection\.creation\.rate)")
"""What a listener may have a value of its own for; X in listener.name.X. is its name in small letters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSettings(CoordinatorSettings):
    """A part of `Settings`."""

    of_listeners: Mapping[str, int] = field(default_factory=dict)
    """Values of single listeners, under their whole names."""

    # fmt: off
    connections_max_idle_ms: int = long(
        "connections.max.idle.ms", 600_000, at_least=1, also=-1, doc="Close a connection silent for so long; -1 never."
    )
    max_connections: int = key(
        "max.connections", INT_MAX, at_least=0, update=CLUSTER_WIDE,
        doc="Connections the node holds at once; any beyond it is closed as it comes.",
    )
    max_connections_per_ip: int = key(
        "max.connections.per.ip", INT_MAX, at_least=0, update=CLUSTER_WIDE,
        doc="Connections from one address at once; any beyond it is closed as it comes.",
    )
    max_connections_per_ip_overrides: str = key(
        "max.connections.per.ip.overrides", "", update=CLUSTER_WIDE, pattern=r"[^,\s]+:\d{1,9}",
        doc="ADDRESS:NUMBER for addresses that may have more, or fewer. (Kafka resolves names of hosts too.)",
    )
    max_connection_creation_rate: int = key(
        "max.connection.creation.rate", INT_MAX, at_least=1, update=CLUSTER_WIDE,
        doc="Connections a second, in all; those that come faster wait before they are served (KIP-612).",
    )
    quota_window_num: int = key(
        "quota.window.num", 11, at_least=1,
        doc="Samples over which it is counted what clients use, the one under way among them.",
    )
    quota_window_size_seconds: int = key(
        "quota.window.size.seconds", 1, at_least=1, doc="How long a sample of what clients use lasts."
    )
    controller_quota_window_num: int = key(
        "controller.quota.window.num", 11, at_least=1,
        doc="So many samples of changes of topics may be made in one burst, before controller_mutation_rate counts.",
    )
    controller_quota_window_size_seconds: int = key(
        "controller.quota.window.size.seconds", 1, at_least=1, doc="How long such a sample lasts."
    )

    # fmt: on
    @property
    def max_connections_per_address(self) -> dict[str, int]:
        """The overrides of max.connections.per.ip."""
        given = filter(None, map(str.strip, self.max_connections_per_ip_overrides.split(",")))
        parts = (override.rpartition(":") for override in given)
        return {address.strip("[]"): int(limit) for address, _, limit in parts}

    def of_listener(self, listener: str, name: str) -> int | None:
        """What counts for one listener alone (listener.name.X.); None if nothing does."""
        return self.of_listeners.get(f"listener.name.{listener.lower()}.{name}")
