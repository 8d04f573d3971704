"""Who may commit and see offsets: epochs tell the living from the ghosts."""

from __future__ import annotations

import pytest

from bifrost.errors import ErrorCode

from .stand_ins import Shard, error_of

EVERYTHING = {"orders": {0, 1, 2, 3}}


def commit(shard: Shard, member_id: str, epoch: int, *partitions: int, version: int = 9) -> None:
    topic_id = shard.topics.id("orders")
    shard.core.check_commit(shard.group, member_id, epoch, version, [(topic_id, partition) for partition in partitions])


def test_a_member_commits_in_its_epoch() -> None:
    shard = Shard()
    epoch = shard.join("a").member_epoch
    commit(shard, "a", epoch, 0, 1, 2, 3)


def test_an_epoch_to_come_is_stale_too() -> None:
    shard = Shard()
    epoch = shard.join("a").member_epoch
    assert error_of(lambda: commit(shard, "a", epoch + 1, 0)) is ErrorCode.STALE_MEMBER_EPOCH


def test_a_past_epoch_commits_what_it_still_has_and_nothing_else() -> None:
    """KIP-1251: the answer with the new epoch may still be on its way to a member that commits."""
    shard = Shard()
    first = shard.join("a").member_epoch
    second = shard.join("b").member_epoch
    shard.beat("a", first, EVERYTHING)
    commit(shard, "a", first, 0, 1, 2, 3)
    shard.beat("a", first, {"orders": {0, 1}})
    assert shard.group.members["a"].epoch == second
    commit(shard, "a", first, 0, 1)
    assert error_of(lambda: commit(shard, "a", first, 0, 2)) is ErrorCode.STALE_MEMBER_EPOCH


def test_a_partition_that_came_back_is_not_committed_for_the_time_before() -> None:
    shard = Shard()
    first = shard.join("a").member_epoch
    shard.join("b")
    shard.settle("a", "b")
    shard.leave("b")
    shard.settle("a")
    assert shard.holds("a") == EVERYTHING
    commit(shard, "a", first, 0, 1)
    assert error_of(lambda: commit(shard, "a", first, 3)) is ErrorCode.STALE_MEMBER_EPOCH
    shard.restart()
    commit(shard, "a", first, 0, 1)
    assert error_of(lambda: commit(shard, "a", first, 3)) is ErrorCode.STALE_MEMBER_EPOCH


def test_who_left_for_a_while_commits_nothing() -> None:
    shard = Shard()
    epoch = shard.join("a", instance_id="i").member_epoch
    shard.leave("a", -2, "i")
    assert error_of(lambda: commit(shard, "a", epoch, 0)) is ErrorCode.STALE_MEMBER_EPOCH


def test_strangers_do_not_commit_while_somebody_is_there() -> None:
    shard = Shard()
    shard.join("a")
    assert error_of(lambda: commit(shard, "b", 2, 0)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert error_of(lambda: commit(shard, "", -1, 0)) is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_empty_group_takes_commits_of_administrators() -> None:
    shard = Shard()
    shard.join("a")
    shard.leave("a")
    commit(shard, "", -1, 0)
    assert error_of(lambda: commit(shard, "a", 2, 0)) is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", [2, 8])
def test_versions_without_epochs_are_not_for_members(version: int) -> None:
    shard = Shard()
    epoch = shard.join("a").member_epoch
    assert error_of(lambda: commit(shard, "a", epoch, 0, version=version)) is ErrorCode.UNSUPPORTED_VERSION


def test_a_member_sees_offsets_in_its_epoch_only() -> None:
    shard = Shard()
    epoch = shard.join("a").member_epoch
    shard.core.check_fetch(shard.group, "a", epoch)
    shard.core.check_fetch(shard.group, None, -1)
    for wrong in (epoch - 1, epoch + 1):
        refused = error_of(lambda wrong=wrong: shard.core.check_fetch(shard.group, "a", wrong))
        assert refused is ErrorCode.STALE_MEMBER_EPOCH
    assert error_of(lambda: shard.core.check_fetch(shard.group, "b", epoch)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert error_of(lambda: shard.core.check_fetch(shard.group, None, epoch)) is ErrorCode.UNKNOWN_MEMBER_ID
