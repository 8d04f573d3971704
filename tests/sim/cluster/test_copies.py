"""Every promise about copies can be seen to be broken: a few facts by hand for each, and some in which all is well."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.sim.cluster.copies import Batch, CopyJudge

KEY = ("topic", 0)
FIRST, SECOND, OTHER = Batch(0, 3, b"first"), Batch(3, 5, b"second"), Batch(3, 5, b"other")


class Court:
    """A judge, and what it found; replicas a-1 and b-1 that hold the same batch."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.alive = {"a-1", "b-1"}
        self.holders = [1, 2]
        self.judge = CopyJudge(lambda kind, _: self.found.append(kind), lambda life: life in self.alive)
        for life in ("a-1", "b-1"):
            self.judge.opens(life, KEY, [FIRST], 0)

    def write(self, life: str, batch: Batch) -> None:
        self.judge.writes(life, KEY, [batch])

    def commit(self, life: str, offset: int) -> None:
        self.judge.shows(life, KEY, offset)
        self.judge.commits(life, KEY, 0, lambda _: self.holders, {1, 2})

    def out_of_range(self, offset: int, asked_at: float = 5.0) -> None:
        self.judge.is_out_of_range(KEY, offset, asked_at, 6.0)


BROKEN: dict[str, Callable[[Court], object]] = {
    "written twice": lambda court: court.write("a-1", Batch(2, 4, b"again")),
    "committed and cut": lambda court: (court.commit("a-1", 3), court.judge.cuts("a-1", KEY, 0)),
    "watermark went back": lambda court: (court.commit("a-1", 3), court.judge.shows("a-1", KEY, 2)),
    "committed, not held": lambda court: court.commit("a-1", 5),
    "copies differ": lambda court: (
        court.write("a-1", SECOND),
        court.commit("a-1", 5),
        court.write("b-1", OTHER),
        court.commit("b-1", 5),
    ),
    "not on every disk": lambda court: (court.holders.remove(2), court.commit("a-1", 3)),
    "two partition leaders": lambda court: (
        court.judge.leads("a-1", KEY, 1, 0.0),
        court.judge.leads("b-1", KEY, 1, 1.0),
    ),
    "leader lacks committed": lambda court: (
        court.write("a-1", SECOND),
        court.commit("a-1", 5),
        court.judge.leads("b-1", KEY, 2, 0.0),
    ),
    "acknowledged too early": lambda court: court.judge.acknowledges(KEY, 3),
    "read too early": lambda court: court.judge.is_read(KEY, 1),
    "false end": lambda court: (court.commit("a-1", 3), court.judge.leads("a-1", KEY, 1, 0.0), court.out_of_range(3)),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_promise_is_noticed(kind: str) -> None:
    court = Court()
    BROKEN[kind](court)
    assert kind in court.found


def test_nothing_is_found_where_all_is_well() -> None:
    court = Court()
    court.judge.leads("a-1", KEY, 1, 0.0)
    court.commit("a-1", 3)
    court.write("a-1", SECOND)
    court.judge.acknowledges(KEY, 3)
    court.judge.is_read(KEY, 3)
    court.alive.remove("a-1")
    court.judge.leads("b-1", KEY, 2, 1.0)
    court.write("b-1", OTHER)
    court.commit("b-1", 5)
    court.judge.opens("a-2", KEY, [FIRST, SECOND], 3)
    court.judge.cuts("a-2", KEY, 3)
    court.write("a-2", OTHER)
    court.judge.shows("a-2", KEY, 5)
    court.out_of_range(6)
    assert court.found == []


def test_who_does_not_know_yet_that_another_leads_may_be_wrong_about_the_end() -> None:
    court = Court()
    court.commit("a-1", 3)
    court.judge.leads("b-1", KEY, 1, 1.0)
    court.judge.leads("a-1", KEY, 2, 2.0)
    court.out_of_range(3)
    court.judge.resigns("b-1", KEY, 5.5)
    court.out_of_range(3)
    assert court.found == []
    court.out_of_range(3, asked_at=5.6)
    assert court.found == ["false end"]
