"""JoinGroup of members that are new: ids, pending members, the first rebalance."""

from __future__ import annotations

import pytest

from bifrost.coordinator.core.classic.group import ClassicState
from bifrost.coordinator.core.settings import GroupSettings
from bifrost.errors import ErrorCode
from tests.unit.coordinator.classic.stand_ins import DELAY_MS, SESSION_MS, Shard, codes


def test_a_dynamic_member_without_an_id_is_given_one_and_sent_back() -> None:
    """KIP-394."""
    shard = Shard()
    (answer,) = shard.join(version=4)
    assert (answer.error_code, answer.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "app-id1")
    assert (answer.generation_id, answer.leader, answer.members) == (-1, "", [])
    assert shard.state is ClassicState.EMPTY
    assert shard.group.pending_joins == {"app-id1"}


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_before_v4_a_member_without_an_id_is_in_at_once(version: int) -> None:
    shard = Shard()
    waiting = shard.join(version=version)
    shard.advance(DELAY_MS)
    (answer,) = waiting
    assert (answer.error_code, answer.member_id, answer.leader) == (ErrorCode.NONE, "app-id1", "app-id1")


def test_a_static_member_needs_no_second_round() -> None:
    """KIP-345."""
    shard = Shard()
    waiting = shard.join(instance_id="i")
    shard.advance(DELAY_MS)
    assert waiting[0].member_id == "i-id1"
    assert waiting[0].members[0].group_instance_id == "i"


def test_a_pending_member_that_comes_back_is_in() -> None:
    shard = Shard()
    member_id, waiting = shard.enter()
    assert shard.group.pending_joins == set()
    shard.advance(DELAY_MS)
    assert (waiting[0].member_id, waiting[0].generation_id) == (member_id, 1)


def test_a_pending_member_that_does_not_come_back_is_forgotten_after_its_session_timeout() -> None:
    shard = Shard()
    shard.join(session_ms=SESSION_MS)
    shard.advance(SESSION_MS - 1)
    assert shard.group.pending_joins
    shard.advance(1)
    assert not shard.group.pending_joins
    assert codes(shard.join("app-id1")) == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_a_pending_member_holds_up_a_rebalance_until_its_session_timeout() -> None:
    shard = Shard()
    leader, follower = shard.stable(2)
    shard.join(session_ms=SESSION_MS)
    again = shard.join(leader), shard.join(follower)
    assert codes(*again) == [None, None]
    shard.advance(SESSION_MS - 1)
    assert codes(*again) == [None, None]
    shard.advance(1)
    assert codes(*again) == [ErrorCode.NONE, ErrorCode.NONE]


def test_an_id_that_was_never_given_out_is_unknown() -> None:
    shard = Shard()
    assert codes(shard.join("x")) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert shard.groups == {}
    shard.stable()
    assert codes(shard.join("x")) == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_a_pending_member_cannot_turn_static() -> None:
    shard = Shard()
    (answer,) = shard.join()
    assert codes(shard.join(answer.member_id, instance_id="i")) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert codes(shard.join(answer.member_id)) == [None]


def test_the_first_rebalance_waits_for_others_to_arrive() -> None:
    shard = Shard()
    _, first = shard.enter()
    shard.advance(DELAY_MS - 1)
    assert codes(first) == [None]
    assert shard.state is ClassicState.PREPARING_REBALANCE
    shard.advance(1)
    assert codes(first) == [ErrorCode.NONE]
    assert shard.state is ClassicState.COMPLETING_REBALANCE


def test_the_first_rebalance_is_held_back_as_long_as_members_keep_arriving() -> None:
    shard = Shard()
    waiting = [shard.enter()[1]]
    for _ in range(4):
        shard.advance(DELAY_MS - 1)
        waiting.append(shard.enter()[1])
        shard.advance(1)
        assert codes(*waiting) == [None] * len(waiting)
    shard.advance(DELAY_MS)
    assert codes(*waiting) == [ErrorCode.NONE] * 5
    assert {one[0].generation_id for one in waiting} == {1}


def test_the_first_rebalance_is_held_back_for_the_rebalance_timeout_at_most() -> None:
    shard = Shard()
    _, first = shard.enter(rebalance_ms=10_000)
    for _ in range(9):
        shard.advance(1_000)
        shard.enter(rebalance_ms=10_000)
    shard.advance(999)
    assert codes(first) == [None]
    shard.advance(1)
    assert codes(first) == [ErrorCode.NONE]
    assert len(first[0].members) == 10


def test_without_a_delay_the_first_rebalance_ends_at_once() -> None:
    shard = Shard(GroupSettings(initial_rebalance_delay_ms=0))
    _, first = shard.enter()
    shard.advance(0)
    assert codes(first) == [ErrorCode.NONE]


def test_a_pending_member_does_not_hold_up_the_first_rebalance() -> None:
    """As in Kafka: it comes too late, and starts the second one."""
    shard = Shard()
    late = shard.join()[0].member_id
    _, first = shard.enter()
    shard.advance(DELAY_MS)
    assert codes(first) == [ErrorCode.NONE]
    shard.join(late)
    assert shard.state is ClassicState.PREPARING_REBALANCE


def test_the_first_joiner_leads_and_hears_of_the_others_and_only_the_leader_does() -> None:
    shard = Shard()
    leader, first = shard.enter([("range", b"one")])
    follower, second = shard.enter([("range", b"two")])
    shard.advance(2 * DELAY_MS)
    assert [(one.member_id, one.metadata) for one in first[0].members] == [(leader, b"one"), (follower, b"two")]
    assert (second[0].leader, second[0].members) == (leader, [])
    assert (second[0].protocol_type, second[0].protocol_name) == ("consumer", "range")


def test_v0_has_no_rebalance_timeout_and_uses_the_session_timeout() -> None:
    shard = Shard()
    shard.join(version=0, session_ms=7_000)
    shard.join(version=1, session_ms=7_000, rebalance_ms=8_000)
    assert [member.rebalance_timeout_ms for member in shard.group.members.values()] == [7_000, 8_000]


def test_a_new_member_is_not_kept_waiting_for_ever() -> None:
    """It cannot send heartbeats, so its session does not count; after five minutes it is told to start over."""
    shard = Shard()
    (leader,) = shard.stable()
    shard.join(leader, rebalance_ms=3_600_000)
    shard.settle([leader])
    _, waiting = shard.enter(rebalance_ms=3_600_000)
    for _ in range(100):
        shard.heartbeat(leader)
        shard.advance(SESSION_MS // 4)
    assert codes(waiting) == [None], "sessions do not end it"
    for _ in range(20):
        shard.heartbeat(leader)
        shard.advance(SESSION_MS // 4)
    assert (codes(waiting), waiting[0].member_id) == ([ErrorCode.UNKNOWN_MEMBER_ID], "")
    assert list(shard.group.members) == [leader]


def test_a_member_that_has_been_answered_once_lives_by_its_session() -> None:
    shard = Shard()
    member_id, _ = shard.enter()
    shard.advance(DELAY_MS)
    shard.settle([member_id])
    shard.advance(SESSION_MS)
    assert shard.state is ClassicState.EMPTY


def test_everybody_may_leave_during_the_first_rebalance() -> None:
    shard = Shard()
    member_id, waiting = shard.enter()
    assert shard.leave(member_id).members[0].error_code == ErrorCode.NONE
    assert codes(waiting) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert shard.state is ClassicState.PREPARING_REBALANCE
    shard.advance(DELAY_MS)
    assert (shard.state, shard.group.generation) == (ClassicState.EMPTY, 1)
    _, waiting = shard.enter()
    shard.advance(DELAY_MS)
    assert waiting[0].generation_id == 2


def test_a_group_that_is_new_is_written_down_before_anybody_hears_of_it() -> None:
    shard = Shard()
    shard.join()
    ((key, value),) = shard.log()
    assert value is not None
    assert (key.group, value.generation, value.protocol_type, value.members) == ("g", 0, "", [])
    shard.enter()
    assert len(shard.log()) == 1


def test_a_group_that_cannot_be_written_down_is_not_there() -> None:
    shard = Shard()
    shard.journal.refuse_with = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert codes(shard.join()) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert shard.groups == {}
    assert len(shard.deadlines) == 0
