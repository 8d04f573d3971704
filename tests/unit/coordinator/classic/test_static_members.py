"""Static members (KIP-345): replaced without a rebalance where that is possible, and the old one fenced."""

from __future__ import annotations

import pytest

from bifrost.coordinator.core.classic.group import ClassicState
from bifrost.coordinator.core.environment import Client
from bifrost.errors import ErrorCode
from bifrost.protocol.messages.groups import LeaveGroupRequest, MemberIdentity
from tests.unit.coordinator.classic.stand_ins import DELAY_MS, REBALANCE_MS, SESSION_MS, Shard, codes


def static_pair(shard: Shard) -> tuple[str, str]:
    """A stable group of two static members: the leader is `one`, the follower is `two`."""
    for name in ("one", "two"):
        shard.join(instance_id=name)
    shard.advance(2 * DELAY_MS)
    leader, follower = shard.group.members
    shard.settle([leader, follower])
    return leader, follower


def test_a_static_member_that_comes_back_without_its_id_is_replaced_without_a_rebalance() -> None:
    shard = Shard()
    leader, old = static_pair(shard)
    (answer,) = shard.join(instance_id="two")
    assert (answer.error_code, answer.generation_id, answer.member_id) == (ErrorCode.NONE, 1, "two-id3")
    assert (answer.leader, answer.members, answer.skip_assignment) == (leader, [], False)
    assert shard.state is ClassicState.STABLE
    assert shard.sync(answer.member_id)[0].assignment == old.encode()


def test_the_old_id_is_fenced_everywhere() -> None:
    shard = Shard()
    _, old = static_pair(shard)
    shard.join(instance_id="two")
    fenced = ErrorCode.FENCED_INSTANCE_ID
    assert shard.heartbeat(old, instance_id="two") == fenced
    assert codes(shard.sync(old, instance_id="two"), shard.join(old, instance_id="two")) == [fenced, fenced]
    assert shard.commit(old, 1, instance_id="two") == fenced
    request = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=old, group_instance_id="two")])
    assert shard.core.leave(request, 3).members[0].error_code == fenced
    assert shard.heartbeat(old) == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_instance_nobody_knows_is_an_unknown_member() -> None:
    shard = Shard()
    leader, _ = static_pair(shard)
    assert shard.heartbeat(leader, instance_id="three") == ErrorCode.UNKNOWN_MEMBER_ID
    assert codes(shard.join(leader, instance_id="three")) == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_fencing_is_looked_at_before_the_generation() -> None:
    shard = Shard()
    _, old = static_pair(shard)
    shard.join(instance_id="two")
    assert shard.heartbeat(old, 99, instance_id="two") == ErrorCode.FENCED_INSTANCE_ID
    assert codes(shard.sync(old, 99, instance_id="two")) == [ErrorCode.FENCED_INSTANCE_ID]


def test_a_leader_that_comes_back_is_told_to_skip_the_assignment() -> None:
    """KIP-814: it watches the topics again, without a rebalance."""
    shard = Shard()
    _, follower = static_pair(shard)
    (answer,) = shard.join(instance_id="one", version=9)
    assert (answer.leader, answer.skip_assignment) == (answer.member_id, True)
    assert sorted(one.member_id for one in answer.members) == sorted([answer.member_id, follower])
    assert shard.group.leader == answer.member_id
    assert shard.state is ClassicState.STABLE


@pytest.mark.parametrize("version", [5, 6, 7, 8])
def test_before_v9_a_leader_that_comes_back_is_told_that_its_old_self_leads(version: int) -> None:
    """So it takes itself for a follower, and does not assign."""
    shard = Shard()
    old, _ = static_pair(shard)
    (answer,) = shard.join(instance_id="one", version=version)
    assert (answer.leader, answer.members, answer.skip_assignment) == (old, [], False)
    assert answer.member_id != old
    assert shard.group.leader == answer.member_id


def test_a_replacement_is_written_down_before_it_is_answered() -> None:
    shard = Shard()
    leader, old = static_pair(shard)
    written = len(shard.log())
    (answer,) = shard.join(instance_id="two")
    assert len(shard.log()) == written + 1
    after = shard.restart()
    assert set(after.group.members) == {leader, answer.member_id}
    assert after.heartbeat(answer.member_id, 1, instance_id="two") == ErrorCode.NONE
    assert after.heartbeat(old, 1, instance_id="two") == ErrorCode.FENCED_INSTANCE_ID
    assert after.sync(answer.member_id)[0].assignment == old.encode()


def test_a_replacement_that_cannot_be_written_down_has_not_happened() -> None:
    shard = Shard()
    leader, old = static_pair(shard)
    shard.journal.refuse_with = ErrorCode.COORDINATOR_NOT_AVAILABLE
    (answer,) = shard.join(instance_id="one")
    assert (answer.error_code, answer.member_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, "")
    assert shard.group.leader == leader
    assert shard.heartbeat(leader, instance_id="one") == ErrorCode.NONE
    shard.journal.refuse_with = None
    shard.heartbeat(old)
    shard.advance(SESSION_MS)
    assert shard.state is ClassicState.EMPTY, "the sessions are still those of the old ids"


def test_a_replacement_with_other_metadata_and_the_same_protocol_starts_no_rebalance() -> None:
    shard = Shard()
    static_pair(shard)
    assert codes(shard.join(instance_id="two", protocols=[("range", b"other")])) == [ErrorCode.NONE]
    assert shard.state is ClassicState.STABLE


def test_a_replacement_that_changes_the_protocol_starts_a_rebalance() -> None:
    shard = Shard()
    both = [("range", b""), ("sticky", b"")]
    for name in ("one", "two"):
        shard.join(instance_id=name, protocols=both)
    shard.advance(2 * DELAY_MS)
    leader, follower = shard.group.members
    shard.settle([leader, follower])
    waiting = shard.join(instance_id="two", protocols=[("sticky", b"")])
    assert (codes(waiting), shard.state) == ([None], ClassicState.PREPARING_REBALANCE)
    (again,) = shard.join(leader, instance_id="one", protocols=both)
    assert (again.protocol_name, waiting[0].protocol_name, again.generation_id) == ("sticky", "sticky", 2)


def test_a_replacement_while_the_leader_assigns_starts_a_rebalance() -> None:
    """The leader knows the old id only: what it would give to that one would be lost."""
    shard = Shard()
    shard.join(instance_id="one")
    shard.join(instance_id="two")
    shard.advance(2 * DELAY_MS)
    leader, old = shard.group.members
    parked = shard.sync(old, instance_id="two")
    waiting = shard.join(instance_id="two")
    assert codes(parked, waiting) == [ErrorCode.FENCED_INSTANCE_ID, None]
    assert shard.state is ClassicState.PREPARING_REBALANCE
    shard.join(leader, instance_id="one")
    assert waiting[0].generation_id == 2


def test_a_replacement_while_everybody_joins_takes_the_place_of_the_old_one() -> None:
    shard = Shard()
    first = shard.join(instance_id="one")
    second = shard.join(instance_id="one")
    assert (codes(first), first[0].member_id) == ([ErrorCode.FENCED_INSTANCE_ID], "one-id1")
    shard.advance(2 * DELAY_MS)
    assert (second[0].member_id, len(second[0].members)) == ("one-id2", 1)


def test_a_static_member_that_keeps_its_id_joins_as_any_other() -> None:
    shard = Shard()
    _, follower = static_pair(shard)
    assert codes(shard.join(follower, instance_id="two")) == [ErrorCode.NONE]


def test_static_members_that_do_not_join_in_time_stay_in_the_group() -> None:
    shard = Shard()
    leader, follower = static_pair(shard)
    waiting = shard.join(leader, instance_id="one")
    for _ in range(REBALANCE_MS // 5_000):
        assert codes(waiting) == [None]
        shard.heartbeat(follower, instance_id="two")
        shard.advance(5_000)
    assert [one.member_id for one in waiting[0].members] == [leader, follower]


def test_a_rebalance_that_no_member_joins_waits_for_their_sessions() -> None:
    """Silent static members are neither dropped at the timeout nor counted as joined."""
    shard = Shard()
    dynamic, _ = shard.enter()
    shard.join(instance_id="two")
    shard.advance(2 * DELAY_MS)
    _, static = shard.group.members
    shard.settle([dynamic, static])
    shard.leave(dynamic)
    for _ in range(2 * REBALANCE_MS // 5_000):
        assert shard.heartbeat(static, instance_id="two") == ErrorCode.REBALANCE_IN_PROGRESS
        shard.advance(5_000)
    assert (shard.state, shard.group.generation) == (ClassicState.PREPARING_REBALANCE, 1)
    assert shard.join(static, instance_id="two")[0].generation_id == 2


def test_a_static_member_that_is_gone_stays_until_its_session_ends() -> None:
    """Clients with an instance id do not send LeaveGroup: a restart within the session disturbs nobody."""
    shard = Shard()
    leader, _ = static_pair(shard)
    shard.advance(SESSION_MS - 1)
    shard.heartbeat(leader, instance_id="one")
    assert shard.state is ClassicState.STABLE
    shard.advance(1)
    assert list(shard.group.members) == [leader]
    assert shard.state is ClassicState.PREPARING_REBALANCE


def test_the_session_of_the_old_id_ends_with_it() -> None:
    shard = Shard()
    leader, _ = static_pair(shard)
    shard.advance(SESSION_MS // 2)
    shard.heartbeat(leader, instance_id="one")
    (answer,) = shard.join(instance_id="two")
    shard.advance(SESSION_MS // 2 + 1)
    assert shard.heartbeat(answer.member_id, instance_id="two") == ErrorCode.NONE


def test_a_replacement_is_described_where_it_runs() -> None:
    shard = Shard()
    static_pair(shard)
    shard.join(instance_id="two", client=Client("other", "/10.0.0.2"))
    described = {one.group_instance_id: one for one in shard.core.describe("g", 6).members}
    assert (described["two"].client_id, described["two"].client_host) == ("other", "/10.0.0.2")
