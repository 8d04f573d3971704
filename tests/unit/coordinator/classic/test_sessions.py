"""Heartbeats and sessions: who lives, who is out, and what a rebalance looks like from a heartbeat."""

from __future__ import annotations

import pytest

from bifrost.coordinator.core.classic.group import ClassicState
from bifrost.errors import ErrorCode
from tests.unit.coordinator.classic.stand_ins import DELAY_MS, GROUP, SESSION_MS, Shard, codes


def test_a_heartbeat_renews_the_session() -> None:
    shard = Shard()
    (member,) = shard.stable()
    for _ in range(5):
        shard.advance(SESSION_MS - 1)
        assert shard.heartbeat(member) == ErrorCode.NONE
    assert shard.state is ClassicState.STABLE


def test_a_member_whose_session_ends_is_out_and_the_others_rebalance() -> None:
    shard = Shard()
    leader, dead = shard.stable(2)
    shard.advance(SESSION_MS - 1)
    shard.heartbeat(leader)
    assert shard.state is ClassicState.STABLE
    shard.advance(1)
    assert shard.heartbeat(dead) == ErrorCode.UNKNOWN_MEMBER_ID
    assert shard.heartbeat(leader) == ErrorCode.REBALANCE_IN_PROGRESS
    (answer,) = shard.join(leader)
    assert (answer.generation_id, len(answer.members)) == (2, 1)


def test_when_the_leader_dies_another_leads() -> None:
    shard = Shard()
    _, second, third = shard.stable(3)
    shard.advance(SESSION_MS - 1)
    shard.heartbeat(second)
    shard.heartbeat(third)
    shard.advance(1)
    again = [shard.join(second), shard.join(third)]
    assert {answer[0].leader for answer in again} == {second}


def test_the_last_member_that_dies_leaves_an_empty_group_in_the_log() -> None:
    shard = Shard()
    shard.stable()
    shard.advance(SESSION_MS)
    _, value = shard.log()[-1]
    assert value is not None
    assert (value.generation, value.members, value.protocol, value.leader) == (2, [], None, None)
    assert value.protocol_type == "consumer"
    assert shard.state is ClassicState.EMPTY


def test_a_group_becomes_empty_even_if_that_cannot_be_written() -> None:
    """After a restart the last generation would be back, and its sessions would run out."""
    shard = Shard()
    shard.stable()
    shard.journal.refuse_with = ErrorCode.COORDINATOR_NOT_AVAILABLE
    shard.advance(SESSION_MS)
    assert shard.state is ClassicState.EMPTY
    shard.journal.refuse_with = None
    assert shard.restart().state is ClassicState.STABLE


def test_preparing_a_heartbeat_says_join_again_and_renews_the_session() -> None:
    shard = Shard()
    leader, follower = shard.stable(2)
    shard.join(leader)
    for _ in range(3):
        shard.advance(SESSION_MS - 1)
        assert shard.heartbeat(follower) == ErrorCode.REBALANCE_IN_PROGRESS


def test_completing_a_heartbeat_is_fine_and_renews_the_session() -> None:
    shard = Shard()
    member, _ = shard.enter()
    shard.advance(DELAY_MS)
    for _ in range(3):
        shard.advance(SESSION_MS - 1)
        assert shard.heartbeat(member) == ErrorCode.NONE
    assert shard.state is ClassicState.COMPLETING_REBALANCE


def test_completing_a_member_whose_session_ends_starts_a_rebalance_and_ends_the_syncs() -> None:
    shard = Shard()
    _, _ = shard.enter()
    follower, _ = shard.enter()
    shard.advance(2 * DELAY_MS)
    parked = shard.sync(follower)
    shard.advance(SESSION_MS)
    assert codes(parked) == [ErrorCode.REBALANCE_IN_PROGRESS]
    assert shard.state is ClassicState.PREPARING_REBALANCE


def test_who_waits_for_the_next_generation_need_not_send_heartbeats() -> None:
    shard = Shard()
    leader, follower = shard.stable(2)
    waiting = shard.join(leader)
    for _ in range(4):
        shard.heartbeat(follower)
        shard.advance(SESSION_MS - 1)
    assert codes(waiting) == [None]
    shard.join(follower)
    assert codes(waiting) == [ErrorCode.NONE]


def test_the_death_of_the_last_one_missing_ends_the_joining() -> None:
    shard = Shard()
    leader, follower = shard.stable(2)
    waiting = shard.join(leader)
    shard.advance(SESSION_MS)
    assert follower not in shard.group.members
    assert (waiting[0].generation_id, len(waiting[0].members)) == (2, 1)


def test_an_empty_group_has_no_members_to_hear_from() -> None:
    shard = Shard()
    (member,) = shard.stable()
    shard.leave(member)
    assert shard.heartbeat(member) == ErrorCode.UNKNOWN_MEMBER_ID


def test_refusals_of_a_heartbeat_in_their_order() -> None:
    shard = Shard()
    assert shard.heartbeat("m", 1, group_id="") == ErrorCode.INVALID_GROUP_ID
    assert shard.heartbeat("m", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    shard.groups["other"] = object()
    assert shard.heartbeat("m", 1, group_id="other") == ErrorCode.UNKNOWN_MEMBER_ID
    (member,) = shard.stable()
    assert shard.heartbeat("m", 99) == ErrorCode.UNKNOWN_MEMBER_ID
    assert shard.heartbeat(member, 99) == ErrorCode.ILLEGAL_GENERATION


@pytest.mark.parametrize("generation", [-1, 0, 2])
def test_a_heartbeat_of_another_generation_is_refused_and_renews_nothing(generation: int) -> None:
    shard = Shard()
    (member,) = shard.stable()
    shard.advance(SESSION_MS - 1)
    assert shard.heartbeat(member, generation) == ErrorCode.ILLEGAL_GENERATION
    shard.advance(1)
    assert shard.state is ClassicState.EMPTY


def test_a_pending_member_has_no_heartbeat() -> None:
    shard = Shard()
    shard.stable()
    pending = shard.join()[0].member_id
    assert shard.heartbeat(pending) == ErrorCode.UNKNOWN_MEMBER_ID


def test_no_clock_is_left_when_everybody_is_gone() -> None:
    shard = Shard()
    members = shard.stable(3)
    shard.join()
    shard.leave(*members)
    shard.advance(SESSION_MS)
    assert (shard.state, len(shard.deadlines)) == (ClassicState.EMPTY, 0)


def test_when_the_shard_moves_away_everybody_who_waits_is_sent_after_it() -> None:
    shard = Shard()
    shard.enter()
    follower, _ = shard.enter()
    shard.advance(2 * DELAY_MS)
    syncing = shard.sync(follower)
    joining = shard.join(version=3, group_id="h")
    shard.core.unload()
    assert codes(syncing, joining) == [ErrorCode.NOT_COORDINATOR] * 2
    assert (shard.groups, len(shard.deadlines)) == ({}, 0)


def test_groups_do_not_disturb_each_other() -> None:
    shard = Shard()
    (member,) = shard.stable()
    shard.join(version=3, group_id="h")
    shard.advance(DELAY_MS)
    assert shard.heartbeat(member) == ErrorCode.NONE
    assert shard.heartbeat(member, group_id="h") == ErrorCode.UNKNOWN_MEMBER_ID
    assert set(shard.groups) == {GROUP, "h"}
