"""Each promise, kept and broken: the least that shows the difference, and the evidence that is told."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bifrost.raft.core.messages import ElectionState
from bifrost.types import NodeId
from tests.sim.anomaly import Anomaly
from tests.sim.quorum import invariants
from tests.unit.raft.members import Entry, ListLog

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)
A, B, C = Entry(1, "a"), Entry(1, "b"), Entry(2, "c")

Check = Callable[[], Anomaly | None]

CASES: dict[str, tuple[Check, Check, str]] = {
    "two leaders": (
        lambda: invariants.one_leader_an_epoch({1: ONE}, 2, TWO),
        lambda: invariants.one_leader_an_epoch({1: ONE}, 1, TWO),
        "1 led it, and now 2 does",
    ),
    "two votes": (
        lambda: invariants.one_vote_an_epoch(TWO, ONE, 4, TWO),
        lambda: invariants.one_vote_an_epoch(TWO, ONE, 4, THREE),
        "1 voted for 2, and now for 3",
    ),
    "not kept": (
        lambda: invariants.speaks_of_what_is_kept(ElectionState(1, TWO), ElectionState(1, TWO), ONE),
        lambda: invariants.speaks_of_what_is_kept(ElectionState(1), ElectionState(1, TWO), ONE),
        "voted_for=None",
    ),
    "history differs": (
        lambda: invariants.same_history([A, B, C], 1, [B, C], ONE),
        lambda: invariants.same_history([A, B, C], 1, [B, B], ONE),
        "Entry(epoch=2, text='c') was committed",
    ),
    "committed by nobody": (
        lambda: invariants.learnt_from_a_leader([A], 1, ONE),
        lambda: invariants.learnt_from_a_leader([A], 2, ONE),
        "its high watermark is 2",
    ),
    "beyond the log": (
        lambda: invariants.within_the_log(3, 3, ONE),
        lambda: invariants.within_the_log(4, 3, ONE),
        "the log ends at 3",
    ),
    "watermark went back": (
        lambda: invariants.never_back(3, 3, ONE),
        lambda: invariants.never_back(3, 2, ONE),
        "from 3 to 2",
    ),
    "taken back": (
        lambda: invariants.never_taken_back(3, 3, ONE),
        lambda: invariants.never_taken_back(3, 2, ONE),
        "cut at 2",
    ),
    "incomplete leader": (
        lambda: invariants.complete([A, B], 2, ListLog([A, B, C]), ONE),
        lambda: invariants.complete([A, B], 2, ListLog([A]), ONE),
        "it lacks Entry(epoch=1, text='b') at 1",
    ),
    "logs do not match": (
        lambda: invariants.matches((1, "c"), 1, C, 5),
        lambda: invariants.matches((0, "c"), 1, C, 5),
        "after epoch 1",
    ),
    "minority commit": (
        lambda: invariants.held_by_a_majority([ONE, TWO], 3, 7),
        lambda: invariants.held_by_a_majority([ONE, TWO], 4, 7),
        "durable on [1, 2] of 4",
    ),
    "old epoch committed": (
        lambda: invariants.of_its_own_epoch(C, 2, 2),
        lambda: invariants.of_its_own_epoch(B, 2, 1),
        "was counted in epoch 2",
    ),
    "led alone": (
        lambda: invariants.heard_by_a_majority([0, 5000], 6000, 3000, ONE),
        lambda: invariants.heard_by_a_majority([0, 2000], 6000, 3000, ONE),
        "heard of the others at [0, 2000] ms",
    ),
    "needless election": (
        lambda: invariants.needed_an_election([TWO], 3, ONE, 5),
        lambda: invariants.needed_an_election([TWO, THREE], 3, ONE, 5),
        "1 stands",
    ),
    "not healed": (
        lambda: invariants.healed(ONE, 3, {ONE: 3, TWO: 3}),
        lambda: invariants.healed(ONE, 3, {ONE: 3, TWO: None}),
        "1 leads up to 3",
    ),
    "not told": (
        lambda: invariants.told_of_it(3, 3, ONE),
        lambda: invariants.told_of_it(None, 3, ONE),
        "the driver was told None",
    ),
    "committed twice": (
        lambda: invariants.written_once(["lead", "1", "lead", "2"]),
        lambda: invariants.written_once(["lead", "1", "2", "1"]),
        "['1']",
    ),
}


@pytest.mark.parametrize("kind", CASES)
def test_a_promise_is_kept_or_broken(kind: str) -> None:
    kept, broken, evidence = CASES[kind]
    assert kept() is None
    anomaly = broken()
    assert anomaly is not None
    assert anomaly.kind == kind
    assert evidence in anomaly.evidence


def test_a_complete_leader_may_have_the_beginning_in_a_snapshot() -> None:
    log = ListLog([A, B, C])
    log.compact(2)
    assert invariants.complete([A, B, C], 3, log, ONE) is None


def test_a_leader_with_another_history_is_not_complete() -> None:
    anomaly = invariants.complete([A, B], 2, ListLog([A, C, C]), ONE)
    assert anomaly is not None
    assert "at 1" in anomaly.evidence


def test_who_leads_is_asked_for_first() -> None:
    anomaly = invariants.healed(None, 0, {ONE: 0})
    assert anomaly is not None
    assert "nobody leads" in anomaly.evidence
