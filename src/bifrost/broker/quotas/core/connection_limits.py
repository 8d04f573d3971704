"""Who is let in: how many connections a node holds, in all, by listener and by address, and how fast they may come.

The names, and what happens to whoever is one too many, are Kafka's (ConnectionQuotas): beyond
`max.connections.per.ip` a connection is closed, beyond `max.connection.creation.rate` it waits before it is served
(KIP-612). One beyond `max.connections` is closed here, where Kafka lets it wait for another to end. Where brokers have
a listener of their own, and where the quorum is, the connections of clients are not in the way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from enum import Enum, auto
from ipaddress import ip_address
from typing import NamedTuple

from bifrost.broker.quotas.core.meters import SampledRate, Window
from bifrost.settings import Settings


class Verdict(Enum):
    """What becomes of a connection."""

    LET_IN = auto()
    LET_IN_LATER = auto()
    CLOSE = auto()


class Admission(NamedTuple):
    """`wait_ms` is how long it takes until one that is to wait is served."""

    verdict: Verdict
    wait_ms: int = 0


class ConnectionLimits:
    """Counts the connections that are open, and those that come."""

    def __init__(self, settings: Settings, *, protected: Collection[str] = ()) -> None:
        self._window = Window(settings.quota_window_num, settings.quota_window_size_seconds * 1000)
        self._protected = protected
        self._by_address: Counter[str] = Counter()
        self._by_listener: Counter[str] = Counter()
        self._rate = SampledRate()
        self._rates: dict[str, SampledRate] = {}
        self.reconfigure(settings)

    def reconfigure(self, settings: Settings) -> None:
        """From now on these count. Who is in stays."""
        self._settings = settings
        self._overrides = {_spelled(address): limit for address, limit in settings.max_connections_per_address.items()}

    def on_open(self, listener: str, address: str, now_ms: float) -> Admission:
        """Whether it is let in; then it counts, until `on_close`."""
        if not self._has_room(listener, address):
            return Admission(Verdict.CLOSE)
        self._by_listener[listener] += 1
        self._by_address[address] += 1
        wait_ms = self._wait_ms(listener, now_ms)
        return Admission(Verdict.LET_IN_LATER, wait_ms) if wait_ms > 0 else Admission(Verdict.LET_IN)

    def on_close(self, listener: str, address: str) -> None:
        """One that was let in is gone."""
        for counts, name in ((self._by_listener, listener), (self._by_address, address)):
            counts[name] -= 1
            if counts[name] <= 0:
                del counts[name]  # addresses come and go without end

    def _has_room(self, listener: str, address: str) -> bool:
        settings = self._settings
        of_listener = settings.of_listener(listener, "max.connections")
        if of_listener is not None and self._by_listener[listener] >= of_listener:
            return False
        counted = sum(count for name, count in self._by_listener.items() if name not in self._protected)
        if listener not in self._protected and counted >= settings.max_connections:
            return False
        return self._by_address[address] < self._overrides.get(address, settings.max_connections_per_ip)

    def _wait_ms(self, listener: str, now_ms: float) -> int:
        """How long until connections come no faster than they may; never longer than a sample lasts."""
        waits = [0]
        if listener not in self._protected:
            waits.append(self._charge(self._rate, self._settings.max_connection_creation_rate, now_ms))
        of_listener = self._settings.of_listener(listener, "max.connection.creation.rate")
        if of_listener is not None:
            waits.append(self._charge(self._rates.setdefault(listener, SampledRate()), of_listener, now_ms))
        return min(max(waits), self._window.sample_ms)

    def _charge(self, rate: SampledRate, limit: int, now_ms: float) -> int:
        return rate.charge(1.0, max(limit, 1), self._window, now_ms)


def _spelled(address: str) -> str:
    """As connections have it, whatever was written; the name of a host stays what it is, and is nobody's address."""
    try:
        return str(ip_address(address))
    except ValueError:
        return address
