"""How members join, stay, move and leave: one test for each rule of KIP-848 that a client can see."""

from __future__ import annotations

import pytest

from bifrost.coordinator.core.consumer.group import ConsumerGroupState
from bifrost.coordinator.core.consumer.member import MemberState
from bifrost.errors import ErrorCode

from .stand_ins import Shard, Topics, error_of


def test_the_first_member_gets_everything_at_once() -> None:
    shard = Shard()
    answer = shard.join("a")
    assert (answer.error_code, answer.member_id, answer.heartbeat_interval_ms) == (0, "a", 5_000)
    assert shard.told(answer) == {"orders": {0, 1, 2, 3}}
    assert answer.member_epoch == shard.group.group_epoch == shard.group.assignment_epoch == 2
    assert shard.group.state is ConsumerGroupState.STABLE


def test_a_member_without_an_id_gets_one() -> None:
    """Only v0 may leave the choice of the id to the coordinator (KIP-1082)."""
    answer = Shard().join("", version=0)
    assert answer.member_id == "made-1"


def test_a_keep_alive_writes_nothing_and_tells_nothing() -> None:
    shard = Shard()
    epoch = shard.join("a").member_epoch
    batches = len(shard.journal.batches)
    answer = shard.beat("a", epoch)
    assert (answer.member_epoch, answer.assignment) == (epoch, None)
    assert len(shard.journal.batches) == batches


def test_one_decision_is_one_batch() -> None:
    shard = Shard()
    shard.join("a")
    shard.join("b")
    assert len(shard.journal.batches) == 2


def test_a_partition_is_given_up_before_another_gets_it() -> None:
    shard = Shard()
    everything = {"orders": {0, 1, 2, 3}}
    first = shard.join("a").member_epoch
    second = shard.join("b")
    assert shard.told(second) == {}
    assert shard.group.members["b"].state is MemberState.UNRELEASED_PARTITIONS

    kept = shard.beat("a", first, everything)
    assert kept.member_epoch == first, "it stays in its epoch until it has given up"
    assert shard.told(kept) == {"orders": {0, 1}}
    assert shard.group.members["a"].state is MemberState.UNREVOKED_PARTITIONS

    assert shard.told(shard.beat("b", second.member_epoch, {})) is None
    assert shard.beat("a", first, everything).member_epoch == first
    assert shard.beat("a", first, {"orders": {0, 1}}).member_epoch == second.member_epoch

    assert shard.told(shard.beat("b", second.member_epoch, {})) == {"orders": {2, 3}}
    assert shard.group.state is ConsumerGroupState.STABLE


def test_a_keep_alive_that_does_not_say_what_it_owns_gives_up_nothing() -> None:
    shard = Shard()
    first = shard.join("a").member_epoch
    second = shard.join("b").member_epoch
    shard.beat("a", first, {"orders": {0, 1, 2, 3}})
    assert shard.beat("a", first).member_epoch == first
    assert shard.group.members["a"].state is MemberState.UNREVOKED_PARTITIONS
    assert shard.told(shard.beat("b", second, {})) is None


def test_partitions_come_one_after_the_other_as_they_become_free() -> None:
    shard = Shard()
    shard.join("a")
    shard.join("b")
    shard.settle("a", "b")
    third = shard.join("c").member_epoch
    shard.beat("a", shard.group.members["a"].epoch, shard.holds("a"))
    shard.beat("b", shard.group.members["b"].epoch, shard.holds("b"))
    owners = [member_id for member_id in ("a", "b") if shard.group.members[member_id].revoking]
    assert len(owners) == 1, "a third of four partitions is one"
    (giver,) = owners
    shard.beat(giver, shard.group.members[giver].epoch, shard.holds(giver))
    assert sum(map(len, (shard.told(shard.beat("c", third, {})) or {}).values())) == 1


def test_more_members_than_partitions_leaves_the_rest_idle_and_ready() -> None:
    shard = Shard(Topics(orders=2))
    for member_id in ("a", "b", "c"):
        shard.join(member_id)
    owned = shard.settle("a", "b", "c")
    assert sorted(sum(map(len, mine.values())) for mine in owned.values()) == [0, 1, 1]
    idle = next(member_id for member_id, mine in owned.items() if not mine)
    busy = next(member_id for member_id, mine in owned.items() if mine)
    shard.leave(busy)
    rest = {"a", "b", "c"} - {busy}
    assert shard.settle(*sorted(rest))[idle] == owned[busy]


def test_who_leaves_frees_its_partitions_at_once() -> None:
    shard = Shard()
    shard.join("a")
    shard.join("b")
    owned = shard.settle("a", "b")
    epoch = shard.group.group_epoch
    answer = shard.leave("a")
    assert (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == ("a", -1, 0)
    assert shard.group.group_epoch == epoch + 1
    assert shard.group.state is ConsumerGroupState.ASSIGNING
    told = shard.told(shard.beat("b", shard.group.members["b"].epoch, owned["b"]))
    assert told == {"orders": {0, 1, 2, 3}}


def test_the_last_one_leaves_an_empty_group() -> None:
    shard = Shard()
    shard.join("a")
    shard.leave("a")
    assert shard.group.is_empty
    assert shard.group.state is ConsumerGroupState.EMPTY
    assert not shard.group.targets
    assert len(shard.deadlines) == 0


def test_a_member_joins_again_with_the_id_it_had() -> None:
    """Such as after it was told that its epoch is stale: it keeps what is still meant for it."""
    shard = Shard()
    first = shard.join("a")
    again = shard.join("a")
    assert again.member_epoch == first.member_epoch
    assert shard.told(again) == {"orders": {0, 1, 2, 3}}
    assert len(shard.group.members) == 1


def test_a_full_request_is_told_its_assignment() -> None:
    """A client that lost an answer sends all it knows, and must learn what it may have."""
    shard = Shard()
    epoch = shard.join("a").member_epoch
    everything = {"orders": {0, 1, 2, 3}}
    full = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["orders"]}
    assert shard.told(shard.beat("a", epoch, everything, **full)) == everything
    assert shard.told(shard.beat("a", epoch, everything, subscribed_topic_names=["orders"])) is None


class TestEpochs:
    """What a heartbeat with another epoch than the member's is answered."""

    def test_a_later_epoch_is_fenced(self) -> None:
        shard = Shard()
        epoch = shard.join("a").member_epoch
        assert error_of(lambda: shard.beat("a", epoch + 1)) is ErrorCode.FENCED_MEMBER_EPOCH

    def test_an_earlier_epoch_is_fenced(self) -> None:
        shard = Shard()
        shard.join("a")
        assert error_of(lambda: shard.beat("a", 1, {"orders": set()})) is ErrorCode.FENCED_MEMBER_EPOCH

    def test_the_previous_epoch_will_do_when_the_answer_was_lost(self) -> None:
        shard = Shard()
        first = shard.join("a").member_epoch
        shard.join("b")
        shard.leave("b")
        second = shard.beat("a", first, {"orders": {0, 1, 2, 3}}).member_epoch
        assert second > first
        assert shard.beat("a", first, {"orders": {0, 1}}).member_epoch == second

    def test_but_not_for_one_who_owns_more_than_it_was_given(self) -> None:
        shard = Shard(Topics(orders=4, bills=1))
        first = shard.join("a").member_epoch
        shard.join("b")
        shard.leave("b")
        shard.beat("a", first, {"orders": {0, 1, 2, 3}})
        assert error_of(lambda: shard.beat("a", first, {"orders": {0}, "bills": {0}})) is ErrorCode.FENCED_MEMBER_EPOCH
        assert error_of(lambda: shard.beat("a", first, {"orders": {9}})) is ErrorCode.FENCED_MEMBER_EPOCH
        assert error_of(lambda: shard.beat("a", first)) is ErrorCode.FENCED_MEMBER_EPOCH

    def test_an_unknown_member_is_told_so(self) -> None:
        shard = Shard()
        epoch = shard.join("a").member_epoch
        assert error_of(lambda: shard.beat("b", epoch)) is ErrorCode.UNKNOWN_MEMBER_ID
        assert error_of(lambda: shard.leave("b")) is ErrorCode.UNKNOWN_MEMBER_ID

    def test_an_unknown_group_is_told_so(self) -> None:
        shard = Shard()
        assert error_of(lambda: shard.beat("a", 1)) is ErrorCode.GROUP_ID_NOT_FOUND
        assert error_of(lambda: shard.leave("a")) is ErrorCode.GROUP_ID_NOT_FOUND


class TestTimeouts:
    """Members that are silent, and members that do not give up."""

    def test_a_silent_member_is_removed(self) -> None:
        shard = Shard()
        shard.join("a")
        shard.pass_ms(44_999)
        assert not shard.group.is_empty
        shard.pass_ms(1)
        assert shard.group.is_empty

    def test_a_heartbeat_renews_the_session(self) -> None:
        shard = Shard()
        epoch = shard.join("a").member_epoch
        for _ in range(10):
            shard.pass_ms(40_000)
            shard.beat("a", epoch)
        assert "a" in shard.group.members

    def test_a_refused_heartbeat_does_not_renew_the_session(self) -> None:
        shard = Shard()
        epoch = shard.join("a").member_epoch
        shard.pass_ms(40_000)
        assert error_of(lambda: shard.beat("a", epoch + 7)) is ErrorCode.FENCED_MEMBER_EPOCH
        shard.pass_ms(5_000)
        assert shard.group.is_empty

    def test_a_member_that_does_not_give_up_in_time_is_fenced(self) -> None:
        shard = Shard()
        first = shard.join("a", rebalance_timeout_ms=10_000).member_epoch
        second = shard.join("b").member_epoch
        everything = {"orders": {0, 1, 2, 3}}
        shard.beat("a", first, everything)
        for _ in range(2):
            shard.pass_ms(4_999)
            shard.beat("a", first, everything)
            shard.beat("b", second, {})
        shard.pass_ms(2)
        assert list(shard.group.members) == ["b"]
        assert error_of(lambda: shard.beat("a", first, everything)) is ErrorCode.UNKNOWN_MEMBER_ID
        assert shard.told(shard.beat("b", second, {})) == everything

    def test_a_member_that_has_given_up_is_not_fenced(self) -> None:
        shard = Shard()
        first = shard.join("a", rebalance_timeout_ms=10_000).member_epoch
        shard.join("b")
        shard.beat("a", first, {"orders": {0, 1, 2, 3}})
        shard.beat("a", first, {"orders": {0, 1}})
        shard.pass_ms(11_000)
        assert "a" in shard.group.members

    def test_a_restarted_coordinator_waits_a_whole_session_again(self) -> None:
        shard = Shard()
        shard.join("a")
        shard.pass_ms(40_000)
        shard.restart()
        shard.pass_ms(44_999)
        assert "a" in shard.group.members
        shard.pass_ms(1)
        assert shard.group.is_empty

    def test_a_restarted_coordinator_still_waits_for_partitions_to_be_given_up(self) -> None:
        shard = Shard()
        first = shard.join("a", rebalance_timeout_ms=10_000).member_epoch
        shard.join("b")
        shard.beat("a", first, {"orders": {0, 1, 2, 3}})
        shard.restart()
        shard.pass_ms(10_000)
        assert list(shard.group.members) == ["b"]

    def test_a_removal_that_cannot_be_written_is_tried_again(self) -> None:
        shard = Shard()
        shard.join("a")
        shard.journal.failing = True
        shard.pass_ms(60_000)
        assert "a" in shard.group.members
        shard.journal.failing = False
        shard.pass_ms(500)
        assert shard.group.is_empty

    def test_an_unloaded_coordinator_removes_nobody(self) -> None:
        shard = Shard()
        shard.join("a")
        shard.core.unload()
        shard.pass_ms(100_000)
        assert "a" in shard.group.members


def test_a_refused_write_changes_nothing() -> None:
    shard = Shard()
    epoch = shard.join("a").member_epoch
    shard.journal.failing = True
    for action in (
        lambda: shard.join("b"),
        lambda: shard.leave("a"),
        lambda: shard.beat("a", epoch, subscribed_topic_names=["bills"]),
    ):
        assert error_of(action) is ErrorCode.NOT_ENOUGH_REPLICAS
    shard.journal.failing = False
    assert list(shard.group.members) == ["a"]
    assert shard.beat("a", epoch).member_epoch == epoch


def test_a_full_group_takes_nobody_new() -> None:
    shard = Shard(consumer_max_size=2)
    epoch = shard.join("a").member_epoch
    shard.join("b")
    assert error_of(lambda: shard.join("c")) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert shard.join("b").error_code == 0
    assert shard.beat("a", epoch).error_code == 0


@pytest.mark.parametrize("interval_ms", [0, 1_000])
def test_assignments_keep_their_distance(interval_ms: int) -> None:
    """KIP-1263: who joins too soon after an assignment waits for the next one, in the epoch of the last."""
    shard = Shard(consumer_assignment_interval_ms=interval_ms)
    first = shard.join("a")
    second = shard.join("b")
    assert shard.told(second) == {}
    waits = interval_ms > 0
    assert (second.member_epoch == first.member_epoch) == waits
    assert (shard.group.state is ConsumerGroupState.ASSIGNING) == waits
    shard.pass_ms(interval_ms)
    assert shard.beat("b", second.member_epoch, {}).member_epoch == shard.group.group_epoch
    assert shard.settle("a", "b") == {"a": {"orders": {0, 1}}, "b": {"orders": {2, 3}}}


def test_a_group_with_configs_of_its_own_goes_by_them() -> None:
    shard = Shard()
    shard.configs["group"] = {"consumer.session.timeout.ms": "50000", "consumer.heartbeat.interval.ms": "7000"}
    epoch = shard.join("a").member_epoch
    shard.pass_ms(49_999)
    assert shard.beat("a", epoch).heartbeat_interval_ms == 7_000
    shard.configs.clear()
    assert shard.beat("a", epoch).heartbeat_interval_ms == 5_000
    shard.pass_ms(45_000)
    assert "a" not in getattr(shard.groups.get("group"), "members", {}), "the next session is of the usual length"
