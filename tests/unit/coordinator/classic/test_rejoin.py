"""JoinGroup of members that are in the group: when it starts a rebalance, and when the generation stays."""

from __future__ import annotations

import pytest

from bifrost.coordinator.core.classic.group import ClassicState
from bifrost.errors import ErrorCode
from tests.unit.coordinator.classic.stand_ins import DELAY_MS, REBALANCE_MS, SESSION_MS, Shard, codes


def test_stable_the_leader_joins_again_and_everybody_has_to() -> None:
    """Its metadata need not differ: it may have seen new partitions."""
    shard = Shard()
    leader, follower = shard.stable(2)
    waiting = shard.join(leader)
    assert (codes(waiting), shard.state) == ([None], ClassicState.PREPARING_REBALANCE)
    assert shard.heartbeat(follower) == ErrorCode.REBALANCE_IN_PROGRESS


def test_stable_a_follower_with_the_same_metadata_hears_the_current_generation() -> None:
    shard = Shard()
    leader, follower = shard.stable(2)
    (answer,) = shard.join(follower)
    assert (answer.error_code, answer.generation_id, answer.leader) == (ErrorCode.NONE, 1, leader)
    assert (answer.members, answer.protocol_name, answer.skip_assignment) == ([], "range", False)
    assert shard.state is ClassicState.STABLE


@pytest.mark.parametrize(
    "protocols",
    [
        [("range", b"new")],
        [("range", b"m"), ("more", b"")],
        [("more", b""), ("range", b"m")],
    ],
)
def test_stable_a_follower_with_other_metadata_starts_a_rebalance(protocols: list[tuple[str, bytes]]) -> None:
    shard = Shard()
    _, follower = shard.stable(2)
    assert codes(shard.join(follower, protocols=protocols)) == [None]
    assert shard.state is ClassicState.PREPARING_REBALANCE


def test_stable_a_follower_that_likes_its_protocols_in_another_order_starts_a_rebalance() -> None:
    shard = Shard()
    both = [("range", b"m"), ("sticky", b"m")]
    _, follower = shard.stable(2, both)
    assert codes(shard.join(follower, protocols=both[::-1])) == [None]


def test_completing_same_metadata_hears_the_current_generation_for_the_answer_may_be_lost() -> None:
    shard = Shard()
    leader, _ = shard.enter()
    follower, _ = shard.enter()
    shard.advance(2 * DELAY_MS)
    (to_leader,), (to_follower,) = shard.join(leader), shard.join(follower)
    assert [one.member_id for one in to_leader.members] == [leader, follower]
    assert (to_follower.members, to_follower.generation_id) == ([], 1)
    assert shard.state is ClassicState.COMPLETING_REBALANCE


def test_completing_other_metadata_starts_a_rebalance_and_ends_the_syncs() -> None:
    shard = Shard()
    leader, _ = shard.enter()
    follower, _ = shard.enter()
    shard.advance(2 * DELAY_MS)
    parked = shard.sync(follower)
    waiting = shard.join(leader, protocols=[("range", b"new")])
    assert codes(parked, waiting) == [ErrorCode.REBALANCE_IN_PROGRESS, None]
    shard.join(follower)
    assert (waiting[0].generation_id, waiting[0].members[0].metadata) == (2, b"new")


def test_preparing_who_joins_twice_is_answered_twice_and_counted_once() -> None:
    """The first request may come from a connection that its client has given up; here it does not wait for ever."""
    shard = Shard()
    leader, follower = shard.stable(2)
    first = shard.join(leader)
    second = shard.join(leader)
    assert (codes(first, second), first[0].member_id) == ([ErrorCode.REBALANCE_IN_PROGRESS, None], leader)
    assert shard.group.joined == 1
    last = shard.join(follower)
    assert codes(second, last) == [ErrorCode.NONE, ErrorCode.NONE]


def test_a_rebalance_ends_when_all_have_joined_and_the_generation_is_one_more() -> None:
    shard = Shard()
    leader, follower = shard.stable(2)
    first = shard.join(leader)
    assert codes(first) == [None]
    second = shard.join(follower)
    assert [answer[0].generation_id for answer in (first, second)] == [2, 2]


def test_a_new_member_starts_a_rebalance_that_ends_when_all_have_joined() -> None:
    shard = Shard()
    (leader,) = shard.stable()
    newcomer, waiting = shard.enter()
    assert codes(waiting) == [None]
    assert shard.heartbeat(leader) == ErrorCode.REBALANCE_IN_PROGRESS
    again = shard.join(leader)
    assert [one.member_id for one in again[0].members] == [leader, newcomer]
    assert waiting[0].generation_id == 2


def test_dynamic_members_that_do_not_join_within_the_rebalance_timeout_are_out() -> None:
    shard = Shard()
    leader, follower = shard.stable(2)
    waiting = shard.join(leader)
    for _ in range(REBALANCE_MS // 5_000 - 1):
        shard.advance(5_000)
        assert shard.heartbeat(follower) == ErrorCode.REBALANCE_IN_PROGRESS
    shard.advance(4_999)
    assert codes(waiting) == [None]
    shard.advance(1)
    assert [one.member_id for one in waiting[0].members] == [leader]
    assert shard.heartbeat(follower) == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_slowest_member_decides_how_long_a_rebalance_may_take() -> None:
    shard = Shard()
    quick, _ = shard.enter(rebalance_ms=10_000)
    slow, _ = shard.enter(rebalance_ms=20_000)
    shard.advance(2 * DELAY_MS)
    shard.settle([quick, slow])
    waiting = shard.join(quick, rebalance_ms=10_000)
    for _ in range(4):
        assert codes(waiting) == [None]
        shard.heartbeat(slow)
        shard.advance(5_000)
    assert codes(waiting) == [ErrorCode.NONE]


def test_a_leader_that_does_not_join_is_followed_by_one_that_did() -> None:
    shard = Shard()
    leader, second, third = shard.stable(3)
    waiting = shard.join(third, protocols=[("range", b"new")])
    again = shard.join(second)
    shard.advance(SESSION_MS)
    assert leader not in shard.group.members
    assert (waiting[0].leader, again[0].leader) == (second, second)
    assert (waiting[0].members, len(again[0].members)) == ([], 2)


def test_timeouts_are_those_of_the_last_join() -> None:
    shard = Shard()
    (member,) = shard.stable()
    shard.join(member, session_ms=30_000, rebalance_ms=5_000)
    shard.settle([member])
    shard.advance(29_999)
    assert shard.state is ClassicState.STABLE
    shard.advance(1)
    assert shard.state is ClassicState.EMPTY


def test_the_next_generation_of_a_group_that_was_empty_goes_on_counting() -> None:
    shard = Shard()
    (member,) = shard.stable()
    shard.leave(member)
    assert shard.group.generation == 2
    shard.stable()
    assert shard.group.generation == 3
