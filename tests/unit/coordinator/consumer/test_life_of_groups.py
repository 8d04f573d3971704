"""Groups as a whole: described, deleted, taken over from the other protocol, and read back from the log."""

from __future__ import annotations

from bifrost.coordinator.core.environment import LogRecord
from bifrost.coordinator.core.records import (
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    GroupMetadataKey,
    read_key,
    record,
)
from bifrost.errors import ErrorCode
from bifrost.protocol.messages.consumer_group_admin import Assignment, Member, TopicPartitions

from .invariants import lasting
from .stand_ins import GROUP, EmptyClassicGroup, Shard, Topics, error_of


def test_a_group_is_described_with_what_its_members_have_and_shall_have() -> None:
    shard = Shard()
    first = shard.join("a", instance_id="i", rack_id="r").member_epoch
    shard.join("b", server_assignor="uniform")
    shard.beat("a", first, {"orders": {0, 1, 2, 3}})
    described = shard.core.describe(GROUP)
    assert (described.error_code, described.group_state) == (0, "Reconciling")
    assert (described.group_epoch, described.assignment_epoch, described.assignor_name) == (3, 3, "uniform")
    topic_id = shard.topics.id("orders")

    def partitions(*numbers: int) -> Assignment:
        return Assignment(
            topic_partitions=[TopicPartitions(topic_id=topic_id, topic_name="orders", partitions=list(numbers))]
        )

    assert described.members[0] == Member(
        member_id="a",
        instance_id="i",
        rack_id="r",
        member_epoch=2,
        client_id="client",
        client_host="/127.0.0.1",
        subscribed_topic_names=["orders"],
        subscribed_topic_regex="",
        assignment=partitions(0, 1, 2, 3),
        target_assignment=partitions(0, 1),
        member_type=1,
    )
    assert described.members[1].assignment == Assignment()
    assert described.members[1].target_assignment == partitions(2, 3)


def test_deleted_topics_are_not_described() -> None:
    shard = Shard()
    shard.join("a")
    shard.topics.delete("orders")
    (member,) = shard.core.describe(GROUP).members
    assert (member.assignment, member.target_assignment) == (Assignment(), Assignment())


def test_what_is_no_consumer_group_is_not_found() -> None:
    shard = Shard()
    shard.groups["classic"] = EmptyClassicGroup("classic")
    for group_id in ("classic", "nobody"):
        described = shard.core.describe(group_id)
        assert (described.group_id, described.error_code) == (group_id, ErrorCode.GROUP_ID_NOT_FOUND)
        assert described.error_message


def test_states_are_those_of_kafka() -> None:
    shard = Shard(consumer_assignment_interval_ms=1_000)
    shard.join("a")
    seen = [shard.group.state.value]
    shard.join("b")
    seen.append(shard.group.state.value)
    shard.pass_ms(1_000)
    shard.beat("b", 2, {})
    seen.append(shard.group.state.value)
    shard.settle("a", "b")
    seen.append(shard.group.state.value)
    shard.leave("a")
    shard.leave("b")
    seen.append(shard.group.state.value)
    assert seen == ["Stable", "Assigning", "Reconciling", "Stable", "Empty"]


def test_a_group_with_members_is_not_deleted() -> None:
    shard = Shard()
    shard.join("a")
    assert error_of(lambda: shard.core.delete(shard.group)) is ErrorCode.NON_EMPTY_GROUP


def test_an_empty_group_is_deleted_without_a_trace() -> None:
    shard = Shard()
    shard.join("a", [], subscribed_topic_regex="orders")
    shard.pass_ms(1)
    shard.leave("a")
    tombstones = shard.core.delete(shard.group)
    assert read_key(tombstones[-1].key) == ConsumerGroupMetadataKey(group_id=GROUP)
    assert GROUP in shard.groups, "nothing happens before it is written"
    shard.journal.append(tombstones)
    shard.restart()
    assert shard.groups == {}
    last: dict[bytes, bytes | None] = dict(shard.journal.records())
    assert [key for key, value in last.items() if value is not None] == []


class TestBesideClassicGroups:
    """A group speaks one protocol at a time."""

    def test_a_classic_group_with_members_refuses_consumers(self) -> None:
        shard = Shard()
        shard.groups[GROUP] = EmptyClassicGroup(GROUP, is_empty=False)
        assert error_of(lambda: shard.join("a")) is ErrorCode.GROUP_ID_NOT_FOUND
        assert error_of(lambda: shard.beat("a", 3)) is ErrorCode.GROUP_ID_NOT_FOUND
        assert error_of(lambda: shard.leave("a")) is ErrorCode.GROUP_ID_NOT_FOUND
        assert not shard.journal.batches

    def test_an_empty_classic_group_is_taken_over_in_one_batch(self) -> None:
        shard = Shard()
        shard.groups[GROUP] = EmptyClassicGroup(GROUP)
        assert shard.told(shard.join("a")) == {"orders": {0, 1, 2, 3}}
        (batch,) = shard.journal.batches
        assert batch[0] == record(GroupMetadataKey(group=GROUP), None)
        before = lasting(shard.group)
        shard.restart()
        assert lasting(shard.group) == before

    def test_it_stays_if_the_batch_is_refused(self) -> None:
        shard = Shard()
        classic = shard.groups[GROUP] = EmptyClassicGroup(GROUP)
        shard.journal.failing = True
        assert error_of(lambda: shard.join("a")) is ErrorCode.NOT_ENOUGH_REPLICAS
        assert shard.groups[GROUP] is classic

    def test_only_who_joins_takes_over(self) -> None:
        shard = Shard()
        shard.groups[GROUP] = EmptyClassicGroup(GROUP)
        assert error_of(lambda: shard.beat("a", 3)) is ErrorCode.GROUP_ID_NOT_FOUND

    def test_deadlines_of_a_group_that_changed_hands_hit_nobody(self) -> None:
        shard = Shard()
        shard.join("a")
        classic = shard.groups[GROUP] = EmptyClassicGroup(GROUP, is_empty=False)
        shard.pass_ms(60_000)
        assert shard.groups[GROUP] is classic


def test_replaying_the_journal_gives_the_same_group() -> None:
    shard = Shard(Topics(orders=5, bills=3))
    shard.join("a", ["orders"], instance_id="i")
    shard.join("b", ["orders", "bills"], server_assignor="range")
    shard.join("c", [], subscribed_topic_regex="b.*", rack_id="r")
    shard.pass_ms(1)
    shard.settle("a", "b", "c")
    shard.leave("a", -2, "i")
    shard.leave("b")
    before = lasting(shard.group)
    shard.restart()
    assert lasting(shard.group) == before


def test_replaying_the_last_value_of_each_key_gives_the_same_group() -> None:
    """What is left after the log has been compacted."""
    shard = Shard()
    for member_id in ("a", "b", "c"):
        shard.join(member_id)
    shard.settle("a", "b", "c")
    shard.leave("b")
    shard.settle("a", "c")
    before = lasting(shard.group)
    last: dict[bytes, bytes | None] = {}
    for key, value in shard.journal.records():
        last.pop(key, None)
        last[key] = value
    shard.start()
    shard.replay(LogRecord(key, value) for key, value in last.items())
    assert lasting(shard.group) == before


def test_tombstones_of_what_is_gone_already_are_ignored() -> None:
    shard = Shard()
    shard.join("a")
    shard.leave("a")
    shard.start()
    shard.replay(record for record in shard.journal.records() if record.value is None)
    assert shard.groups == {}


def test_the_record_that_kafka_no_longer_writes_is_cleared_away() -> None:
    """Before 4.1 the partitions of a group's topics had a record of their own (KIP-1101)."""
    shard = Shard()
    epoch = shard.join("a").member_epoch
    key = ConsumerGroupPartitionMetadataKey(group_id=GROUP)
    shard.journal.append([record(key, ConsumerGroupPartitionMetadataValue(topics=[]))])
    shard.restart()
    shard.beat("a", epoch)
    assert record(key, None) in shard.journal.batches[-1]
    assert not shard.group.has_partition_metadata
