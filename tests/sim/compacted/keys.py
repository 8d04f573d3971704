"""Which key a record has: each producer has some of its own, a few that it writes all the time, others now and then."""

from __future__ import annotations

from tests.sim.history import Value

OFTEN, RARELY = 3, 31


def key_of(value: Value) -> bytes:
    keys = OFTEN if value.number % 2 else RARELY
    return f"{value.producer}/{keys}/{value.number % keys}".encode()
