"""Who may commit offsets to a classic group, and when."""

from __future__ import annotations

import pytest

from bifrost.coordinator.core.classic.group import ClassicState
from bifrost.errors import ErrorCode
from tests.unit.coordinator.classic.stand_ins import DELAY_MS, SESSION_MS, Shard


def test_from_outside_an_empty_group_takes_commits() -> None:
    shard = Shard()
    shard.join()
    assert shard.commit() == ErrorCode.NONE, "an id that was given out is no member yet"
    assert shard.commit("whoever") == ErrorCode.NONE
    shard = Shard()
    shard.leave(*shard.stable())
    assert shard.commit() == ErrorCode.NONE


def test_from_outside_a_group_with_members_takes_none() -> None:
    shard = Shard()
    (member,) = shard.stable()
    assert shard.commit() == ErrorCode.UNKNOWN_MEMBER_ID
    assert shard.commit(member) == ErrorCode.ILLEGAL_GENERATION
    assert shard.commit(instance_id="i") == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_commits_in_its_generation() -> None:
    shard = Shard()
    (member,) = shard.stable()
    assert shard.commit(member, 1) == ErrorCode.NONE


@pytest.mark.parametrize("generation", [0, 2])
def test_another_generation_is_refused(generation: int) -> None:
    shard = Shard()
    (member,) = shard.stable()
    assert shard.commit(member, generation) == ErrorCode.ILLEGAL_GENERATION


def test_an_unknown_member_is_refused_whatever_its_generation() -> None:
    shard = Shard()
    shard.stable()
    assert (shard.commit("x", 1), shard.commit("x", 7)) == (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.UNKNOWN_MEMBER_ID)
    assert shard.commit("", 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_generation_in_an_empty_group_is_nobodys() -> None:
    shard = Shard()
    shard.join()
    assert shard.commit("x", 0) == ErrorCode.UNKNOWN_MEMBER_ID


def test_preparing_what_was_read_before_may_still_be_committed() -> None:
    """A consumer that is about to lose partitions commits first: refusing it would read everything twice."""
    shard = Shard()
    leader, follower = shard.stable(2)
    shard.join(leader)
    assert shard.state is ClassicState.PREPARING_REBALANCE
    assert shard.commit(follower, 1) == ErrorCode.NONE


def test_completing_nobody_may_commit() -> None:
    shard = Shard()
    member, _ = shard.enter()
    shard.advance(DELAY_MS)
    assert shard.state is ClassicState.COMPLETING_REBALANCE
    assert shard.commit(member, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert shard.commit(member, 0) == ErrorCode.ILLEGAL_GENERATION


@pytest.mark.parametrize("rebalancing", [False, True])
def test_a_commit_renews_the_session(rebalancing: bool) -> None:
    shard = Shard()
    leader, follower = shard.stable(2)
    if rebalancing:
        shard.join(leader)
    for _ in range(3):
        shard.advance(SESSION_MS - 1)
        assert [shard.commit(member, 1) for member in (leader, follower)] == [ErrorCode.NONE] * 2


def test_a_refused_commit_renews_nothing() -> None:
    shard = Shard()
    (member,) = shard.stable()
    shard.advance(SESSION_MS - 1)
    shard.commit(member, 9)
    shard.advance(1)
    assert shard.state is ClassicState.EMPTY
