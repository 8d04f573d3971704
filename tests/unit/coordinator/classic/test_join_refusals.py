"""JoinGroup refused: with which code, in which order, and that nothing is left behind."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from bifrost.coordinator.core.classic.group import ClassicState
from bifrost.coordinator.core.settings import GroupSettings
from bifrost.errors import ErrorCode
from tests.unit.coordinator.classic.stand_ins import DELAY_MS, GROUP, REBALANCE_MS, Shard, codes


def test_a_group_needs_a_name_and_that_is_looked_at_first() -> None:
    shard = Shard()
    (answer,) = shard.join("m", group_id="", session_ms=1)
    assert (answer.error_code, answer.member_id) == (ErrorCode.INVALID_GROUP_ID, "m")


@pytest.mark.parametrize("group_id", ["a b", "../x", "ü", "\x00", "x" * 30_000, "__consumer_offsets"])
def test_any_other_name_will_do(group_id: str) -> None:
    shard = Shard()
    assert codes(shard.join(group_id=group_id)) == [ErrorCode.MEMBER_ID_REQUIRED]
    assert group_id in shard.restart().groups


@pytest.mark.parametrize("session_ms", [-1, 0, 5_999, 1_800_001])
def test_session_timeouts_out_of_bounds_are_refused(session_ms: int) -> None:
    shard = Shard()
    (answer,) = shard.join("m", session_ms=session_ms)
    assert (answer.error_code, answer.member_id) == (ErrorCode.INVALID_SESSION_TIMEOUT, "m")
    assert shard.groups == {}


@pytest.mark.parametrize("session_ms", [6_000, 1_800_000])
def test_the_bounds_of_the_session_timeout_are_within_them(session_ms: int) -> None:
    assert codes(Shard().join(session_ms=session_ms)) == [ErrorCode.MEMBER_ID_REQUIRED]


def test_bounds_come_from_the_settings() -> None:
    shard = Shard(GroupSettings(min_session_timeout_ms=100, max_session_timeout_ms=200))
    assert codes(*(shard.join(session_ms=ms) for ms in (99, 100, 200, 201))) == [
        ErrorCode.INVALID_SESSION_TIMEOUT,
        ErrorCode.MEMBER_ID_REQUIRED,
        ErrorCode.MEMBER_ID_REQUIRED,
        ErrorCode.INVALID_SESSION_TIMEOUT,
    ]


def test_a_member_without_protocols_or_without_their_type_is_refused_and_makes_no_group() -> None:
    shard = Shard()
    assert codes(shard.join(protocols=[]), shard.join(protocol_type="")) == [ErrorCode.INCONSISTENT_GROUP_PROTOCOL] * 2
    assert shard.groups == {}
    assert shard.log() == []


def test_a_member_needs_a_protocol_that_all_others_know() -> None:
    shard = Shard()
    shard.enter([("range", b""), ("sticky", b"")])
    shard.enter([("sticky", b""), ("range", b"")])
    shard.enter([("range", b"")])
    assert (
        codes(
            shard.join(protocols=[("sticky", b""), ("other", b"")]),
            shard.join(protocols=[]),
            shard.join(protocol_type="connect"),
        )
        == [ErrorCode.INCONSISTENT_GROUP_PROTOCOL] * 3
    )
    assert codes(shard.join(protocols=[("sticky", b""), ("range", b"")])) == [ErrorCode.MEMBER_ID_REQUIRED]


def test_protocols_are_looked_at_before_the_member_is() -> None:
    shard = Shard()
    shard.stable()
    (answer,) = shard.join("nobody", protocols=[("other", b"")])
    assert (answer.error_code, answer.member_id) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "nobody")


def test_a_lone_member_cannot_change_to_protocols_that_it_did_not_know() -> None:
    """As in Kafka: it has to leave first."""
    shard = Shard()
    (member,) = shard.stable()
    assert codes(shard.join(member, protocols=[("other", b"")])) == [ErrorCode.INCONSISTENT_GROUP_PROTOCOL]
    assert shard.state is ClassicState.STABLE


def test_an_empty_group_takes_members_of_another_type() -> None:
    shard = Shard()
    (member,) = shard.stable()
    shard.leave(member)
    waiting = shard.join(version=3, protocol_type="connect", protocols=[("compatible", b"")])
    shard.advance(DELAY_MS)
    assert (codes(waiting), waiting[0].protocol_type) == ([ErrorCode.NONE], "connect")


def test_a_group_of_another_kind_is_refused() -> None:
    shard = Shard()
    shard.groups[GROUP] = SimpleNamespace(is_empty=False)
    assert codes(shard.join()) == [ErrorCode.INCONSISTENT_GROUP_PROTOCOL]
    shard.groups[GROUP] = SimpleNamespace(is_empty=True)
    assert codes(shard.join(member_id="of before")) == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_protocols_of_members_that_left_do_not_count() -> None:
    shard = Shard()
    narrow, _ = shard.enter([("range", b"")])
    shard.enter([("sticky", b""), ("range", b"")])
    assert codes(shard.join(protocols=[("sticky", b"")])) == [ErrorCode.INCONSISTENT_GROUP_PROTOCOL]
    shard.leave(narrow)
    assert codes(shard.join(protocols=[("sticky", b"")])) == [ErrorCode.MEMBER_ID_REQUIRED]


def test_a_protocol_named_twice_counts_once() -> None:
    shard = Shard()
    shard.enter([("range", b"x"), ("range", b"y")])
    assert codes(shard.join(protocols=[("range", b"")])) == [ErrorCode.MEMBER_ID_REQUIRED]


class TestMaxSize:
    """`group.max.size`, KIP-389."""

    def test_a_full_group_takes_no_new_member(self) -> None:
        shard = Shard(GroupSettings(max_size=2))
        shard.stable(2)
        (answer,) = shard.join()
        assert (answer.error_code, answer.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
        assert codes(shard.join(instance_id="i")) == [ErrorCode.GROUP_MAX_SIZE_REACHED]
        assert shard.state is ClassicState.STABLE

    def test_a_full_group_turns_away_before_it_looks_at_protocols_and_ids(self) -> None:
        shard = Shard(GroupSettings(max_size=1))
        shard.stable()
        assert codes(shard.join("nobody", protocols=[])) == [ErrorCode.GROUP_MAX_SIZE_REACHED]

    def test_members_of_a_full_group_may_join_again(self) -> None:
        shard = Shard(GroupSettings(max_size=2))
        leader, follower = shard.stable(2)
        assert codes(shard.join(follower), shard.join(leader)) == [ErrorCode.NONE, None]

    def test_while_a_rebalance_runs_those_who_have_joined_count(self) -> None:
        shard = Shard(GroupSettings(max_size=2))
        leader, follower = shard.stable(2)
        again = shard.join(leader)
        newcomer = shard.join(version=3)
        assert codes(again, newcomer) == [None, None]
        assert codes(shard.join(leader), shard.join(follower)) == [None, ErrorCode.GROUP_MAX_SIZE_REACHED]
        assert follower not in shard.group.members
        shard.advance(REBALANCE_MS)
        assert shard.state is ClassicState.COMPLETING_REBALANCE
        assert len(shard.group.members) == 2

    def test_pending_members_do_not_count_but_may_come_too_late(self) -> None:
        shard = Shard(GroupSettings(max_size=1))
        ids = [shard.join()[0].member_id for _ in range(3)]
        waiting = [shard.join(member_id) for member_id in ids]
        assert codes(*waiting) == [None, ErrorCode.GROUP_MAX_SIZE_REACHED, ErrorCode.GROUP_MAX_SIZE_REACHED]
        assert shard.group.pending_joins == set()

    def test_a_group_found_too_large_in_the_log_loses_the_last_to_join(self) -> None:
        shard = Shard()
        first, second, third = shard.stable(3)
        shard = shard.restart(GroupSettings(max_size=2))
        assert shard.state is ClassicState.PREPARING_REBALANCE
        again = [shard.join(member_id) for member_id in (third, second, first)]
        assert codes(*again) == [None, None, ErrorCode.GROUP_MAX_SIZE_REACHED]
