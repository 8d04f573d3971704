"""Members with an instance id: their place outlives their process (KIP-345, KIP-848)."""

from __future__ import annotations

from bifrost.coordinator.core.consumer.group import ConsumerGroupState
from bifrost.errors import ErrorCode

from .stand_ins import Shard, error_of

EVERYTHING = {"orders": {0, 1, 2, 3}}


def test_who_leaves_for_a_while_keeps_its_partitions() -> None:
    shard = Shard()
    shard.join("a", instance_id="i")
    shard.join("b")
    owned = shard.settle("a", "b")
    epoch = shard.group.group_epoch
    answer = shard.leave("a", -2, "i")
    assert (answer.member_id, answer.member_epoch) == ("a", -2)
    assert shard.group.group_epoch == epoch
    assert shard.settle("b")["b"] == owned["b"]


def test_the_next_incarnation_takes_over_at_once_and_nobody_else_notices() -> None:
    shard = Shard()
    shard.join("a", instance_id="i")
    shard.join("b")
    owned = shard.settle("a", "b")
    group_epoch, member_epoch = shard.group.group_epoch, shard.group.members["a"].epoch
    shard.leave("a", -2, "i")
    answer = shard.join("a2", instance_id="i")
    assert shard.told(answer) == owned["a"]
    assert (answer.member_epoch, shard.group.group_epoch) == (member_epoch, group_epoch)
    assert list(shard.group.members) == ["b", "a2"]
    assert shard.group.static_members == {"i": "a2"}
    assert shard.group.state is ConsumerGroupState.STABLE
    assert error_of(lambda: shard.beat("a", member_epoch, instance_id="i")) is ErrorCode.FENCED_INSTANCE_ID
    assert error_of(lambda: shard.beat("a", member_epoch)) is ErrorCode.UNKNOWN_MEMBER_ID


def test_it_may_come_back_with_the_id_it_had() -> None:
    shard = Shard()
    shard.join("a", instance_id="i")
    shard.leave("a", -2, "i")
    assert shard.told(shard.join("a", instance_id="i")) == EVERYTHING
    assert list(shard.group.members) == ["a"]


def test_a_new_subscription_of_the_next_incarnation_counts() -> None:
    shard = Shard()
    shard.topics.make("bills", 2)
    shard.join("a", instance_id="i")
    shard.leave("a", -2, "i")
    epoch = shard.group.group_epoch
    assert shard.told(shard.join("a2", ["bills"], instance_id="i")) == {"bills": {0, 1}}
    assert shard.group.group_epoch == epoch + 1


def test_an_instance_that_is_in_use_cannot_be_taken() -> None:
    shard = Shard()
    shard.join("a", instance_id="i")
    assert error_of(lambda: shard.join("b", instance_id="i")) is ErrorCode.UNRELEASED_INSTANCE_ID
    assert list(shard.group.members) == ["a"]


def test_an_instance_is_free_once_its_session_is_over() -> None:
    shard = Shard()
    shard.join("a", instance_id="i")
    shard.leave("a", -2, "i")
    shard.pass_ms(45_000)
    assert shard.group.is_empty
    assert shard.told(shard.join("b", instance_id="i")) == EVERYTHING


def test_an_instance_that_leaves_for_good_is_removed() -> None:
    shard = Shard()
    shard.join("a", instance_id="i")
    assert shard.leave("a", -1, "i").member_epoch == -1
    assert shard.group.is_empty
    assert not shard.group.static_members


def test_only_the_present_incarnation_may_leave() -> None:
    shard = Shard()
    shard.join("a", instance_id="i")
    assert error_of(lambda: shard.leave("b", -1, "i")) is ErrorCode.FENCED_INSTANCE_ID
    assert error_of(lambda: shard.leave("b", -2, "i")) is ErrorCode.FENCED_INSTANCE_ID
    assert error_of(lambda: shard.leave("a", -1, "j")) is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_instance_that_nobody_knows_is_an_unknown_member() -> None:
    shard = Shard()
    epoch = shard.join("a").member_epoch
    assert error_of(lambda: shard.beat("a", epoch, instance_id="i")) is ErrorCode.UNKNOWN_MEMBER_ID


def test_what_it_was_giving_up_is_free_when_it_leaves_for_a_while() -> None:
    shard = Shard()
    first = shard.join("a", instance_id="i").member_epoch
    second = shard.join("b").member_epoch
    shard.beat("a", first, EVERYTHING, instance_id="i")
    shard.leave("a", -2, "i")
    assert shard.told(shard.beat("b", second, {})) == {"orders": {2, 3}}
    assert shard.told(shard.join("a2", instance_id="i")) == {"orders": {0, 1}}


def test_a_restart_of_the_coordinator_remembers_who_left_for_a_while() -> None:
    shard = Shard()
    shard.join("a", instance_id="i")
    shard.join("b")
    owned = shard.settle("a", "b")
    shard.leave("a", -2, "i")
    shard.restart()
    assert shard.told(shard.join("a2", instance_id="i")) == owned["a"]
