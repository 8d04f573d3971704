"""What the queries must find, counted without Spark."""

from __future__ import annotations

from collections import Counter

from examples.orders.shop import IN_TIME_MS, Event


def totals(orders: list[Event]) -> dict[str, tuple[int, int]]:
    """Orders and cents of each category."""
    counts: Counter[str] = Counter(order["category"] for order in orders)
    cents: Counter[str] = Counter()
    for order in orders:
        cents[order["category"]] += order["cents"]
    return {category: (counts[category], cents[category]) for category in counts}


def paid(orders: list[Event], payments: list[Event]) -> set[tuple[int, int]]:
    """Orders that were paid in time, each with the time of the payment."""
    made = {order["order"]: order["at_ms"] for order in orders}
    return {
        (payment["order"], payment["paid_ms"])
        for payment in payments
        if payment["order"] in made and 0 <= payment["paid_ms"] - made[payment["order"]] <= IN_TIME_MS
    }
