"""Every promise can be seen to be broken: a few facts by hand for each, and some in which all is well."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bifrost.raft.core.messages import ElectionState
from bifrost.types import NodeId
from tests.sim.cluster.admins import Changed, Listed, Shape
from tests.sim.cluster.checkers import lost_changes
from tests.sim.cluster.judge import Judge
from tests.sim.history import History

VOTED = ElectionState(3, NodeId(2))


class Court:
    """A judge, and what it found."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.judge = Judge((1, 2, 3), lambda kind, _: self.found.append(kind))
        self.holders = {1, 2, 3}

    def commit(self, life: str, high_watermark: int, epoch: int | None) -> None:
        self.judge.commits(life, high_watermark, epoch, lambda voter, _: voter in self.holders)

    def lead(self, life: str, epoch: int, end_offset: int) -> None:
        """Elected with a log up to there, it writes a record and commits it."""
        self.judge.leads(life, epoch, end_offset)
        self.judge.writes(life, epoch, end_offset + 1, b"%d" % epoch)
        self.commit(life, end_offset + 1, epoch)

    def follow(self, life: str, value: bytes = b"a", image: int = 7, broker_epoch: int = 4) -> None:
        self.judge.applies(life, 0, value)
        self.judge.stands_at(life, 1, 1, image, {5: broker_epoch})


def broken() -> dict[str, Callable[[Court], object]]:
    return {
        "two leaders": lambda court: (court.lead("a-1", 1, 0), court.lead("b-1", 1, 1)),
        "incomplete leader": lambda court: (court.lead("a-1", 1, 5), court.lead("b-1", 2, 5)),
        "two votes": lambda court: (
            court.judge.votes(1, 0, 3, 2, VOTED),
            court.judge.votes(1, 0, 3, 3, VOTED._replace(voted_for=NodeId(3))),
        ),
        "vote not kept": lambda court: court.judge.votes(1, 0, 3, 2, VOTED._replace(epoch=2)),
        "logs do not match": lambda court: (
            court.judge.writes("a-1", 1, 1, b"x"),
            court.judge.writes("a-1", 1, 1, b"y"),
        ),
        "watermark went back": lambda court: (court.lead("a-1", 1, 0), court.commit("a-1", 0, None)),
        "committed by nobody": lambda court: (court.lead("a-1", 1, 0), court.commit("b-1", 2, None)),
        "old epoch committed": lambda court: (court.lead("a-1", 1, 0), court.commit("a-1", 9, 1)),
        "minority commit": lambda court: (court.holders.intersection_update({1}), court.lead("a-1", 1, 0)),
        "taken back": lambda court: (court.lead("a-1", 1, 3), court.judge.truncates("a-1", 2, 2)),
        "not cut": lambda court: court.judge.truncates("a-1", 2, 3),
        "sound disk given up": lambda court: court.judge.begins_anew("a-1", "a torn write"),
        "history differs": lambda court: (court.follow("a-1"), court.judge.applies("b-1", 0, b"b")),
        "snapshot of nobody": lambda court: (court.follow("a-1"), court.judge.restores("c-2", 2)),
        "image differs": lambda court: (court.follow("a-1"), court.follow("b-1", image=8)),
        "shown too early": lambda court: court.judge.stands_at("a-1", 2, 1, 7, {}),
        "broker epoch went back": lambda court: (
            court.follow("a-1"),
            court.judge.stands_at("a-1", 2, 2, 8, {5: 3}),
        ),
        "stale broker epoch accepted": lambda court: court.judge.accepts("a-1", "heartbeat", 5, 4, 6),
        "needless fence": lambda court: court.judge.fences("a-1", 5, lives=True),
        "served while fenced": lambda court: court.judge.appends("b-1", "t-0", (5, 1), (-1, 2)),
    }


@pytest.mark.parametrize("kind", broken())
def test_a_broken_promise_is_noticed(kind: str) -> None:
    court = Court()
    broken()[kind](court)
    assert kind in court.found


@pytest.mark.parametrize(("applies_it", "found"), [(True, []), (False, ["history differs"])])
def test_who_began_with_a_snapshot_has_the_history_that_it_stands_for(applies_it: bool, found: list[str]) -> None:
    court = Court()
    court.follow("a-1")
    court.judge.applies("a-1", 1, b"b")
    court.judge.stands_at("a-1", 2, 2, 8, {})
    court.judge.restores("c-2", 1)
    court.judge.stands_at("c-2", 1, 1, 7, {})
    if applies_it:
        court.judge.applies("c-2", 1, b"b")
    court.judge.stands_at("c-2", 2, 2, 8, {})
    assert court.found == found


def test_nothing_is_found_where_all_is_well() -> None:
    court = Court()
    court.judge.begins("a-1", 0)
    court.judge.votes(1, 0, 3, 2, VOTED)
    court.judge.votes(1, 1, 3, 3, VOTED._replace(voted_for=NodeId(3)))  # on a new disk
    court.lead("a-1", 1, 0)
    court.commit("b-1", 1, None)
    court.follow("a-1")
    court.follow("b-1")
    court.judge.restores("c-2", 1)
    court.judge.stands_at("c-2", 1, 1, 7, {5: 4})
    court.lead("b-1", 2, 1)
    court.judge.truncates("a-1", 1, 1)
    court.judge.accepts("a-1", "heartbeat", 5, 6, 6)
    court.judge.appends("b-1", "t-0", (5, 1), (5, 1))
    court.judge.fences("a-1", 5, lives=False)
    assert court.found == []


@pytest.mark.parametrize(
    ("outcome", "listed", "is_lost"),
    [
        ("done", {"t": Shape(2)}, False),
        ("done", {}, True),
        ("done", {"t": Shape(1)}, True),
        ("refused", {}, True),
        ("unknown", {}, False),
        ("unknown", {"t": Shape(2)}, False),
        ("unknown", {"t": Shape(3)}, True),
        ("done", {"t": Shape(2), "other": Shape(1)}, True),
    ],
)
def test_a_change_that_was_acknowledged_is_there(outcome: str, listed: dict[str, Shape], is_lost: bool) -> None:
    history = History()
    history.events += [Changed(1.0, "t", None, Shape(2), outcome), Listed(2.0, "b", listed)]  # type: ignore[list-item]
    assert bool(lost_changes(history)) == is_lost
