"""SyncGroup: who hears what, and when; and what becomes of those who never ask."""

from __future__ import annotations

import pytest

from bifrost.coordinator.core.classic.group import ClassicState
from bifrost.errors import ErrorCode
from tests.unit.coordinator.classic.stand_ins import DELAY_MS, REBALANCE_MS, SESSION_MS, Shard, codes


def agreed(shard: Shard, size: int = 2) -> list[str]:
    """A group that has joined and waits for its leader, which is the first."""
    members = [shard.enter()[0] for _ in range(size)]
    shard.advance(2 * DELAY_MS)
    return members


def test_followers_wait_for_the_leader_and_everybody_hears_its_part() -> None:
    shard = Shard()
    leader, follower = agreed(shard)
    parked = shard.sync(follower)
    assert codes(parked) == [None]
    (answer,) = shard.sync(leader, assignments={leader: b"1", follower: b"2"})
    assert (answer.assignment, parked[0].assignment) == (b"1", b"2")
    assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")
    assert shard.state is ClassicState.STABLE


def test_a_follower_that_asks_late_is_answered_at_once() -> None:
    shard = Shard()
    leader, follower = agreed(shard)
    shard.sync(leader, assignments={follower: b"2"})
    assert shard.sync(follower)[0].assignment == b"2"


def test_a_member_that_the_leader_forgot_gets_nothing_to_do() -> None:
    shard = Shard()
    leader, follower = agreed(shard)
    parked = shard.sync(follower)
    shard.sync(leader, assignments={leader: b"1", "nobody": b"3"})
    assert (codes(parked), parked[0].assignment) == ([ErrorCode.NONE], b"")


def test_only_the_leader_assigns() -> None:
    shard = Shard()
    leader, follower = agreed(shard)
    assert codes(shard.sync(follower, assignments={follower: b"all"})) == [None]
    shard.sync(leader, assignments={leader: b"1"})
    assert shard.sync(follower)[0].assignment == b""


def test_stable_the_stored_assignment_is_answered_again_and_cannot_be_changed() -> None:
    shard = Shard()
    leader, _ = shard.stable(2)
    assert shard.sync(leader, assignments={leader: b"more"})[0].assignment == leader.encode()


def test_the_assignment_is_in_the_log_before_anybody_hears_it() -> None:
    shard = Shard()
    leader, follower = agreed(shard)
    shard.sync(leader, assignments={leader: b"1", follower: b"2"})
    _, value = shard.log()[-1]
    assert value is not None
    assert (value.generation, value.protocol, value.leader) == (1, "range", leader)
    assert {one.member_id: one.assignment for one in value.members} == {leader: b"1", follower: b"2"}


def test_an_assignment_that_cannot_be_written_is_nobodys_and_everybody_joins_again() -> None:
    shard = Shard()
    leader, follower = agreed(shard)
    parked = shard.sync(follower)
    shard.journal.refuse_with = ErrorCode.COORDINATOR_NOT_AVAILABLE
    spoken = shard.sync(leader, assignments={follower: b"2"})
    assert codes(parked, spoken) == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
    assert (parked[0].assignment, shard.group.members[follower].assignment) == (b"", b"")
    assert shard.state is ClassicState.PREPARING_REBALANCE
    shard.journal.refuse_with = None
    shard.join(leader)
    shard.join(follower)
    assert shard.group.generation == 2
    shard.settle([leader, follower])


def test_while_everybody_joins_there_is_nothing_to_sync() -> None:
    shard = Shard()
    leader, follower = shard.stable(2)
    shard.join(leader)
    assert codes(shard.sync(follower), shard.sync(leader)) == [ErrorCode.REBALANCE_IN_PROGRESS] * 2


@pytest.mark.parametrize("generation", [-1, 0, 2])
def test_another_generation_is_refused(generation: int) -> None:
    shard = Shard()
    leader, _ = agreed(shard)
    assert codes(shard.sync(leader, generation)) == [ErrorCode.ILLEGAL_GENERATION]


def test_unknown_groups_and_members_are_unknown_members() -> None:
    shard = Shard()
    assert codes(shard.sync("m", 1), shard.sync("m", 1, group_id="")) == [
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.INVALID_GROUP_ID,
    ]
    (member,) = shard.stable()
    assert codes(shard.sync("m", 99)) == [ErrorCode.UNKNOWN_MEMBER_ID], "the member is looked at before the generation"
    shard.leave(member)
    assert codes(shard.sync(member)) == [ErrorCode.UNKNOWN_MEMBER_ID]
    pending = shard.join()[0].member_id
    assert codes(shard.sync(pending)) == [ErrorCode.UNKNOWN_MEMBER_ID]


@pytest.mark.parametrize(("protocol_type", "protocol_name"), [("connect", "range"), ("consumer", "sticky")])
def test_what_the_group_did_not_agree_on_is_refused(protocol_type: str, protocol_name: str) -> None:
    """KIP-559."""
    shard = Shard()
    leader, _ = agreed(shard)
    answer = shard.sync(leader, protocol_type=protocol_type, protocol_name=protocol_name)
    assert codes(answer) == [ErrorCode.INCONSISTENT_GROUP_PROTOCOL]
    assert codes(shard.sync(leader, 9, protocol_type=protocol_type)) == [ErrorCode.ILLEGAL_GENERATION]


def test_since_v5_protocol_type_and_name_have_to_be_given() -> None:
    shard = Shard()
    leader, _ = agreed(shard)
    refused = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert codes(shard.sync(leader, protocol_type=None), shard.sync(leader, protocol_name=None)) == [refused, refused]
    assert codes(shard.sync("", 9, group_id="", protocol_name=None)) == [refused], "and that is looked at first"
    assert codes(shard.sync(leader, protocol_type=None, protocol_name=None, version=4)) == [ErrorCode.NONE]


def test_who_asks_twice_is_answered_twice() -> None:
    shard = Shard()
    leader, follower = agreed(shard)
    first = shard.sync(follower)
    second = shard.sync(follower)
    assert codes(first, second) == [ErrorCode.REBALANCE_IN_PROGRESS, None]
    shard.sync(leader, assignments={follower: b"2"})
    assert second[0].assignment == b"2"


def test_a_member_that_joins_and_never_syncs_is_out_after_the_rebalance_timeout() -> None:
    """Its heartbeats do not save it. Whoever has synced joins again."""
    shard = Shard()
    leader, silent = agreed(shard)
    shard.sync(leader, assignments={leader: b"1", silent: b"2"})
    assert shard.state is ClassicState.STABLE
    for _ in range(REBALANCE_MS // 5_000):
        assert shard.heartbeat(leader) == ErrorCode.NONE
        assert shard.heartbeat(silent) == ErrorCode.NONE
        shard.advance(5_000)
    assert list(shard.group.members) == [leader]
    assert shard.heartbeat(leader) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_leader_that_never_syncs_is_out_and_the_others_are_told() -> None:
    shard = Shard()
    leader, follower = agreed(shard)
    parked = shard.sync(follower)
    for _ in range(REBALANCE_MS // 5_000):
        assert codes(parked) == [None]
        shard.heartbeat(leader)
        shard.advance(5_000)
    assert codes(parked) == [ErrorCode.REBALANCE_IN_PROGRESS]
    assert (list(shard.group.members), shard.group.leader) == ([follower], follower)
    assert shard.join(follower)[0].leader == follower


def test_a_group_in_which_nobody_syncs_becomes_empty() -> None:
    shard = Shard()
    members = agreed(shard)
    for _ in range(REBALANCE_MS // 5_000):
        for member_id in members:
            shard.heartbeat(member_id)
        shard.advance(5_000)
    assert shard.state is ClassicState.EMPTY


def test_when_all_have_synced_nobody_is_dropped() -> None:
    shard = Shard()
    members = shard.stable(2)
    for _ in range(2 * REBALANCE_MS // 5_000):
        shard.advance(5_000)
        assert [shard.heartbeat(member_id) for member_id in members] == [ErrorCode.NONE] * 2


def test_the_clock_for_syncs_starts_anew_with_every_generation() -> None:
    shard = Shard()
    leader, follower = agreed(shard)
    shard.sync(leader, assignments={})
    shard.advance(SESSION_MS - 1)
    shard.join(leader)
    shard.join(follower)
    shard.settle([leader, follower])
    for _ in range(REBALANCE_MS // 5_000):
        shard.advance(5_000)
        assert [shard.heartbeat(member_id) for member_id in (leader, follower)] == [ErrorCode.NONE] * 2


def test_who_waits_for_the_leader_need_not_send_heartbeats_and_has_a_whole_session_afterwards() -> None:
    shard = Shard()
    leader, follower = agreed(shard)
    parked = shard.sync(follower)
    for _ in range(3):
        shard.heartbeat(leader)
        shard.advance(SESSION_MS - 1)
    assert codes(parked) == [None]
    shard.sync(leader, assignments={})
    shard.advance(SESSION_MS - 1)
    assert len(shard.group.members) == 2


def test_a_sync_renews_the_session() -> None:
    shard = Shard()
    (member,) = shard.stable()
    shard.advance(SESSION_MS - 1)
    shard.sync(member)
    shard.advance(SESSION_MS - 1)
    assert shard.state is ClassicState.STABLE
