"""The limits that the metadata holds, on the node's clock: what requests, fetches and changes of topics cost whom.

Whoever uses more than it may is answered at once and told to wait, and its connection is not read meanwhile (KIP-219).
While nothing is limited, nothing is counted, and a request costs one look at `is_metering`.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, Final, TypeVar

from bifrost.broker.quotas.core.accounts import Accounts
from bifrost.broker.quotas.core.connection_rates import ConnectionRates
from bifrost.broker.quotas.core.meters import SampledRate, TokenBucket, Window
from bifrost.controller.core.client_quotas import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)
from bifrost.controller.core.delta import Delta
from bifrost.controller.core.image import MetadataImage
from bifrost.errors import ApiError, ErrorCode
from bifrost.metrics import Metrics
from bifrost.protocol.apis import ApiKey
from bifrost.settings import Settings

_MS: Final = 1000.0
_PERCENT: Final = 100.0

T = TypeVar("T")


class ClientQuotas:
    """All limits of one node; `on_change` has to be called when the image changed."""

    def __init__(
        self,
        settings: Settings,
        image: MetadataImage,
        metrics: Metrics,
        now: Callable[[], float],
        stopwatch: Callable[[], float] = time.perf_counter,
    ) -> None:
        window = Window(settings.quota_window_num, settings.quota_window_size_seconds * 1000)
        mutation_window = Window(
            settings.controller_quota_window_num, settings.controller_quota_window_size_seconds * 1000
        )
        self.is_metering = False
        """Whether requests are to be counted at all."""
        self.limits_fetches = False
        self.stopwatch = stopwatch
        self._metrics = metrics
        self._now = now
        self._produced = Accounts(PRODUCER_BYTE_RATE, window, SampledRate)
        self._fetched = Accounts(CONSUMER_BYTE_RATE, window, SampledRate)
        self._worked = Accounts(REQUEST_PERCENTAGE, window, SampledRate)
        self._mutations = Accounts(CONTROLLER_MUTATION_RATE, mutation_window, TokenBucket)
        self._connections = ConnectionRates(window)
        self._take_in(image)

    def on_change(self, image: MetadataImage, delta: Delta) -> None:
        if delta.quotas:
            self._take_in(image)

    def _take_in(self, image: MetadataImage) -> None:
        tables = (self._produced, self._fetched, self._worked, self._mutations, self._connections)
        for table in tables:
            table.set_limits(image.quotas)
        self.limits_fetches = self._fetched.has_limits
        self.is_metering = any(table.has_limits for table in tables[:4])

    def on_request(self, user: str, client_id: str | None, api_key: int, size: int) -> int:
        """For how long to mute whoever sent this, in milliseconds, by what it has sent and the work that it has made.

        The work for this very request is not known yet; it counts when the next one comes.
        """
        now_ms = self._now() * _MS
        wait_ms = 0
        if api_key == ApiKey.PRODUCE and self._produced.has_limits:
            wait_ms = self._told(PRODUCER_BYTE_RATE, self._produced.charge(user, client_id, size, now_ms))
        if self._worked.has_limits:
            window = self._worked.window
            spent = min(self._worked.charge(user, client_id, 0.0, now_ms), window.sample_ms)
            wait_ms = max(wait_ms, self._told(REQUEST_PERCENTAGE, spent))
        return wait_ms

    def on_work(self, user: str, client_id: str | None, seconds: float) -> None:
        """So long the node's one thread was busy with a request of this client."""
        if self._worked.has_limits:
            self._worked.charge(user, client_id, seconds * _PERCENT, self._now() * _MS)

    def fetch_bytes_max(self, user: str, client_id: str | None) -> float:
        """As much as a client that has fetched nothing lately may fetch at once without having to wait."""
        seat = self._fetched.find(user, client_id)
        return float("inf") if seat is None else max(seat.limit * self._fetched.window.whole_ms / _MS, 1.0)

    def on_fetch(self, user: str, client_id: str | None, size: int) -> int:
        """For how long the client has to wait before it may have these bytes; 0: now, and they are counted."""
        seat = self._fetched.find(user, client_id)
        if seat is None:
            return 0
        wait_ms = seat.meter.charge_or_wait(size, seat.limit, self._fetched.window, self._now() * _MS)
        return self._told(CONSUMER_BYTE_RATE, wait_ms)

    def on_connection(self, address: str) -> int:
        """0 if the connection may come in, else after how many milliseconds it is to be closed."""
        if not self._connections.has_limits:
            return 0
        return self._connections.admit(address, self._now() * _MS)

    def mutations(self, user: str, client_id: str | None, *, strict: bool) -> Mutations:
        """What one request may change of topics; a client that knows of no such limits is `strict`ly refused nothing,
        but has to wait afterwards (KIP-599)."""
        return Mutations(self._mutations, user, client_id, lambda: self._now() * _MS, self._told, strict=strict)

    def timed(self, user: str, client_id: str | None, work: Awaitable[T]) -> Awaitable[T]:
        """The same, with the time that it takes the node's thread counted."""
        if not isinstance(work, Coroutine) or not self._worked.has_limits:
            return work
        return _Timed(work, self.stopwatch, lambda seconds: self.on_work(user, client_id, seconds))

    def _told(self, key: str, wait_ms: int) -> int:
        if wait_ms > 0:
            self._metrics.throttled[key] += 1
            self._metrics.throttle_ms[key] += wait_ms
        return wait_ms


class Mutations:
    """The partitions that one request creates and deletes."""

    def __init__(
        self,
        accounts: Accounts[TokenBucket],
        user: str,
        client_id: str | None,
        now_ms: Callable[[], float],
        told: Callable[[str, int], int],
        *,
        strict: bool,
    ) -> None:
        self._seat = accounts.find(user, client_id) if accounts.has_limits else None
        self._window = accounts.window
        self._now_ms = now_ms
        self._told = told
        self._strict = strict
        self._free_at_ms = 0.0

    def charge(self, partitions: int) -> None:
        """ApiError(THROTTLING_QUOTA_EXCEEDED) if they may not be created or deleted now."""
        if self._seat is None:
            return
        now_ms, limit = self._now_ms(), self._seat.limit
        bucket = self._seat.meter
        charge = bucket.charge_unless_in_debt if self._strict else bucket.charge
        wait_ms = charge(partitions, limit, self._window, now_ms)
        if wait_ms > 0:
            self._free_at_ms = now_ms + wait_ms
            if self._strict:
                raise ApiError(
                    ErrorCode.THROTTLING_QUOTA_EXCEEDED, f"too many partitions are changed; wait for {wait_ms} ms"
                )

    def wait_ms(self) -> int:
        """For how long the client has to wait, counted from now: it may have taken a while to decide."""
        left = round(self._free_at_ms - self._now_ms()) if self._free_at_ms else 0
        return self._told(CONTROLLER_MUTATION_RATE, max(left, 0))


class _Timed(Coroutine[Any, Any, T]):
    """Stands between a task and its work, and takes the time of each step."""

    def __init__(self, work: Coroutine[Any, Any, T], stopwatch: Callable[[], float], count: Callable[[float], None]):
        self._work = work
        self._stopwatch = stopwatch
        self._count = count

    def send(self, value: Any) -> Any:
        started = self._stopwatch()
        try:
            return self._work.send(value)
        finally:
            self._count(self._stopwatch() - started)

    def throw(self, *error: Any) -> Any:
        return self._work.throw(*error)

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Generator[Any, Any, T]:
        return self._work.__await__()
