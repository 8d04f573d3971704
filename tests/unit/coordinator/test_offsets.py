"""Commits, what is found of them, and what is forgotten on request. Kafka: OffsetMetadataManagerTest."""

from __future__ import annotations

from uuid import UUID

import pytest

from bifrost.coordinator.core.records import OffsetCommitKey, OffsetCommitValue
from bifrost.errors import ErrorCode
from bifrost.protocol.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.unit.coordinator.whole_shard import EPOCH_MS, GROUP, WholeShard, refusal

OK = ErrorCode.NONE
NO_SUCH = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_what_was_committed_is_found_and_nothing_else() -> None:
    shard = WholeShard()
    assert shard.commit({("orders", 0): 5, ("orders", 3): 0, ("payments", 1): 1 << 40}) == [OK] * 3
    assert shard.fetch(("orders", 0), ("orders", 1), ("orders", 3), ("payments", 1)) == [5, -1, 0, 1 << 40]
    assert shard.fetch_all() == {("orders", 0): 5, ("orders", 3): 0, ("payments", 1): 1 << 40}


def test_a_commit_is_a_record_in_kafkas_format() -> None:
    shard = WholeShard()
    shard.advance(250)
    shard.commit({("orders", 2): 9}, metadata="note")
    key = OffsetCommitKey(group=GROUP, topic="orders", partition=2)
    value = OffsetCommitValue(
        offset=9,
        leader_epoch=7,
        metadata="note",
        commit_timestamp=EPOCH_MS + 250,
        topic_id=shard.topics.id("orders"),
    )
    assert shard.written() == [(key, value)]


def test_all_partitions_of_a_commit_are_one_batch_or_nothing() -> None:
    shard = WholeShard()
    shard.commit({("orders", 0): 1})
    shard.journal.refuse_with = ErrorCode.COORDINATOR_NOT_AVAILABLE
    refused = refusal(shard.commit, {("orders", 0): 2, ("orders", 1): 2})
    assert refused is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert shard.fetch_all() == {("orders", 0): 1}


def test_the_last_commit_counts_also_if_it_goes_back() -> None:
    shard = WholeShard()
    for offset in (5, 9, 3):
        shard.commit({("orders", 0): offset})
    assert shard.fetch(("orders", 0)) == [3]
    assert shard.restart().fetch(("orders", 0)) == [3]


def test_topics_and_partitions_that_do_not_exist_are_refused_one_by_one_and_first_in_the_answer() -> None:
    shard = WholeShard()
    codes = shard.commit({("orders", 3): 1, ("orders", 4): 1, ("orders", -1): 1, ("nothing", 0): 1, ("payments", 0): 1})
    assert codes == [NO_SUCH, NO_SUCH, OK, NO_SUCH, OK]
    assert shard.fetch_all() == {("orders", 3): 1, ("payments", 0): 1}


def test_nobody_asks_the_group_when_nothing_of_a_commit_exists() -> None:
    shard = WholeShard()
    assert shard.commit({("nothing", 0): 1}, member_id="m", generation=4) == [NO_SUCH]
    assert shard.journal.records == []


@pytest.mark.parametrize(("length", "code"), [(4096, OK), (4097, ErrorCode.OFFSET_METADATA_TOO_LARGE)])
def test_metadata_has_a_limit(length: int, code: ErrorCode) -> None:
    assert WholeShard().commit({("orders", 0): 1}, metadata="x" * length) == [code]


def test_metadata_is_measured_as_java_measures_text() -> None:
    shard = WholeShard(metadata_max=10)
    assert shard.commit({("orders", 0): 1}, metadata="\U0001f600" * 5) == [OK]
    assert shard.commit({("orders", 0): 1}, metadata="\U0001f600" * 6) == [ErrorCode.OFFSET_METADATA_TOO_LARGE]


def test_no_metadata_is_empty_metadata() -> None:
    shard = WholeShard()
    shard.commit({("orders", 0): 1}, metadata=None)
    stored = shard.stored("orders", 0)
    assert stored is not None
    assert stored.metadata == ""


def test_a_time_of_expiry_is_kept_as_old_clients_could_name_it() -> None:
    shard = WholeShard()
    shard.commit({("orders", 0): 1}, version=4, retention_ms=1_000)
    stored = shard.stored("orders", 0)
    assert stored is not None
    assert stored.expire_timestamp == EPOCH_MS + 1_000


@pytest.mark.parametrize(
    ("retention_ms", "expires_ms"), [((1 << 63) - 1, (1 << 63) - 1), (-(1 << 63), EPOCH_MS - (1 << 63))]
)
def test_an_absurd_time_of_expiry_still_fits_into_its_record(retention_ms: int, expires_ms: int) -> None:
    shard = WholeShard()
    shard.commit({("orders", 0): 1}, version=4, retention_ms=retention_ms)
    stored = shard.stored("orders", 0)
    assert stored is not None
    assert stored.expire_timestamp == expires_ms


class TestWhoMayCommit:
    """The rules of the groups themselves are tested with them: here is what happens between them."""

    def test_somebody_from_outside_makes_a_simple_group(self) -> None:
        shard = WholeShard()
        shard.commit({("orders", 0): 1})
        assert shard.core.groups == {}
        assert [listed.group_id for listed in shard.core.list_groups((), ())] == [GROUP]

    @pytest.mark.parametrize(
        ("version", "code"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)]
    )
    def test_a_member_of_a_group_that_is_not_there(self, version: int, code: ErrorCode) -> None:
        shard = WholeShard()
        assert refusal(shard.commit, {("orders", 0): 1}, member_id="m", generation=1, version=version) is code

    def test_a_member_of_a_simple_group_is_unknown(self) -> None:
        shard = WholeShard()
        shard.commit({("orders", 0): 1})
        refused = refusal(shard.commit, {("orders", 0): 2}, member_id="m", generation=1)
        assert refused is ErrorCode.UNKNOWN_MEMBER_ID

    def test_a_classic_member_in_its_generation_only(self) -> None:
        shard = WholeShard()
        member = shard.join_classic("orders")
        assert shard.commit({("orders", 0): 1}, member_id=member, generation=1) == [OK]
        refused = refusal(shard.commit, {("orders", 0): 2}, member_id=member, generation=0)
        assert refused is ErrorCode.ILLEGAL_GENERATION
        assert refusal(shard.commit, {("orders", 0): 2}) is ErrorCode.UNKNOWN_MEMBER_ID
        assert shard.fetch(("orders", 0)) == [1]

    def test_a_consumer_group_member_in_its_epoch_only(self) -> None:
        shard = WholeShard()
        epoch = shard.heartbeat("m", 0, ["orders"]).member_epoch
        assert shard.commit({("orders", 0): 1}, member_id="m", generation=epoch) == [OK]
        refused = refusal(shard.commit, {("orders", 0): 2}, member_id="m", generation=epoch + 1)
        assert refused is ErrorCode.STALE_MEMBER_EPOCH
        refused = refusal(shard.commit, {("orders", 0): 2}, member_id="m", generation=epoch, version=8)
        assert refused is ErrorCode.UNSUPPORTED_VERSION
        assert shard.fetch(("orders", 0)) == [1]


class TestTopicIds:
    """From version 10 on, topics have no names in requests (KIP-848)."""

    def commit(self, shard: WholeShard, topic_id: UUID, offset: int) -> list[tuple[UUID, int]]:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        topic = OffsetCommitRequestTopic(topic_id=topic_id, partitions=[partition])
        response = shard.commit_request(OffsetCommitRequest(group_id=GROUP, topics=[topic]), 10)
        return [(one.topic_id, one.partitions[0].error_code) for one in response.topics]

    def fetch(self, shard: WholeShard, topic_id: UUID) -> tuple[int, int]:
        topic = OffsetFetchRequestTopics(topic_id=topic_id, partition_indexes=[0])
        (found,) = shard.fetch_request(OffsetFetchRequestGroup(group_id=GROUP, topics=[topic]), 10).topics
        assert found.topic_id == topic_id
        return found.partitions[0].committed_offset, found.partitions[0].error_code

    def test_offsets_are_committed_and_found_by_id(self) -> None:
        shard = WholeShard()
        orders = shard.topics.id("orders")
        assert self.commit(shard, orders, 5) == [(orders, 0)]
        assert self.fetch(shard, orders) == (5, 0)
        assert shard.fetch(("orders", 0)) == [5]

    def test_an_unknown_id_is_told(self) -> None:
        shard = WholeShard()
        nobody = UUID(int=1)
        assert self.commit(shard, nobody, 5) == [(nobody, ErrorCode.UNKNOWN_TOPIC_ID)]
        assert self.fetch(shard, nobody) == (-1, ErrorCode.UNKNOWN_TOPIC_ID)

    def test_offsets_of_an_earlier_topic_of_the_same_name_are_not_found(self) -> None:
        shard = WholeShard()
        self.commit(shard, shard.topics.id("orders"), 5)
        shard.topics.delete("orders")
        shard.topics.make("orders", 4)
        assert self.fetch(shard, shard.topics.id("orders")) == (-1, 0)

    def test_everything_comes_with_its_id_and_without_what_has_none(self) -> None:
        shard = WholeShard()
        shard.commit({("orders", 0): 1, ("payments", 0): 2})
        shard.topics.delete("payments")
        answer = shard.fetch_request(OffsetFetchRequestGroup(group_id=GROUP, topics=None), 10)
        assert [topic.topic_id for topic in answer.topics] == [shard.topics.id("orders")]


class TestFetch:
    def test_an_unknown_group_has_committed_nothing(self) -> None:
        shard = WholeShard()
        assert shard.fetch(("orders", 0)) == [-1]
        assert shard.fetch_all() == {}

    def test_metadata_and_leader_epoch_come_along(self) -> None:
        shard = WholeShard()
        shard.commit({("orders", 0): 1}, metadata="note")
        topic = OffsetFetchRequestTopics(name="orders", partition_indexes=[0, 1])
        answer = shard.fetch_request(OffsetFetchRequestGroup(group_id=GROUP, topics=[topic]), 9)
        found, missing = answer.topics[0].partitions
        assert (found.metadata, found.committed_leader_epoch) == ("note", 7)
        assert (missing.metadata, missing.committed_leader_epoch, missing.error_code) == ("", -1, 0)

    def test_a_consumer_group_member_in_another_epoch_sees_nothing(self) -> None:
        shard = WholeShard()
        epoch = shard.heartbeat("m", 0, ["orders"]).member_epoch
        right = OffsetFetchRequestGroup(group_id=GROUP, member_id="m", member_epoch=epoch, topics=None)
        wrong = OffsetFetchRequestGroup(group_id=GROUP, member_id="m", member_epoch=epoch + 1, topics=None)
        assert shard.fetch_request(right, 9).topics == []
        assert refusal(shard.fetch_request, wrong, 9) is ErrorCode.STALE_MEMBER_EPOCH


class TestDelete:
    """KIP-496."""

    def test_offsets_go_with_a_tombstone(self) -> None:
        shard = WholeShard()
        shard.commit({("orders", 0): 1, ("orders", 1): 2})
        assert shard.delete_offsets("orders", 0, 2) == [OK, OK]
        assert shard.written()[2:] == [(OffsetCommitKey(group=GROUP, topic="orders", partition=0), None)]
        assert shard.fetch_all() == shard.restart().fetch_all() == {("orders", 1): 2}

    def test_a_simple_group_goes_with_its_last_offset(self) -> None:
        shard = WholeShard()
        shard.commit({("orders", 0): 1})
        shard.delete_offsets("orders", 0)
        assert shard.core.list_groups((), ()) == []
        assert refusal(shard.delete_offsets, "orders", 0) is ErrorCode.GROUP_ID_NOT_FOUND

    def test_what_does_not_exist_is_told_of_each_partition(self) -> None:
        shard = WholeShard()
        shard.commit({("orders", 0): 1})
        assert shard.delete_offsets("nothing", 0) == [NO_SUCH]
        assert shard.delete_offsets("orders", 4, 0) == [NO_SUCH, OK]

    @pytest.mark.parametrize("protocol", ["classic", "consumer"])
    def test_a_topic_that_the_group_reads_is_kept(self, protocol: str) -> None:
        shard = WholeShard()
        shard.commit({("orders", 0): 1, ("payments", 0): 2})
        if protocol == "classic":
            shard.join_classic("orders")
        else:
            shard.heartbeat("m", 0, ["orders"])
        assert shard.delete_offsets("orders", 0) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]
        assert shard.delete_offsets("payments", 0) == [OK]
        assert shard.fetch_all() == {("orders", 0): 1}

    def test_of_a_group_that_is_not_of_consumers_nobody_knows_what_it_reads(self) -> None:
        shard = WholeShard()
        shard.commit({("orders", 0): 1})
        shard.join_classic(protocol_type="connect")
        assert refusal(shard.delete_offsets, "orders", 0) is ErrorCode.NON_EMPTY_GROUP
