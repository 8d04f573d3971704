"""A classic group as administrators see it, and how they delete it."""

from __future__ import annotations

import pytest

from bifrost.coordinator.core.records import GroupMetadataKey
from bifrost.errors import ApiError, ErrorCode
from tests.unit.coordinator.classic.stand_ins import DELAY_MS, GROUP, SESSION_MS, Shard, codes


def test_a_stable_group_tells_everything() -> None:
    shard = Shard()
    (member,) = shard.stable(1, [("range", b"wants")])
    described = shard.core.describe(GROUP, 6)
    assert (described.error_code, described.error_message) == (ErrorCode.NONE, None)
    assert (described.group_state, described.protocol_type, described.protocol_data) == ("Stable", "consumer", "range")
    (one,) = described.members
    assert (one.member_id, one.group_instance_id, one.client_id, one.client_host) == (member, None, "app", "/10.0.0.1")
    assert (one.member_metadata, one.member_assignment) == (b"wants", member.encode())


def test_in_a_rebalance_nothing_is_told_of_protocols() -> None:
    shard = Shard()
    leader, follower = shard.stable(2)
    shard.join(leader)
    described = shard.core.describe(GROUP, 6)
    assert (described.group_state, described.protocol_data) == ("PreparingRebalance", "")
    assert [one.member_metadata for one in described.members] == [b"", b""]
    shard.join(follower)
    assert shard.core.describe(GROUP, 6).group_state == "CompletingRebalance"


def test_an_empty_group_keeps_its_type() -> None:
    shard = Shard()
    shard.leave(*shard.stable())
    described = shard.core.describe(GROUP, 6)
    assert (described.group_state, described.protocol_type, described.members) == ("Empty", "consumer", [])


def test_a_pending_member_is_not_described() -> None:
    shard = Shard()
    shard.join()
    assert shard.core.describe(GROUP, 6).members == []


def test_a_missing_group_is_dead_and_since_v6_an_error() -> None:
    """KIP-1043."""
    shard = Shard()
    old, new = shard.core.describe("x", 5), shard.core.describe("x", 6)
    assert (old.group_id, old.group_state, old.error_code, old.error_message) == ("x", "Dead", ErrorCode.NONE, None)
    assert (new.group_state, new.error_code) == ("Dead", ErrorCode.GROUP_ID_NOT_FOUND)
    assert new.error_message == "Group x not found."


def test_a_group_of_another_kind_is_missing_here() -> None:
    shard = Shard()
    shard.groups["x"] = object()
    assert shard.core.describe("x", 6).error_message == "Group x is not a classic group."


def test_a_group_with_members_is_not_deleted() -> None:
    shard = Shard()
    leader, _ = shard.stable(2)
    with pytest.raises(ApiError) as refused:
        shard.core.delete(shard.group)
    assert refused.value.code is ErrorCode.NON_EMPTY_GROUP
    shard.join(leader)
    with pytest.raises(ApiError) as refused:
        shard.core.delete(shard.group)
    assert refused.value.code is ErrorCode.NON_EMPTY_GROUP


def test_an_empty_group_is_deleted_by_a_tombstone_and_takes_its_clocks_along() -> None:
    shard = Shard()
    shard.leave(*shard.stable())
    pending = shard.join()[0].member_id
    shard.journal.append(shard.core.delete(shard.group))
    assert GROUP in shard.groups
    assert GROUP not in shard.restart().groups
    shard.core.replay(GroupMetadataKey(group=GROUP), None)
    assert (shard.groups, len(shard.deadlines)) == ({}, 0)
    assert codes(shard.join(pending)) == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_a_group_that_is_made_again_knows_nothing_of_the_one_before() -> None:
    shard = Shard()
    shard.leave(*shard.stable())
    shard.core.replay(GroupMetadataKey(group=GROUP), None)
    _, waiting = shard.enter()
    shard.advance(DELAY_MS)
    assert waiting[0].generation_id == 1
    shard.advance(SESSION_MS)
