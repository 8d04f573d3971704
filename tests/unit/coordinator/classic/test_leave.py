"""LeaveGroup: one member, many members, members by the name of their instance."""

from __future__ import annotations

import pytest

from bifrost.coordinator.core.classic.group import ClassicState
from bifrost.errors import ErrorCode
from bifrost.protocol.messages.groups import LeaveGroupRequest, MemberIdentity
from tests.unit.coordinator.classic.stand_ins import DELAY_MS, SESSION_MS, Shard, codes


def test_a_member_that_leaves_is_out_at_once_and_the_others_rebalance() -> None:
    shard = Shard()
    leader, follower = shard.stable(2)
    assert [one.error_code for one in shard.leave(follower).members] == [ErrorCode.NONE]
    assert shard.heartbeat(follower) == ErrorCode.UNKNOWN_MEMBER_ID
    assert shard.heartbeat(leader) == ErrorCode.REBALANCE_IN_PROGRESS
    assert shard.join(leader)[0].generation_id == 2


def test_when_the_leader_leaves_another_leads() -> None:
    shard = Shard()
    leader, follower = shard.stable(2)
    shard.leave(leader)
    assert shard.join(follower)[0].leader == follower


def test_when_the_last_member_leaves_the_group_is_empty_and_that_is_written() -> None:
    shard = Shard()
    (member,) = shard.stable()
    shard.leave(member)
    assert (shard.state, shard.group.generation) == (ClassicState.EMPTY, 2)
    after = shard.restart()
    assert (after.state, after.group.generation) == (ClassicState.EMPTY, 2)
    assert after.group.empty_since_ms == shard.group.empty_since_ms is not None


@pytest.mark.parametrize("version", [0, 1, 2])
def test_before_v3_one_member_leaves_and_its_error_is_that_of_the_request(version: int) -> None:
    shard = Shard()
    (member,) = shard.stable()
    answer = shard.core.leave(LeaveGroupRequest(group_id="g", member_id="x"), version)
    assert (answer.error_code, answer.members) == (ErrorCode.UNKNOWN_MEMBER_ID, [])
    answer = shard.core.leave(LeaveGroupRequest(group_id="g", member_id=member), version)
    assert (answer.error_code, answer.members) == (ErrorCode.NONE, [])
    assert shard.state is ClassicState.EMPTY


def test_many_leave_at_once_with_one_rebalance_and_each_its_own_answer() -> None:
    shard = Shard()
    leader, second, third = shard.stable(3)
    answer = shard.leave(second, "x", third, second)
    assert answer.error_code == ErrorCode.NONE
    assert [(one.member_id, one.error_code) for one in answer.members] == [
        (second, ErrorCode.NONE),
        ("x", ErrorCode.UNKNOWN_MEMBER_ID),
        (third, ErrorCode.NONE),
        (second, ErrorCode.UNKNOWN_MEMBER_ID),
    ]
    assert shard.join(leader)[0].generation_id == 2


def test_nobody_is_disturbed_by_a_leave_that_was_refused() -> None:
    shard = Shard()
    shard.stable(2)
    shard.leave("x", "")
    assert shard.state is ClassicState.STABLE


def test_an_administrator_removes_static_members_by_the_names_of_their_instances() -> None:
    shard = Shard()
    for name in ("one", "two"):
        shard.join(instance_id=name)
    shard.advance(2 * DELAY_MS)
    request = LeaveGroupRequest(
        group_id="g",
        members=[MemberIdentity(member_id="", group_instance_id=name) for name in ("two", "three", "one")],
    )
    answer = shard.core.leave(request, 3)
    assert [(one.member_id, one.group_instance_id, one.error_code) for one in answer.members] == [
        ("", "two", ErrorCode.NONE),
        ("", "three", ErrorCode.UNKNOWN_MEMBER_ID),
        ("", "one", ErrorCode.NONE),
    ]
    assert shard.state is ClassicState.EMPTY


def test_a_static_member_may_leave_with_its_id_alone() -> None:
    shard = Shard()
    shard.join(instance_id="one")
    shard.advance(DELAY_MS)
    (member,) = shard.group.members
    assert shard.leave(member).members[0].error_code == ErrorCode.NONE


def test_a_pending_member_may_leave() -> None:
    shard = Shard()
    leader, follower = shard.stable(2)
    pending = shard.join()[0].member_id
    waiting = shard.join(leader), shard.join(follower)
    assert codes(*waiting) == [None, None]
    assert shard.leave(pending).members[0].error_code == ErrorCode.NONE
    assert codes(*waiting) == [ErrorCode.NONE] * 2
    assert codes(shard.join(pending)) == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_who_waits_and_is_removed_is_told_so() -> None:
    shard = Shard()
    _, joining = shard.enter()
    member, _ = shard.enter()
    shard.leave(member)
    shard.advance(2 * DELAY_MS)
    follower, waiting = shard.enter()
    shard.leave(follower)
    assert (codes(joining, waiting), waiting[0].member_id) == ([ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID], "")


def test_who_waits_for_its_assignment_and_is_removed_is_told_so() -> None:
    """Kafka forgets such a request, and its connection is stuck."""
    shard = Shard()
    shard.enter()
    follower, _ = shard.enter()
    shard.advance(2 * DELAY_MS)
    parked = shard.sync(follower)
    shard.leave(follower)
    assert codes(parked) == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_a_leave_ends_the_joining_if_only_that_member_was_missing() -> None:
    shard = Shard()
    leader, follower = shard.stable(2)
    waiting = shard.join(leader)
    shard.leave(follower)
    assert codes(waiting) == [ErrorCode.NONE]


def test_the_session_of_a_member_that_left_is_over() -> None:
    shard = Shard()
    leader, follower = shard.stable(2)
    shard.leave(follower)
    shard.join(leader)
    shard.settle([leader])
    assert len(shard.deadlines) == 1
    shard.advance(SESSION_MS - 1)
    assert shard.state is ClassicState.STABLE


def test_groups_that_are_not_there() -> None:
    shard = Shard()
    assert shard.leave("m", group_id="").error_code == ErrorCode.INVALID_GROUP_ID
    answer = shard.leave("m", "n")
    assert answer.error_code == ErrorCode.NONE
    assert [one.error_code for one in answer.members] == [ErrorCode.UNKNOWN_MEMBER_ID] * 2
    old = shard.core.leave(LeaveGroupRequest(group_id="g", member_id="m"), 1)
    assert old.error_code == ErrorCode.UNKNOWN_MEMBER_ID
