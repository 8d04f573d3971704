"""Who is limited to how much, and what each of them has used: one such table for each thing that is limited.

Which limit counts is Kafka's order (KIP-55): what is set for a user and a client id goes before what is set for the
user, and that before what is set for the client id; a name goes before the default of its type. Where the limit is a
user's, all client ids of the user share it; otherwise every client id has its own.

Nodes have no limits: what they pass on was counted where it came in, and what they ask of each other must go on.
A client without an id has those limits that are set by default. (Kafka does not limit it at all.)

Must never: grow with the names that clients make up. Who was not heard of for longest is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Generic, TypeVar
from weakref import WeakValueDictionary

from bifrost.broker.quotas.core.meters import Meter, Window
from bifrost.controller.core.client_quotas import CLIENT_ID, USER
from bifrost.controller.core.records import QuotaEntity
from bifrost.peers.names import is_node

ACCOUNTS_MAX: Final = 10_000
"""Clients whose use is remembered, of each thing that is limited."""

_ALL: Final = ""
"""Instead of a name: the limit, or the account, is not by this type. An empty name is nobody's (`client_quotas`)."""
_DEFAULT: Final = None

M = TypeVar("M", bound=Meter)
_Key = tuple[str | None, str | None]
"""A user and a client id; each is a name, `_DEFAULT` or `_ALL`."""


class Seat(Generic[M]):
    """One client: its limit, and the meter that it shares with all who have the same account."""

    __slots__ = ("limit", "meter")

    def __init__(self, limit: float, meter: M) -> None:
        self.limit = limit
        self.meter = meter


class Accounts(Generic[M]):
    """The limits by one key, and what clients have used of it."""

    def __init__(self, key: str, window: Window, new_meter: Callable[[], M]) -> None:
        self.window = window
        self.has_limits = False
        self._key = key
        self._new_meter = new_meter
        self._limits: dict[_Key, float] = {}
        self._generation = 0
        self._seats: dict[tuple[str, str], tuple[int, Seat[M] | None]] = {}  # who was heard of last comes last
        self._meters: WeakValueDictionary[tuple[str, str], M] = WeakValueDictionary()  # for as long as a seat has it

    def set_limits(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        """These are all limits from now on. What was used counts against them."""
        self._limits = {}
        for entity, values in quotas.items():
            names = dict(entity)
            if self._key in values and (USER in names or CLIENT_ID in names):
                self._limits[names.get(USER, _ALL), names.get(CLIENT_ID, _ALL)] = values[self._key]
        self.has_limits = bool(self._limits)
        self._generation += 1

    def find(self, user: str, client_id: str | None) -> Seat[M] | None:
        """The client's limit and its meter; None if it has no limit."""
        who = (user, client_id or _ALL)
        found = self._seats.pop(who, None)
        if found is None or found[0] != self._generation:
            found = (self._generation, self._new_seat(*who))  # while the old one still holds on to its meter
        self._seats[who] = found
        if len(self._seats) > ACCOUNTS_MAX:
            del self._seats[next(iter(self._seats))]
        return found[1]

    def charge(self, user: str, client_id: str | None, amount: float, now_ms: float) -> int:
        """Count what a client has used; for how many milliseconds it has to wait."""
        seat = self.find(user, client_id)
        return 0 if seat is None else seat.meter.charge(amount, seat.limit, self.window, now_ms)

    def _new_seat(self, user: str, client_id: str) -> Seat[M] | None:
        if is_node(client_id):
            return None
        for key, account in _precedence(user, client_id):
            limit = self._limits.get(key)
            if limit is not None:
                meter = self._meters.get(account)
                if meter is None:
                    meter = self._meters[account] = self._new_meter()
                return Seat(limit, meter)
        return None


def _precedence(user: str, client_id: str) -> tuple[tuple[_Key, tuple[str, str]], ...]:
    """Where a limit is looked for, in order, and whose account it then is (Kafka: DefaultQuotaCallback)."""
    both, by_user, by_client = (user, client_id), (user, _ALL), (_ALL, client_id)
    by_name = client_id or _DEFAULT  # nobody can be limited by an empty name
    return (
        ((user, by_name), both),
        ((user, _DEFAULT), both),
        ((user, _ALL), by_user),
        ((_DEFAULT, by_name), both),
        ((_DEFAULT, _DEFAULT), both),
        ((_DEFAULT, _ALL), by_user),
        ((_ALL, by_name), by_client),
        ((_ALL, _DEFAULT), by_client),
    )
