"""What members read: names, regular expressions, and topics that come, grow and go."""

from __future__ import annotations

import pytest

from bifrost.coordinator.core.consumer import regexes
from bifrost.coordinator.core.consumer.member import MemberState
from bifrost.coordinator.core.records import ConsumerGroupRegularExpressionKey, read_key
from bifrost.errors import ErrorCode

from .stand_ins import Shard, Topics, error_of


def test_a_topic_that_does_not_exist_is_waited_for() -> None:
    shard = Shard()
    answer = shard.join("a", ["bills"])
    assert shard.told(answer) == {}
    shard.topics.make("bills", 2)
    shard.core.on_topics_changed(["bills"])
    assert shard.told(shard.beat("a", answer.member_epoch, {})) == {"bills": {0, 1}}


def test_a_topic_that_grows_is_assigned_anew() -> None:
    shard = Shard()
    first = shard.join("a")
    shard.topics.make("orders", 6)
    shard.core.on_topics_changed(["orders"])
    second = shard.beat("a", first.member_epoch, {"orders": {0, 1, 2, 3}})
    assert second.member_epoch == first.member_epoch + 1
    assert shard.told(second) == {"orders": set(range(6))}


def test_a_topic_that_is_deleted_is_taken_away() -> None:
    shard = Shard(Topics(orders=1, bills=1))
    first = shard.join("a", ["orders", "bills"])
    shard.topics.delete("bills")
    shard.core.on_topics_changed(["bills"])
    answer = shard.beat("a", first.member_epoch, {"orders": {0}})
    assert shard.told(answer) == {"orders": {0}}
    assert answer.member_epoch == first.member_epoch + 1


def test_a_topic_that_is_made_anew_is_another_one() -> None:
    shard = Shard()
    first = shard.join("a")
    old_id = shard.topics.id("orders")
    shard.topics.delete("orders")
    shard.topics.make("orders", 4)
    shard.core.on_topics_changed(["orders"])
    answer = shard.beat("a", first.member_epoch, {})
    assert answer.member_epoch == first.member_epoch + 1
    assert shard.told(answer) == {"orders": {0, 1, 2, 3}}
    assert old_id not in shard.group.members["a"].assigned


def test_a_topic_that_nobody_reads_disturbs_nobody() -> None:
    shard = Shard()
    epoch = shard.join("a").member_epoch
    batches = len(shard.journal.batches)
    shard.topics.make("bills", 2)
    shard.core.on_topics_changed(["bills"])
    assert shard.beat("a", epoch).member_epoch == epoch
    assert len(shard.journal.batches) == batches


def test_what_changed_while_the_coordinator_was_down_is_noticed() -> None:
    shard = Shard()
    epoch = shard.join("a").member_epoch
    shard.topics.make("orders", 5)
    shard.restart()
    assert shard.told(shard.beat("a", epoch, {"orders": {0, 1, 2, 3}})) == {"orders": set(range(5))}
    unchanged = len(shard.journal.batches)
    shard.restart()
    shard.beat("a", shard.group.members["a"].epoch)
    assert len(shard.journal.batches) == unchanged


def test_what_a_member_no_longer_reads_is_given_up_first() -> None:
    shard = Shard(Topics(orders=2, bills=2))
    first = shard.join("a", ["orders"]).member_epoch
    answer = shard.beat("a", first, {"orders": {0, 1}}, subscribed_topic_names=["bills"])
    assert (shard.told(answer), answer.member_epoch) == ({}, first)
    assert shard.group.members["a"].state is MemberState.UNREVOKED_PARTITIONS
    assert shard.told(shard.beat("a", first, {})) == {"bills": {0, 1}}


def test_and_at_once_even_if_the_next_assignment_must_wait() -> None:
    shard = Shard(Topics(orders=2, bills=2), consumer_assignment_interval_ms=1_000)
    first = shard.join("a", ["orders"]).member_epoch
    answer = shard.beat("a", first, {"orders": {0, 1}}, subscribed_topic_names=["bills"])
    assert shard.told(answer) == {}
    assert shard.beat("a", first, {}).member_epoch == first
    shard.pass_ms(1_000)
    assert shard.told(shard.beat("a", first, {})) == {"bills": {0, 1}}


def test_members_may_read_different_topics() -> None:
    shard = Shard(Topics(orders=3, bills=2))
    shard.join("a", ["orders"])
    shard.join("b", ["bills", "orders"])
    owned = shard.settle("a", "b")
    assert owned["a"]["orders"] | owned["b"].get("orders", set()) == {0, 1, 2}
    assert owned["b"]["bills"] == {0, 1}


def test_the_assignor_that_most_want_is_used() -> None:
    shard = Shard(Topics(x=2, y=2))
    shard.join("a", ["x", "y"], server_assignor="range")
    shard.join("b", ["x", "y"], server_assignor="range")
    shard.join("c", ["x", "y"], server_assignor="uniform")
    owned = shard.settle("a", "b", "c")
    assert owned["a"] == {"x": {0}, "y": {0}}
    assert owned["b"] == {"x": {1}, "y": {1}}
    assert owned["c"] == {}
    assert shard.core.describe("group").assignor_name == "range"


class TestRegularExpressions:
    """KIP-848: the coordinator matches them, and not the client."""

    def test_an_expression_is_resolved_after_the_answer(self) -> None:
        shard = Shard(Topics(orders=1, orders2=1, bills=1))
        first = shard.join("a", [], subscribed_topic_regex="orders.*")
        assert shard.told(first) == {}
        shard.pass_ms(1)
        assert shard.told(shard.beat("a", first.member_epoch)) == {"orders": {0}, "orders2": {0}}

    def test_an_empty_expression_is_none(self) -> None:
        """librdkafka sends it with every join."""
        shard = Shard()
        answer = shard.join("a", subscribed_topic_regex="")
        assert shard.told(answer) == {"orders": {0, 1, 2, 3}}
        assert shard.group.regexes() == set()
        assert len(shard.deadlines) == 1

    @pytest.mark.parametrize("regex", ["(", "a(?=b)", r"(a)\1", "a**"])
    def test_an_expression_that_re2_refuses_is_refused(self, regex: str) -> None:
        shard = Shard()
        refused = error_of(lambda: shard.join("a", [], subscribed_topic_regex=regex))
        assert refused is ErrorCode.INVALID_REGULAR_EXPRESSION
        assert not shard.groups

    def test_names_and_an_expression_add_up(self) -> None:
        shard = Shard(Topics(orders=1, bills=1))
        first = shard.join("a", ["bills"], subscribed_topic_regex="ord.*")
        shard.pass_ms(1)
        assert shard.told(shard.beat("a", first.member_epoch)) == {"orders": {0}, "bills": {0}}

    def test_a_new_topic_is_found(self) -> None:
        shard = Shard()
        first = shard.join("a", [], subscribed_topic_regex="orders.*")
        shard.pass_ms(1)
        shard.beat("a", first.member_epoch)
        shard.topics.make("orders-eu", 1)
        shard.core.on_topics_changed(["orders-eu"])
        shard.beat("a", shard.group.members["a"].epoch)
        shard.pass_ms(1)
        assert "orders-eu" not in shard.group.subscribed_topics(), "not more often than every ten seconds"
        shard.pass_ms(10_000)
        shard.beat("a", shard.group.members["a"].epoch)
        shard.pass_ms(1)
        assert shard.told(shard.beat("a", shard.group.members["a"].epoch)) == {"orders": {0, 1, 2, 3}, "orders-eu": {0}}

    def test_an_expression_is_tried_again_after_a_restart(self) -> None:
        shard = Shard()
        shard.join("a", [], subscribed_topic_regex="orders.*")
        shard.pass_ms(1)
        shard.topics.make("orders-eu", 1)
        shard.restart()
        shard.pass_ms(10_001)
        shard.beat("a", shard.group.members["a"].epoch)
        shard.pass_ms(1)
        assert shard.group.subscribed_topics() == {"orders", "orders-eu"}

    def test_a_second_member_with_the_same_expression_needs_no_search(self) -> None:
        shard = Shard()
        shard.join("a", [], subscribed_topic_regex="orders")
        shard.pass_ms(1)
        second = shard.join("b", [], subscribed_topic_regex="orders")
        assert shard.group.target(shard.group.members["b"]) != {}
        assert second.member_epoch == shard.group.group_epoch

    def test_an_expression_that_nobody_uses_is_forgotten(self) -> None:
        shard = Shard()
        first = shard.join("a", [], subscribed_topic_regex="orders").member_epoch
        shard.pass_ms(1)
        epoch = shard.beat("a", first).member_epoch
        answer = shard.beat("a", epoch, {}, subscribed_topic_regex="")
        assert shard.group.resolved == {}
        assert shard.told(answer) == {}
        tombstones = [read_key(record.key) for record in shard.journal.batches[-1] if record.value is None]
        assert tombstones == [ConsumerGroupRegularExpressionKey(group_id="group", regular_expression="orders")]

    def test_an_expression_is_forgotten_with_its_last_member(self) -> None:
        shard = Shard()
        shard.join("a", [], subscribed_topic_regex="orders")
        shard.pass_ms(1)
        shard.leave("a")
        assert shard.group.resolved == {}

    def test_a_search_is_done_in_slices(self, monkeypatch: pytest.MonkeyPatch) -> None:
        shard = Shard(Topics(**{f"orders{number}": 1 for number in range(500)}))
        go_on = regexes._Search.go_on

        def slow(search: regexes._Search) -> bool:
            shard.monotonic += regexes.SLICE_MS
            return go_on(search)

        monkeypatch.setattr(regexes._Search, "go_on", slow)
        shard.join("a", [], subscribed_topic_regex=r"orders\d*")
        slices = 0
        while not shard.group.resolved:
            due = shard.deadlines.next_ms()
            assert due is not None
            shard.monotonic = max(due, shard.monotonic)
            shard.deadlines.run(shard.monotonic)
            slices += 1
        assert slices == 501
        assert len(shard.group.subscribed_topics()) == 500

    def test_a_search_that_cannot_be_written_down_is_done_again(self) -> None:
        shard = Shard()
        first = shard.join("a", [], subscribed_topic_regex="orders").member_epoch
        shard.journal.failing = True
        shard.pass_ms(1)
        shard.journal.failing = False
        assert shard.group.resolved == {}
        shard.beat("a", first)
        shard.pass_ms(1)
        assert shard.group.subscribed_topics() == {"orders"}
