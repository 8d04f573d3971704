"""Every checker of groups can fail: a small history by hand for each anomaly, and one in which all is well."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bifrost.types import TopicPartition
from tests.sim.anomaly import Anomaly
from tests.sim.crowd import checkers
from tests.sim.crowd.events import (
    NO_OFFSET,
    GenerationBegun,
    Holds,
    OffsetCommitted,
    OffsetSeen,
    Peace,
    Settled,
    Unanswered,
)
from tests.sim.history import Crashed, Event, History

P, Q = TopicPartition("orders", 0), TopicPartition("orders", 1)
BOTH = frozenset({P, Q})


def holds(at: float, member: str, epoch: int, *partitions: TopicPartition, until: float | None = None) -> Holds:
    end = at + 2 if until is None else until
    return Holds(at - 0.1, at, end, "group", member, epoch, frozenset(partitions))


def commit(asked_at: float, at: float, offset: int, outcome: str = "done", *, epoch: int = -1) -> OffsetCommitted:
    return OffsetCommitted(asked_at, at, "group", "one", epoch, P, offset, outcome)


def seen(asked_at: float, at: float, offset: int) -> OffsetSeen:
    return OffsetSeen(asked_at, at, "group", "reader", P, offset)


def histories() -> list[tuple[Callable[[History], list[Anomaly]], list[Event]]]:
    return [
        (checkers.two_owners, [holds(1, "one", 5, P), holds(1.1, "one", 5), holds(2, "two", 5, P, Q)]),
        (checkers.shared_partitions, [holds(1, "one", 5, P), holds(2, "two", 6, P)]),
        (checkers.shared_partitions, [holds(1, "one", 5, P), holds(2, "one", 6, P, Q), holds(3.5, "two", 7, Q)]),
        (checkers.unowned_partitions, [Settled(9, "group", BOTH, (("one", frozenset({P})),))]),
        (checkers.unowned_partitions, [Settled(9, "group", BOTH, (("one", BOTH), ("two", frozenset({P}))))]),
        (checkers.stale_commits, [GenerationBegun(1, 2, "group", 6), commit(3, 4, 1, epoch=5)]),
        (checkers.stale_commits, [holds(2, "two", 6, P), commit(3, 4, 1, epoch=5)]),
        (checkers.stale_commits, [holds(1, "one", 5, P), holds(2, "one", 6, Q), commit(3, 4, 1, epoch=5)]),
        (checkers.lost_commits, [commit(1, 2, 1), seen(3, 4, NO_OFFSET)]),
        (checkers.lost_commits, [commit(1, 2, 1), commit(3, 4, 2), seen(5, 6, 1)]),
        (checkers.lost_commits, [commit(1, 2, 1), commit(3, 4, 2, "unknown"), seen(5, 6, 2), seen(7, 8, 1)]),
        (checkers.lost_commits, [commit(1, 4, 1), commit(1, 4, 2), seen(5, 6, 2), seen(7, 8, 1)]),
        (checkers.lost_commits, [commit(1, 2, 1, "refused"), seen(3, 4, 1)]),
        (checkers.lost_commits, [seen(1, 2, 1), commit(3, 4, 1)]),
        (checkers.lost_commits, [seen(1, 2, 7)]),
        (checkers.unanswered_requests, [Peace(5), Unanswered(6, 14, "one", "JoinGroupRequest")]),
    ]


@pytest.mark.parametrize(("check", "events"), histories(), ids=lambda each: getattr(each, "__name__", ""))
def test_an_anomaly_is_found_and_shown(check: Callable[[History], list[Anomaly]], events: list[Event]) -> None:
    found = check(History(events))
    assert found
    assert all(anomaly.evidence for anomaly in found)


def test_every_checker_has_a_history_that_it_refuses() -> None:
    assert {check for check, _ in histories()} == set(checkers.GROUP_CHECKERS)


def judge(events: list[Event], *, survives_power_loss: bool) -> list[Anomaly]:
    history = History(events, survives_power_loss=survives_power_loss)
    return [anomaly for check in checkers.GROUP_CHECKERS for anomaly in check(history)]


@pytest.mark.parametrize("survives_power_loss", [True, False])
def test_nothing_is_found_where_all_is_well(survives_power_loss: bool) -> None:
    events: list[Event] = [
        seen(0.1, 0.2, NO_OFFSET),
        GenerationBegun(0.5, 1, "group", 5),
        holds(1, "one", 5, P, Q),
        commit(1.1, 1.4, 1, epoch=5),
        commit(1.1, 1.9, 2, "unknown", epoch=5),
        seen(1.2, 1.3, 1),
        Unanswered(1.3, 9.3, "one", "HeartbeatRequest"),
        Crashed(1.5, power=False),
        holds(2, "one", 5),
        seen(2.0, 2.1, 1),
        GenerationBegun(2.1, 2.5, "group", 6),
        holds(2.5, "two", 6, P),
        commit(2.6, 2.7, 3, "refused", epoch=5),
        seen(2.8, 2.9, 2),  # the commit whose answer was lost was late
        holds(3, "one", 6, Q),
        holds(9, "three", 7, Q),  # nobody had heard of the one before for long
        Peace(10),
        Settled(12, "group", BOTH, (("two", frozenset({P})), ("three", frozenset({Q})))),
    ]
    assert judge(events, survives_power_loss=survives_power_loss) == []


def test_a_loss_of_power_may_take_commits_back_but_not_bring_two_of_them() -> None:
    events: list[Event] = [commit(1, 2, 1), commit(3, 4, 2), Crashed(5, power=True), seen(6, 7, 1)]
    assert judge(events, survives_power_loss=False) == []
    assert judge(events, survives_power_loss=True) != []
    assert judge([*events, seen(8, 9, 2)], survives_power_loss=False) != []


def test_what_members_were_told_before_a_loss_of_power_counts_for_nothing() -> None:
    events: list[Event] = [holds(1, "one", 5, P), Crashed(2, power=True), holds(2.5, "one", 5, P)]
    events += [holds(2.6, "two", 5, P), commit(2.7, 2.8, 1, epoch=4)]
    assert {anomaly.kind for anomaly in judge(events, survives_power_loss=False)} == {"stale commit"}
    assert len(judge(events, survives_power_loss=True)) > 1
