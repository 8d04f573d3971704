"""Every checker that is used on real histories can fail: a small history by hand for each anomaly."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bifrost.types import TopicPartition
from tests.faults import checkers
from tests.faults.checkers import ConfigChanged, ConfigSeen, ReadToEnd, StoredSomewhere
from tests.sim import checkers as shared
from tests.sim.anomaly import Anomaly
from tests.sim.crowd.events import OffsetCommitted, OffsetSeen
from tests.sim.history import (
    Acknowledged,
    Complaint,
    History,
    Place,
    Polled,
    ReadBack,
    Sent,
    TopicChanged,
    TopicsListed,
    TopicState,
    Value,
)
from tests.sim.topic_checkers import lost_metadata

P = Place("orders", "", 0)
A, B, C = (Value("writer-0", 0, number) for number in range(3))
TP = TopicPartition("orders", 0)


def sent(*values: Value) -> Sent:
    return Sent(0.0, P, values)


def ack(at: float, offset: int, value: Value) -> Acknowledged:
    return Acknowledged(at - 0.5, at, P, offset, (value,))


def poll(at: float, expected: int, *records: tuple[int, Value], reader: str = "reader") -> Polled:
    return Polled(at, at, reader, P, expected, records[-1][0] + 1, records)


def end(at: float, *values: Value) -> ReadBack:
    return ReadBack(at, P, len(values), tuple(enumerate(values)))


def done(at: float, offset: int) -> OffsetCommitted:
    return OffsetCommitted(at - 0.5, at, "group", "member", 0, TP, offset, "done")


ALL = ReadToEnd(9.0, "everybody", frozenset({"reader", "other"}))
CASES: list[tuple[Callable[[History], list[Anomaly]], list[object]]] = [
    (shared.complaints, [Complaint(1.0, "dead node", "2 ended by itself")]),
    (shared.lost_writes, [sent(A, B), ack(1, 0, A), ack(1, 1, B), end(9, A)]),
    (checkers.missing_writes, [sent(A, B), StoredSomewhere(1, P, B), end(9, A)]),
    (shared.vanished_reads, [sent(A, B), poll(1, 0, (0, A), (1, B)), end(9, A)]),
    (checkers.unseen_writes, [sent(A, B), ack(1, 0, A), ack(1, 1, B), poll(2, 0, (0, A)), end(9, A, B), ALL]),
    (shared.duplicates, [sent(A), ack(1, 0, A), end(9, A, A)]),
    (shared.duplicates, [sent(A), ack(1, 0, A), poll(2, 7, (7, A))]),
    (shared.divergent_offsets, [sent(A, B), poll(1, 0, (0, A)), poll(2, 0, (0, B), reader="other")]),
    (shared.divergent_offsets, [sent(A, B), ack(1, 0, A), end(9, B)]),
    (shared.unstable_ends, [sent(A, B), end(8, A, B), end(9, B, A)]),
    (shared.skipped_polls, [sent(A, B, C), poll(1, 0, (0, A)), poll(2, 1, (2, C))]),
    (shared.skipped_polls, [sent(A, B, C), poll(1, 0, (0, A), (2, C))]),
    (shared.nonmonotone_polls, [sent(A, B), poll(1, 0, (0, A), (1, B)), poll(2, 2, (1, B))]),
    (shared.nonmonotone_polls, [sent(A, B), poll(1, 0, (1, B), (0, A))]),
    (checkers.skipped_sends, [sent(A, B, C), end(9, A, C)]),
    (shared.reordered, [sent(A, B), ack(1, 1, A), ack(2, 0, B), end(9, B, A)]),
    (shared.garbage, [sent(A), end(9, A, B)]),
    (checkers.commits_went_back, [done(1, 7), OffsetSeen(2, 3, "group", "other", TP, 6)]),
    (checkers.commits_went_back, [done(1, 7), OffsetSeen(2, 3, "group", "other", TP, -1)]),
    (checkers.lost_configs, [ConfigChanged(1, "t", "1", "done"), ConfigSeen(9, 0, "t", "0")]),
    (
        checkers.lost_configs,
        [ConfigChanged(1, "t", "1", "unknown"), ConfigChanged(2, "t", "2", "done"), ConfigSeen(9, 0, "t", "1")],
    ),
    (lost_metadata, [TopicChanged(1, "t", None, TopicState("", 1), "done"), TopicsListed(9, {})]),
    (lost_metadata, [TopicsListed(9, {"impossible": TopicState("", 1)})]),
]


@pytest.mark.parametrize(("checker", "events"), CASES)
def test_an_anomaly_is_found(checker: Callable[[History], list[Anomaly]], events: list[object]) -> None:
    history = History(events)  # type: ignore[arg-type]
    assert checker(history)
    assert set(map(str, checker(history))) <= set(map(str, checkers.judge(history)))


def test_every_checker_is_shown_to_fail() -> None:
    assert {checker for checker, _ in CASES} == set(checkers.CHECKERS)


def test_a_history_in_which_all_is_well() -> None:
    history = History(
        [
            sent(A, B, C),
            ack(1, 0, A),
            poll(1, 0, (0, A)),
            ack(2, 1, B),
            StoredSomewhere(2, P, B),  # type: ignore[list-item]
            poll(3, 1, (1, B)),
            poll(3, 0, (0, A), (1, B), reader="other"),
            poll(4, 0, (0, A), reader="member"),
            done(5, 1),
            OffsetSeen(6, 7, "group", "member", TP, 1),
            done(7, 0),
            OffsetSeen(8, 9, "group", "member", TP, 0),
            TopicChanged(1, "t", None, TopicState("", 1), "unknown"),
            TopicsListed(9, {"t": TopicState("", 1)}),
            ConfigChanged(1, "t", "1", "done"),
            ConfigChanged(2, "t", "2", "unknown"),
            ConfigSeen(9, 0, "t", "1"),  # type: ignore[list-item]
            ConfigSeen(9, 1, "t", "2"),  # type: ignore[list-item]
            end(8, A, B),
            end(9, A, B),
            ALL,  # type: ignore[list-item]
        ]
    )
    assert checkers.judge(history) == []
