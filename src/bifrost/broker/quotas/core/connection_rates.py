"""How fast connections may come from one address (KIP-612): by its own limit, or by that of all who have none."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from typing import Final

from bifrost.broker.quotas.core.meters import SampledRate, Window
from bifrost.controller.core.client_quotas import CONNECTION_CREATION_RATE, IP
from bifrost.controller.core.records import QuotaEntity

ADDRESSES_MAX: Final = 10_000
"""Addresses whose connections are counted; who was not heard of for longest is forgotten."""


class ConnectionRates:
    """What is limited, and who came how often."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._limits: dict[str | None, float] = {}
        self._rates: dict[str, SampledRate] = {}  # who came last comes last

    def set_limits(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        self._limits = {}
        for entity, values in quotas.items():
            names = dict(entity)
            if IP in names and CONNECTION_CREATION_RATE in values:
                name = names[IP]
                address = None if name is None else str(ip_address(name))  # one spelling, whatever was written
                self._limits[address] = values[CONNECTION_CREATION_RATE]

    @property
    def has_limits(self) -> bool:
        return bool(self._limits)

    def admit(self, address: str, now_ms: float) -> int:
        """0 if the connection may come in; else it does not count, and is to be kept waiting before it is closed.

        So long that whoever comes again at once gains nothing by it, and never longer than a sample lasts.
        """
        limit = self._limits.get(address, self._limits.get(None))
        if limit is None:
            return 0
        rate = self._rates.pop(address) if address in self._rates else SampledRate()
        self._rates[address] = rate
        if len(self._rates) > ADDRESSES_MAX:
            del self._rates[next(iter(self._rates))]
        wait_ms = rate.charge(1.0, limit, self._window, now_ms)
        if wait_ms > 0:
            rate.count(-1.0, self._window, now_ms)
        return min(wait_ms, self._window.sample_ms)
