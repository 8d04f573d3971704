"""A classic group found in the log: members keep what they were given, and have one session to show that they live."""

from __future__ import annotations

from bifrost.coordinator.core.classic.group import ClassicState
from bifrost.coordinator.core.classic.persistence import group_record
from bifrost.coordinator.core.records import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from bifrost.errors import ErrorCode
from tests.unit.coordinator.classic.stand_ins import EPOCH_MS, GROUP, SESSION_MS, Shard, codes


def test_members_go_on_as_if_nothing_had_happened() -> None:
    shard = Shard()
    leader, follower = shard.stable(2)
    shard = shard.restart()
    assert (shard.state, shard.group.generation, shard.group.leader) == (ClassicState.STABLE, 1, leader)
    assert [shard.heartbeat(member) for member in (leader, follower)] == [ErrorCode.NONE] * 2
    assert shard.sync(follower)[0].assignment == follower.encode()
    assert shard.commit(follower, 1) == ErrorCode.NONE


def test_sessions_start_anew() -> None:
    shard = Shard()
    shard.stable(2)
    shard.advance(SESSION_MS - 1)
    shard = shard.restart()
    shard.advance(SESSION_MS - 1)
    assert shard.state is ClassicState.STABLE
    shard.advance(1)
    assert shard.state is ClassicState.EMPTY


def test_a_follower_that_joins_again_is_answered_if_it_says_the_same() -> None:
    """Only the chosen protocol is in the log: who knows others too starts a rebalance, as in Kafka."""
    shard = Shard()
    _, follower = shard.stable(2)
    assert codes(shard.restart().join(follower)) == [ErrorCode.NONE]
    shard = Shard()
    both = [("range", b"m"), ("sticky", b"m")]
    _, follower = shard.stable(2, both)
    assert codes(shard.restart().join(follower, protocols=both)) == [None]


def test_a_rebalance_that_was_not_finished_never_happened() -> None:
    shard = Shard()
    leader, follower = shard.stable(2)
    shard.join(leader)
    shard.join(follower)
    assert shard.group.generation == 2
    shard = shard.restart()
    assert (shard.state, shard.group.generation) == (ClassicState.STABLE, 1)
    assert shard.heartbeat(leader, 2) == ErrorCode.ILLEGAL_GENERATION
    assert shard.heartbeat(leader, 1) == ErrorCode.NONE


def test_pending_members_are_forgotten() -> None:
    shard = Shard()
    pending = shard.join()[0].member_id
    shard = shard.restart()
    assert shard.state is ClassicState.EMPTY
    assert codes(shard.join(pending)) == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_an_empty_group_remembers_since_when() -> None:
    shard = Shard()
    members = shard.stable()
    shard.advance(1_234)
    shard.leave(*members)
    emptied_ms = EPOCH_MS + shard.now_ms
    shard.advance(99_999)
    assert shard.group.empty_since_ms == emptied_ms
    assert shard.restart().group.empty_since_ms == emptied_ms


def test_a_stable_group_is_not_empty_since_any_time() -> None:
    shard = Shard()
    shard.stable()
    assert shard.group.empty_since_ms is None


def test_static_members_keep_their_names() -> None:
    shard = Shard()
    shard.join(instance_id="one")
    shard.advance(3_000)
    (member,) = shard.group.members
    shard.settle([member])
    shard = shard.restart()
    assert shard.heartbeat(member, instance_id="one") == ErrorCode.NONE
    (answer,) = shard.join(instance_id="one")
    assert shard.heartbeat(member, instance_id="one") == ErrorCode.FENCED_INSTANCE_ID
    assert shard.sync(answer.member_id)[0].assignment == member.encode()


def old_value(**changes: object) -> GroupMetadataValue:
    """What a broker of long ago may have written."""
    member = MemberMetadata(
        member_id="m", client_id="c", client_host="/h", session_timeout=7_000, subscription=b"s", assignment=b"a"
    )
    value = GroupMetadataValue(protocol_type="consumer", generation=5, protocol="range", leader="m", members=[member])
    for name, change in changes.items():
        setattr(value, name, change)
    return value


def test_records_without_a_rebalance_timeout_use_the_session_timeout() -> None:
    shard = Shard()
    shard.core.replay(GroupMetadataKey(group=GROUP), old_value())
    assert shard.group.members["m"].rebalance_timeout_ms == 7_000


def test_records_without_a_timestamp_do_not_say_since_when() -> None:
    shard = Shard()
    shard.core.replay(GroupMetadataKey(group=GROUP), old_value(members=[], protocol=None, leader=None))
    assert (shard.state, shard.group.empty_since_ms) == (ClassicState.EMPTY, None)


def test_records_without_a_leader_are_led_by_the_first_member() -> None:
    shard = Shard()
    shard.core.replay(GroupMetadataKey(group=GROUP), old_value(leader=None))
    assert shard.group.leader == "m"


def test_the_last_record_counts() -> None:
    shard = Shard()
    shard.stable(3)
    generations = [value.generation for _, value in shard.log() if value is not None]
    assert generations == [0, 1]
    assert shard.restart().group.generation == 1


def test_what_is_read_back_is_what_would_be_written_again() -> None:
    shard = Shard()
    shard.stable(3)
    assert group_record(shard.restart().group) == shard.journal.records[-1]
