"""Orders and payments: a seeded afternoon in a shop, so that every run tells the same story.

Some orders are never paid, some too late to count, and some payments are for orders that nobody made.
"""

from __future__ import annotations

import random
from typing import Any, Final

PARTITION_OF: Final = {"Grocery": 0, "Dairy": 1, "Non-Food": 2}
IN_TIME_MS: Final = 30 * 60_000
"""A payment counts if it comes within half an hour."""
_START_MS: Final = 1_767_618_000_000  # 5 January 2026, 13:00 UTC
_PRICES: Final = {"Grocery": (99, 2_500), "Dairy": (79, 900), "Non-Food": (500, 19_900)}

Event = dict[str, Any]


def by_category(key: str, _value: Event, partition_count: int) -> int:
    """The partitioner: each category has a partition of its own, and so one reader that sees all of it in order."""
    partition = PARTITION_OF[key]
    if partition >= partition_count:
        raise ValueError(f"{key} belongs to partition {partition}, and the topic has only {partition_count}")
    return partition


def afternoon(count: int, rng: random.Random) -> tuple[list[Event], list[Event]]:
    """`count` orders and their payments, each in the order in which they happen."""
    orders, payments = [], []
    at_ms = _START_MS
    for number in range(1, count + 1):
        at_ms += rng.randrange(200, 4_000)
        category = rng.choices(list(PARTITION_OF), weights=(6, 3, 1))[0]
        cents = rng.randrange(*_PRICES[category])
        orders.append({"order": number, "category": category, "cents": cents, "at_ms": at_ms})
        fate = rng.random()
        if fate < 0.85:
            payments.append({"order": number, "paid_cents": cents, "paid_ms": at_ms + rng.randrange(1_000, 1_500_000)})
        elif fate < 0.90:
            late_ms = at_ms + IN_TIME_MS + rng.randrange(1_000, 600_000)
            payments.append({"order": number, "paid_cents": cents, "paid_ms": late_ms})
        elif fate < 0.91:
            payments.append({"order": count + number, "paid_cents": cents, "paid_ms": at_ms})
    return orders, sorted(payments, key=lambda payment: int(payment["paid_ms"]))
