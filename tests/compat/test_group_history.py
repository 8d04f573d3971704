"""Every checker of group histories finds the wrong that was planted for it, and nothing in a right history."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.compat.members import history
from tests.compat.members.history import CHECKERS, History, anomalies
from tests.compat.members.host import Event, Place, Record

T: Place = ("t", 0)


def assigned(member: str, at: float) -> Event:
    return Event(member, at, "assigned", places=(T,))


def revoked(member: str, at: float, kind: str = "revoked") -> Event:
    return Event(member, at, kind, places=(T,))


def read(member: str, at: float, *offsets: int) -> Event:
    return Event(member, at, "records", records=tuple(Record("t", 0, offset, "") for offset in offsets))


def commit(member: str, at: float, offset: int, how: str | None = "committed") -> list[Event]:
    """Sent at that time and answered half a second later, or never."""
    events = [Event(member, at, "committing", offsets=((T, offset),))]
    return events if how is None else [*events, Event(member, at + 0.5, how, offsets=((T, offset),))]


def a_fair_life() -> list[Event]:
    """A reads and commits, dies with records it has not committed; B reads those again and hands over to C."""
    return [
        assigned("A", 1),
        read("A", 2, 0, 1, 2),
        *commit("A", 3, 3),
        read("A", 4, 3, 4),
        *commit("A", 5, 5, None),
        Event("A", 6, "killed"),
        assigned("B", 9),
        read("B", 10, 3, 4, 5),
        *commit("B", 11, 6),
        revoked("B", 12),
        assigned("C", 13),
        read("C", 14, 6, 7),
        *commit("C", 15, 8),
        Event("C", 16, "left"),
    ]


def test_a_fair_history_has_no_anomaly() -> None:
    assert anomalies(History(a_fair_life(), {T: 8}, {T: 8})) == []


def test_a_commit_nobody_saw_answered_may_have_succeeded() -> None:
    """A died before it learned that 5 was committed; B begins there."""
    events = [each for each in a_fair_life() if not (each.member == "B" and each.kind == "records")]
    events.insert(8, read("B", 10, 5))
    assert anomalies(History(events, {T: 8}, {T: 8})) == []


def test_a_refused_commit_changes_nothing() -> None:
    """B was pushed out; its late commit is refused, and C reads what B had read."""
    events = [
        assigned("B", 1),
        read("B", 2, 0, 1),
        revoked("B", 3, "lost"),
        *commit("B", 4.5, 2, "commit_failed"),
        assigned("C", 4),
        read("C", 6, 0, 1),
    ]
    assert anomalies(History(events, {T: 2})) == []


def _planted() -> dict[Callable[[History], list[str]], tuple[list[Event], int, int | None]]:
    """For each checker a history that breaks its promise: events, end of the log, commit in the end."""
    return {
        history.lost_records: ([assigned("A", 1), read("A", 2, 0, 1)], 3, None),
        history.out_of_order: ([assigned("A", 1), read("A", 2, 0, 2, 1)], 3, None),
        history.two_owners: (
            [assigned("A", 1), read("A", 2, 0), assigned("B", 3), revoked("A", 4), Event("B", 5, "left")],
            1,
            None,
        ),
        history.read_without_owning: (
            [assigned("A", 1), read("A", 2, 0), revoked("A", 3), read("A", 4, 1), assigned("B", 5), read("B", 6, 0, 1)],
            2,
            None,
        ),
        history.read_again_after_commit: (
            [
                assigned("A", 1),
                read("A", 2, 0, 1),
                *commit("A", 3, 2),
                revoked("A", 4),
                assigned("B", 5),
                read("B", 6, 1),
            ],
            1,
            None,
        ),
        history.skipped: (
            [assigned("A", 1), read("A", 2, 0, 1), Event("A", 3, "killed"), assigned("B", 5), read("B", 6, 2)],
            3,
            None,
        ),
        history.commits_went_back: (
            [assigned("A", 1), read("A", 2, 0, 1), *commit("A", 3, 2), *commit("A", 4, 1)],
            2,
            None,
        ),
        history.foreign_commits: (
            [assigned("A", 1), read("A", 2, 0), revoked("A", 3), assigned("B", 4), *commit("A", 5, 1), read("B", 4, 0)],
            1,
            None,
        ),
    }


def test_every_checker_has_a_wrong_to_find() -> None:
    assert set(_planted()) == set(CHECKERS)


@pytest.mark.parametrize("checker", CHECKERS, ids=lambda checker: str(checker.__name__))
def test_a_planted_wrong_is_found_by_its_checker_alone(checker: Callable[[History], list[str]]) -> None:
    events, end, final = _planted()[checker]
    found = anomalies(History(events, {T: end}, None if final is None else {T: final}))
    assert found
    assert {line.partition(":")[0] for line in found} == {checker.__name__}


def test_a_commit_that_is_gone_in_the_end_is_found() -> None:
    found = history.commits_went_back(History(a_fair_life(), {T: 8}, {T: 6}))
    assert found == ["('t', 0): in the end 6 is committed, 8 was acknowledged"]
