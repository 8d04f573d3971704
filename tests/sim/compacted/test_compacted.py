"""Logs that are cleaned, under many seeds: what is taken out of them is what was replaced, and nothing else.

`make sim SEEDS=1000` plays more of them. Every checker can fail, too: a small history by hand for each.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.sim.anomaly import Anomaly
from tests.sim.compacted.checkers import lost_keys, returned_records, unstable_ends
from tests.sim.compacted.keys import key_of
from tests.sim.history import Acknowledged, CompactedEnd, Crashed, Event, History, Place, Polled, Value
from tests.sim.run import POLICIES, Task, play, report

SEEDS = range(16)
P = Place("compact", "id", 0)
A, B, AGAIN = Value("writer", 0, 1), Value("writer", 0, 2), Value("writer", 0, 7)
"""The last one has the key of the first."""


def ack(at: float, offset: int, *values: Value) -> Acknowledged:
    return Acknowledged(at - 0.5, at, P, offset, values)


def poll(at: float, fetch_offset: int, *records: tuple[int, Value]) -> Polled:
    return Polled(at - 0.5, at, "reader", P, fetch_offset, 100, records)


def end(at: float, start_offset: int, *records: tuple[int, Value]) -> CompactedEnd:
    return CompactedEnd(at, P, start_offset, 100, records)


Check = Callable[[History], list[Anomaly]]
CLEANED = (ack(1.0, 0, A, B), ack(2.0, 2, AGAIN), poll(3.0, 0, (1, B), (2, AGAIN)))

BROKEN: dict[str, tuple[Check, list[Event]]] = {
    "the last value of a key is gone": (lost_keys, [*CLEANED, end(9.0, 0, (1, B))]),
    "an older value is there instead": (lost_keys, [*CLEANED, end(9.0, 0, (0, A), (1, B))]),
    "another value is at its offset": (lost_keys, [*CLEANED, end(9.0, 0, (1, B), (2, A))]),
    "what was cleaned is read again": (
        returned_records,
        [*CLEANED, poll(4.0, 0, (0, A), (1, B)), end(9.0, 0, (1, B), (2, AGAIN))],
    ),
    "what was cleaned is there in the end": (
        unstable_ends,
        [end(8.0, 0, (1, B), (2, AGAIN)), end(9.0, 0, (0, A), (1, B), (2, AGAIN))],
    ),
}
FINE: dict[str, tuple[Check, list[Event]]] = {
    "it was replaced": (lost_keys, [*CLEANED, end(9.0, 0, (1, B), (2, AGAIN))]),
    "retention took it": (lost_keys, [*CLEANED, end(9.0, 2, (2, AGAIN))]),
    "a loss of power undid the renames": (
        returned_records,
        [*CLEANED, Crashed(3.2, True), poll(4.0, 0, (0, A), (1, B)), end(9.0, 0, (1, B), (2, AGAIN))],
    ),
    "cleaning goes on": (unstable_ends, [end(8.0, 0, (0, A), (2, AGAIN)), end(9.0, 0, (2, AGAIN))]),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_promise_is_noticed(name: str) -> None:
    check, events = BROKEN[name]
    assert key_of(A) == key_of(AGAIN) != key_of(B)
    assert check(History(events))


@pytest.mark.parametrize("name", FINE)
def test_nothing_is_found_where_all_is_well(name: str) -> None:
    check, events = FINE[name]
    assert check(History(events)) == []


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", SEEDS)
def test_every_seed_passes(seed: int, policy: str) -> None:
    verdict = play(Task(seed, policy, is_compacted=True))
    assert not verdict.problems, report(verdict)
    assert verdict.acknowledged, "where nothing was promised, nothing can be broken"
