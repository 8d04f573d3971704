"""Every checker can fail: a small history by hand for each anomaly, and one in which all is well."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.sim import checkers
from tests.sim.anomaly import Anomaly
from tests.sim.compacted.checkers import COMPACTED_CHECKERS
from tests.sim.crowd.checkers import GROUP_CHECKERS
from tests.sim.history import (
    GARBAGE,
    Acknowledged,
    Complaint,
    Crashed,
    EndSeen,
    Event,
    Forgotten,
    History,
    Leading,
    OutOfRange,
    Place,
    Polled,
    ProducerIdGiven,
    ReadBack,
    Sent,
    TopicChanged,
    TopicsListed,
    TopicState,
    Value,
)

P = Place("orders", "id", 0)
A, B, C, D = (Value("writer", 0, number) for number in range(4))


def sent(*values: Value) -> Sent:
    return Sent(0.0, P, values)


def ack(at: float, offset: int, *values: Value) -> Acknowledged:
    return Acknowledged(at - 0.5, at, P, offset, values)


def poll(at: float, fetch_offset: int, *records: tuple[int, Value], high_watermark: int = 100) -> Polled:
    return Polled(at - 0.5, at, "reader", P, fetch_offset, high_watermark, records)


def watermark(at: float, high_watermark: int, asked_of: str) -> Polled:
    return poll(at, 0, high_watermark=high_watermark)._replace(asked_of=asked_of)


def leads(at: float, *machines: str, knows_end: bool = True) -> Leading:
    return Leading(at, P, machines, knows_end)


def end(at: float, *values: Value) -> ReadBack:
    return ReadBack(at, P, len(values), tuple(enumerate(values)))


def histories() -> list[tuple[Callable[[History], list[Anomaly]], list[Event]]]:
    topic = TopicState("one", 3)
    return [
        (checkers.lost_writes, [sent(A, B), ack(1, 0, A, B), end(9, A)]),
        (checkers.lost_writes, [sent(A, B), ack(1, 0, A, B), Crashed(2, power=True), end(9, A)]),
        (checkers.vanished_reads, [sent(A, B), poll(1, 0, (0, A), (1, B)), end(9, A)]),
        (checkers.divergent_offsets, [sent(A, B), poll(1, 0, (0, A)), poll(2, 0, (0, B))]),
        (checkers.divergent_offsets, [sent(A, B), ack(1, 5, A), poll(2, 5, (5, B))]),
        (checkers.duplicates, [sent(A), poll(1, 0, (0, A), (1, A))]),
        (checkers.duplicates, [sent(A), ack(1, 0, A), ack(2, 7, A)]),
        (checkers.reordered, [sent(A, B), end(9, B, A)]),
        (checkers.reordered, [sent(A, B), ack(1, 6, A), ack(2, 3, B)]),
        (checkers.garbage, [sent(A), poll(1, 0, (0, B))]),
        (checkers.garbage, [sent(A), end(9, GARBAGE)]),
        (checkers.garbage, [Sent(0, P._replace(topic_id="before"), (A,)), end(9, A)]),
        (checkers.nonmonotone_polls, [poll(1, 3, (3, A), (3, A))]),
        (checkers.nonmonotone_polls, [poll(1, 3, (2, A))]),
        (checkers.skipped_polls, [poll(1, 3, (4, A))]),
        (checkers.skipped_polls, [poll(1, 3, (3, A), (5, B))]),
        (checkers.uncommitted_reads, [poll(1, 3, (3, A), (4, B), high_watermark=4)]),
        (checkers.watermarks_went_back, [ack(1, 0, A, B), EndSeen(2, 3, P, 1)]),
        (checkers.watermarks_went_back, [poll(1, 0, high_watermark=9), poll(3, 0, high_watermark=8)]),
        (checkers.watermarks_went_back, [poll(1, 0, (0, A)), OutOfRange(2, 3, "reader", P, 1)]),
        (checkers.watermarks_went_back, [EndSeen(1, 2, P, 3), end(9, A)]),
        (checkers.forgotten_producers, [ack(1, 0, A), Forgotten(2, 3, P, "writer", "sequence 1 refused")]),
        (checkers.repeated_producer_ids, [ProducerIdGiven(1, "x", 7, 0), ProducerIdGiven(2, "y", 7, 0)]),
        (checkers.unstable_ends, [end(8, A), end(9, A, B)]),
        (checkers.unstable_ends, [ReadBack(9, P, 2, ((1, A),))]),
        (checkers.lost_metadata, [TopicChanged(1, "t", None, topic, "done"), TopicsListed(2, {})]),
        (checkers.lost_metadata, [TopicChanged(1, "t", topic, None, "done"), TopicsListed(2, {"t": topic})]),
        (checkers.lost_metadata, [TopicChanged(1, "t", None, topic, "refused")]),
        (checkers.lost_metadata, [TopicsListed(1, {"t": topic})]),
        (
            checkers.lost_metadata,
            [TopicChanged(1, "t", None, topic, "done"), TopicsListed(2, {"t": topic._replace(partitions=2)})],
        ),
        (
            checkers.lost_metadata,
            [TopicChanged(1, "t", None, topic, "unknown"), TopicsListed(2, {}), TopicsListed(3, {"t": topic})],
        ),
        (checkers.complaints, [Complaint(1, "stuck", "somebody waits")]),
    ]


@pytest.mark.parametrize(("check", "events"), histories(), ids=lambda each: getattr(each, "__name__", ""))
def test_an_anomaly_is_found_and_shown(check: Callable[[History], list[Anomaly]], events: list[Event]) -> None:
    found = check(History(events))
    assert found
    assert all(anomaly.evidence for anomaly in found)


def test_every_checker_has_a_history_that_it_refuses() -> None:
    for_loss_only = {checkers.holes}
    elsewhere = {*GROUP_CHECKERS, *COMPACTED_CHECKERS}
    assert {check for check, _ in histories()} | for_loss_only == set(checkers.CHECKERS) - elsewhere


def sound() -> list[Event]:
    topic, grown = TopicState("one", 1), TopicState("one", 2)
    return [
        TopicChanged(0, "orders", None, topic, "done"),
        ProducerIdGiven(0, "writer", 0, 0),
        sent(A, B, C),
        ack(1, 0, A),
        Crashed(1.2, power=True),
        poll(2, 0, (0, A), high_watermark=1),
        sent(B, C),
        poll(2.4, 1, high_watermark=1),  # asked before the next was acknowledged
        ack(2.5, 1, B, C),
        TopicChanged(2.6, "orders", topic, grown, "unknown"),
        TopicsListed(2.7, {"orders": grown}),
        EndSeen(3, 4, P, 3),
        poll(5, 1, (1, B), (2, C), high_watermark=3),
        end(8, A, B, C),
        end(9, A, B, C),
    ]


@pytest.mark.parametrize("survives_power_loss", [True, False])
def test_nothing_is_found_where_all_is_well(survives_power_loss: bool) -> None:
    assert checkers.judge(History(sound(), survives_power_loss=survives_power_loss)) == []


def test_an_unsynced_end_may_be_lost_with_the_power() -> None:
    events = [sent(A, B), ack(1, 0, A, B), Crashed(2, power=True), sent(C), ack(3, 1, C), end(9, A, C)]
    assert checkers.judge(History(events, survives_power_loss=False)) == []
    assert checkers.judge(History(events, survives_power_loss=True)) != []


def test_the_end_of_a_process_takes_nothing() -> None:
    events = [sent(A, B), ack(1, 0, A, B), Crashed(2, power=False), end(9, A)]
    found = checkers.judge(History(events, survives_power_loss=False))
    assert {anomaly.kind for anomaly in found} == {"lost write", "watermark went back"}


def test_a_loss_in_the_middle_is_a_hole() -> None:
    """D came after B and stayed: what went was not the end."""
    events = [sent(A, B, C, D), ack(1, 0, A, B), ack(1.1, 2, D), Crashed(2, power=True), ack(3, 1, C), end(9, A, C, D)]
    found = checkers.holes(History(events, survives_power_loss=False))
    assert [anomaly.kind for anomaly in found] == ["hole"]


def test_a_producer_may_be_forgotten_with_the_power_but_only_once() -> None:
    crash = Crashed(2, power=True)
    forgotten = Forgotten(3, 4, P, "writer", "sequence 1 refused")
    again = [ack(5, 0, B), Forgotten(6, 7, P, "writer", "sequence 9 refused")]
    assert checkers.forgotten_producers(History([ack(1, 0, A), crash, forgotten], survives_power_loss=False)) == []
    assert checkers.forgotten_producers(History([ack(1, 0, A), crash, forgotten], survives_power_loss=True))
    assert checkers.forgotten_producers(History([crash, forgotten, *again], survives_power_loss=False))


MOVED: list[Event] = [leads(0, "a"), watermark(1, 9, "a"), leads(2, "a", "b", knows_end=False)]
"""A leader has shown that 9 are committed, and another one leads, of which it has not heard."""
ALONE: list[Event] = [*MOVED, leads(3, "b", knows_end=False), leads(4, "b")]
"""And then it has, and the new one knows how far it had come."""


@pytest.mark.parametrize(
    "events",
    [
        [*ALONE, watermark(5, 8, "b")],
        [*ALONE, EndSeen(4.5, 5, P, 8)],
        [*ALONE, OutOfRange(4.5, 5, "reader", P, 9)],
        [*ALONE[:-1], EndSeen(3.5, 4, P, 8)],
        [leads(0, "a"), ack(1, 0, A, B), leads(2, "b"), watermark(3, 1, "b")],
        [leads(0, "a"), EndSeen(1, 1.2, P, 5), leads(2, "b"), leads(3, "a"), EndSeen(4, 5, P, 4)],
        [leads(0, "a"), leads(1, "b"), watermark(2, 9, "c"), watermark(3, 8, "b")],
    ],
    ids=[
        "watermark",
        "end",
        "out of range",
        "end that is not known",
        "acknowledged",
        "back again",
        "a follower knew more",
    ],
)
def test_a_watermark_that_goes_back_is_seen_though_leaders_move(events: list[Event]) -> None:
    found = checkers.watermarks_went_back(History(events, leaders_move=True))
    assert [anomaly.kind for anomaly in found] == ["watermark went back"]


@pytest.mark.parametrize(
    "events",
    [
        [*MOVED, EndSeen(2.1, 2.9, P, 8)],
        [*MOVED, leads(3, "b"), EndSeen(2.1, 3.5, P, 8)],
        [leads(0, "a"), watermark(1, 9, "a"), leads(2, "b", knows_end=False), watermark(3, 8, "b")],
        [*ALONE, watermark(5, 8, "c")],
        [*ALONE, watermark(5, 9, "b"), watermark(6, 12, "b")],
    ],
    ids=["two lead", "asked while two led", "does not know yet", "a follower", "nothing went back"],
)
def test_who_need_not_know_the_end_may_be_wrong_about_it(events: list[Event]) -> None:
    assert checkers.watermarks_went_back(History(events, leaders_move=True)) == []
