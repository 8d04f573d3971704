"""How long offsets are kept (KIP-211)."""

from __future__ import annotations

import pytest

from bifrost.coordinator.core.records import GroupMetadataKey
from bifrost.errors import ErrorCode
from tests.unit.coordinator.whole_shard import GROUP, WholeShard

DAY_MS = 86_400_000
CHECK_MS = 600_000


def shard(**settings: int) -> WholeShard:
    return WholeShard(**({"retention_ms": DAY_MS, "retention_check_interval_ms": CHECK_MS} | settings))


def test_without_members_the_clock_runs_from_the_commit() -> None:
    groups = shard()
    groups.commit({("orders", 0): 1})
    groups.advance(DAY_MS // 2)
    groups.commit({("orders", 1): 2})
    groups.advance(DAY_MS // 2)
    assert groups.fetch_all() == {("orders", 1): 2}
    groups.advance(DAY_MS // 2)
    assert groups.fetch_all() == {}
    assert groups.core.list_groups((), ()) == []
    assert groups.restart().core.list_groups((), ()) == []


def test_after_the_last_member_left_the_clock_runs_for_all_of_the_group() -> None:
    groups = shard()
    member = groups.join_classic("orders", session_ms=1_800_000)
    groups.commit({("orders", 0): 1}, member_id=member, generation=1)
    for _ in range(6 * 24 * 3):
        groups.advance(CHECK_MS)
        groups.commit({("orders", 1): 2}, member_id=member, generation=1)
    assert groups.fetch(("orders", 0)) == [1], "somebody reads it, however old it is"
    groups.leave_classic(member)
    groups.advance(DAY_MS - CHECK_MS)
    assert groups.fetch(("orders", 0), ("orders", 1)) == [1, 2]
    groups.advance(2 * CHECK_MS)
    assert groups.fetch_all() == {}
    assert GROUP not in groups.core.groups
    assert groups.written()[-1] == (GroupMetadataKey(group=GROUP), None)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_topics_that_nobody_in_the_group_reads_any_more_expire_while_it_lives(protocol: str) -> None:
    groups = shard()
    groups.commit({("orders", 0): 1, ("payments", 0): 2})
    member, epoch = "m", 0
    if protocol == "classic":
        member = groups.join_classic("orders", session_ms=1_800_000)
    else:
        epoch = groups.heartbeat("m", 0, ["orders"]).member_epoch
    while groups.now_ms < DAY_MS + 2 * CHECK_MS:
        groups.advance(30_000)
        if protocol == "consumer":
            groups.heartbeat("m", epoch)
        else:
            groups.commit({("orders", 1): 3}, member_id=member, generation=1)
    assert groups.fetch(("orders", 0), ("payments", 0)) == [1, -1]
    assert GROUP in groups.core.groups


def test_an_empty_group_without_offsets_goes_at_the_next_check() -> None:
    groups = shard()
    groups.leave_classic(groups.join_classic("orders"))
    assert GROUP in groups.core.groups
    groups.advance(CHECK_MS)
    assert GROUP not in groups.core.groups


def test_of_a_group_of_other_software_nothing_expires_while_it_lives() -> None:
    groups = shard(retention_ms=1)
    member = groups.join_classic(protocol_type="connect", session_ms=1_800_000)
    groups.commit({("orders", 0): 1}, member_id=member, generation=1)
    groups.advance(2 * CHECK_MS)
    assert groups.fetch(("orders", 0)) == [1]


def test_a_time_that_the_client_named_overrules_the_setting() -> None:
    groups = shard()
    groups.commit({("orders", 0): 1}, version=4, retention_ms=CHECK_MS)
    groups.commit({("orders", 1): 1}, version=4, retention_ms=3 * DAY_MS)
    groups.advance(CHECK_MS)
    assert groups.fetch_all() == {("orders", 1): 1}
    groups.advance(2 * DAY_MS)
    assert groups.fetch_all() == {("orders", 1): 1}


def test_what_could_not_be_written_is_tried_again() -> None:
    groups = shard(retention_ms=1)
    groups.commit({("orders", 0): 1})
    groups.journal.refuse_with = ErrorCode.COORDINATOR_NOT_AVAILABLE
    groups.advance(CHECK_MS)
    assert groups.fetch(("orders", 0)) == [1]
    groups.journal.refuse_with = None
    groups.advance(CHECK_MS)
    assert groups.fetch(("orders", 0)) == [-1]


def test_many_groups_are_looked_through_in_steps() -> None:
    groups = shard(retention_ms=1)
    for number in range(1_200):
        groups.commit({("orders", 0): 1}, group_id=f"g{number}")
    groups.advance(CHECK_MS)
    left = len(groups.core.committed)
    assert 0 < left < 1_200, "one step must not do everything"
    groups.advance(20)
    assert len(groups.core.committed) == 0
