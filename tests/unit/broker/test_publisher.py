"""What the metadata says is what this node hosts, and one partition's trouble stays its own."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from bifrost.controller.core.delta import Delta
from bifrost.controller.core.records import (
    ConfigChanged,
    PartitionChanged,
    PartitionCreated,
    TopicCreated,
    TopicDeleted,
)
from bifrost.coordinator.core.records import OffsetCommitKey, OffsetCommitValue
from bifrost.coordinator.core.records import record as log_record
from bifrost.coordinator.router import OFFSETS_TOPIC
from bifrost.errors import ApiError, DiskFullError, ErrorCode, StorageError
from bifrost.protocol.records import encode_batch
from bifrost.types import TopicPartition
from tests.unit.broker.hosting import BrokenDisk, Hosting
from tests.unit.broker.stand_ins import on_loop
from tests.unit.controller.stand_ins import topic_id

NOW = 1_700_000_000_000


def write(hosting: Hosting, name: str, index: int = 0) -> int:
    """The offset of one more batch."""
    batch = memoryview(encode_batch([(NOW, None, b"value", ())]))
    partition = hosting.partition(name, index)
    result = partition.append(batch, acks=-1, api_version=9, transactional_id=None, now_ms=NOW)
    return result.base_offset


def refusal(hosting: Hosting, name: str, index: int = 0) -> ErrorCode:
    with pytest.raises(ApiError) as refused:
        hosting.partition(name, index)
    return refused.value.code


@on_loop
async def test_a_new_topic_has_a_log_and_a_leader_for_every_partition() -> None:
    hosting = await Hosting.start()
    hosting.create("orders", partitions=3)
    for index in range(3):
        partition = hosting.partition("orders", index)
        assert (partition.is_leader, partition.leader.epoch, partition.high_watermark) == (True, 0, 0)
        assert partition.log.topic_id == UUID(bytes=topic_id(100))
    assert hosting.folders() == ["orders-0", "orders-1", "orders-2"]


@on_loop
async def test_partitions_that_are_added_come_too() -> None:
    hosting = await Hosting.start()
    hosting.create("orders")
    write(hosting, "orders")
    hosting.commit(PartitionCreated(topic_id(100), 1, (1,), (1,), 1))
    assert write(hosting, "orders", 0) == 1
    assert write(hosting, "orders", 1) == 0


@on_loop
async def test_a_deleted_topic_is_gone_at_once() -> None:
    hosting = await Hosting.start()
    hosting.create("orders", partitions=2)
    partition = hosting.partition("orders")
    hosting.delete("orders")
    assert refusal(hosting, "orders") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not partition.is_leader, "whoever holds it learns that it is over"
    assert hosting.folders() == []
    assert hosting.logs.partitions == []


@on_loop
async def test_who_waits_on_a_deleted_topic_is_told() -> None:
    hosting = await Hosting.start()
    hosting.create("orders")
    told: list[bool] = []

    class Waiting:
        def on_progress(self, partition: object) -> None:
            told.append(hosting.replicas.find(TopicPartition("orders", 0)) is None)

    hosting.waiters.park_fetch(TopicPartition("orders", 0), Waiting())
    hosting.delete("orders")
    assert told == [True]
    assert len(hosting.waiters) == 0


@on_loop
async def test_a_topic_created_again_under_its_name_starts_empty() -> None:
    hosting = await Hosting.start()
    hosting.create("orders", number=100)
    write(hosting, "orders")
    hosting.delete("orders")
    hosting.create("orders", number=200)
    assert write(hosting, "orders") == 0
    assert hosting.partition("orders").log.topic_id == UUID(bytes=topic_id(200))


@on_loop
async def test_a_topic_deleted_and_created_again_in_one_change_starts_empty() -> None:
    hosting = await Hosting.start()
    hosting.create("orders", partitions=2, number=100)
    write(hosting, "orders")
    hosting.commit(
        TopicDeleted(topic_id(100)),
        TopicCreated("orders", topic_id(200)),
        PartitionCreated(topic_id(200), 0, (1,), (1,), 1),
    )
    assert write(hosting, "orders") == 0
    assert hosting.folders() == ["orders-0"]


@on_loop
async def test_after_a_restart_everything_is_where_it_was_in_a_new_epoch() -> None:
    first = await Hosting.start()
    first.create("orders")
    write(first, "orders")
    await first.stop()
    hosting = await Hosting.start(first.disk, first.image)
    assert write(hosting, "orders") == 1
    hosting.commit(PartitionChanged(topic_id(100), 0, leader=1))
    assert hosting.partition("orders").leader.epoch == 1
    assert hosting.partition("orders").log.epochs.latest == 1


@on_loop
async def test_logs_that_the_metadata_does_not_know_are_kept_out_of_the_way() -> None:
    first = await Hosting.start()
    first.create("kept", number=100)
    first.create("lost", partitions=2, number=200)
    await first.stop()
    first.image.apply(TopicDeleted(topic_id(200)), first.image.offset + 1, Delta())
    hosting = await Hosting.start(first.disk, first.image)
    assert hosting.folders() == ["kept-0"]
    assert hosting.strays() == ["lost-0", "lost-1"]
    assert refusal(hosting, "lost") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await hosting.stop()
    again = await Hosting.start(first.disk, first.image)
    assert again.strays() == ["lost-0", "lost-1"], "nothing ever removes them"


@on_loop
async def test_logs_of_partitions_that_went_elsewhere_in_the_meantime_are_kept_too() -> None:
    first = await Hosting.start()
    first.create("orders")
    await first.stop()
    moved = PartitionChanged(topic_id(100), 0, leader=7, isr=(7,), replicas=(7,))
    first.image.apply(moved, first.image.offset + 1, Delta())
    hosting = await Hosting.start(first.disk, first.image)
    assert (hosting.folders(), hosting.strays()) == ([], ["orders-0"])


@on_loop
async def test_a_log_of_an_earlier_topic_of_the_same_name_is_not_taken_for_the_new_one() -> None:
    first = await Hosting.start()
    first.create("orders", number=100)
    write(first, "orders")
    await first.stop()
    offset = first.image.offset + 1
    for record in (
        TopicDeleted(topic_id(100)),
        TopicCreated("orders", topic_id(200)),
        PartitionCreated(topic_id(200), 0, (1,), (1,), 1),
    ):
        first.image.apply(record, offset, Delta())
    hosting = await Hosting.start(first.disk, first.image)
    assert write(hosting, "orders") == 0
    assert hosting.strays() == ["orders-0"]


@on_loop
async def test_a_disk_that_fails_to_set_a_log_aside_takes_its_directory_offline_once() -> None:
    first = await Hosting.start(directories=("/one", "/two"))
    first.create("lost", partitions=4, number=200)
    await first.stop()
    first.image.apply(TopicDeleted(topic_id(200)), first.image.offset + 1, Delta())
    first.disk.fails = lambda path: StorageError(path, "input/output error") if path == "/one/lost-0" else None
    hosting = await Hosting.start(first.disk, first.image, directories=("/one", "/two"))
    assert hosting.offline == ["/one"]
    assert (hosting.folders("/one"), hosting.strays("/two")) == (["lost-0", "lost-2"], ["lost-1", "lost-3"])


@on_loop
async def test_a_partition_that_lives_elsewhere_is_not_hosted() -> None:
    hosting = await Hosting.start()
    hosting.commit(TopicCreated("far", topic_id(9)), PartitionCreated(topic_id(9), 0, (7,), (7,), 7))
    assert refusal(hosting, "far") is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert refusal(hosting, "far", 1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert hosting.folders() == []


@on_loop
async def test_who_follows_hears_that_it_is_in_sync_now_or_has_other_configs() -> None:
    """Its catching up may have been throttled, and writes wait for whoever is in sync."""
    hosting = await Hosting.start()
    followed = PartitionCreated(topic_id(9), 0, (7, 1), (7,), 7)
    hosting.commit(TopicCreated("near", topic_id(9)), followed)
    told: list[Any] = []
    hosting.publisher._followers.look_again = told.append  # type: ignore[method-assign]
    hosting.commit(PartitionChanged(topic_id(9), 0, isr=(7, 1)))
    assert told == [hosting.partition("near")]
    hosting.commit(ConfigChanged(2, "near", "follower.replication.throttled.replicas", "*"))
    assert told == [hosting.partition("near")] * 2


@on_loop
async def test_of_a_partition_without_a_leader_nobody_is_told_that_it_does_not_exist() -> None:
    """Its leader will come back; who believes that it is gone may give up on it (Kafka: getPartitionOrError)."""
    hosting = await Hosting.start()
    hosting.commit(TopicCreated("far", topic_id(9)), PartitionCreated(topic_id(9), 0, (7,), (7,), -1))
    assert refusal(hosting, "far") is ErrorCode.NOT_LEADER_OR_FOLLOWER


@on_loop
async def test_a_partition_that_is_moved_away_is_removed_here() -> None:
    hosting = await Hosting.start()
    hosting.create("orders")
    hosting.commit(PartitionChanged(topic_id(100), 0, leader=7, isr=(7,), replicas=(7,)))
    assert refusal(hosting, "orders") is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert hosting.folders() == []


@on_loop
async def test_a_leader_that_is_replaced_answers_so() -> None:
    hosting = await Hosting.start()
    hosting.create("orders")
    hosting.commit(PartitionChanged(topic_id(100), 0, leader=7, isr=(1, 7), replicas=(1, 7)))
    with pytest.raises(ApiError) as refused:
        write(hosting, "orders")
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


@on_loop
async def test_configs_reach_the_log_when_the_topic_is_created_and_when_they_change() -> None:
    hosting = await Hosting.start()
    hosting.create("orders", partitions=2, max_message_bytes="1000", min_insync_replicas="2")
    for index in range(2):
        assert hosting.partition("orders", index).log.config.max_message_bytes == 1000
        assert hosting.partition("orders", index).min_insync_replicas == 2
    hosting.commit(ConfigChanged(2, "orders", "max.message.bytes", "2000"))
    hosting.commit(ConfigChanged(2, "orders", "min.insync.replicas", None))
    for index in range(2):
        assert hosting.partition("orders", index).log.config.max_message_bytes == 2000
        assert hosting.partition("orders", index).min_insync_replicas == 1


@pytest.mark.parametrize(("broker", "reached"), [("", True), ("1", True), ("2", False)])
@on_loop
async def test_configs_of_this_broker_and_of_all_reach_every_log(broker: str, reached: bool) -> None:
    hosting = await Hosting.start()
    hosting.create("orders", number=100)
    hosting.create("own", number=200, max_message_bytes="77")
    hosting.commit(ConfigChanged(4, broker, "message.max.bytes", "5000"))
    expected = 5000 if reached else hosting.settings.message_max_bytes
    assert hosting.partition("orders").log.config.max_message_bytes == expected
    assert hosting.partition("own").log.config.max_message_bytes == 77


@on_loop
async def test_a_disk_that_fails_one_partition_takes_its_directory_and_nothing_else() -> None:
    disk = BrokenDisk()
    hosting = await Hosting.start(disk, directories=("/one", "/two"))
    hosting.create("before", partitions=2, number=100)
    disk.fails = lambda path: StorageError(path, "input/output error") if path.startswith("/one/new") else None
    hosting.create("new", partitions=2, number=200)
    assert hosting.offline == ["/one"]
    assert [write(hosting, "new", index) for index in range(2)] == [0, 0], "there is another directory"
    with pytest.raises(StorageError, match="offline"):
        hosting.logs.get(TopicPartition("before", 0))
    assert write(hosting, "before", 1) == 0


@on_loop
async def test_the_controller_is_told_where_replicas_are_that_it_does_not_know_of() -> None:
    hosting = await Hosting.start(directories=("/one", "/two"))
    hosting.create("t", partitions=2)
    assert len(hosting.assignments) == 2
    first, second = (hosting.logs.directory_id_of(TopicPartition("t", index)) for index in range(2))
    assert first is not None
    assert second is not None
    assert first != second
    hosting.commit(PartitionChanged(topic_id(100), 0, directories=(first,)))
    assert len(hosting.assignments) == 1
    hosting.commit(PartitionChanged(topic_id(100), 1, directories=(first,)))
    assert len(hosting.assignments) == 1, "it is in the other one"
    hosting.delete("t")
    assert len(hosting.assignments) == 0


@on_loop
async def test_a_new_log_is_made_where_the_metadata_says_that_it_is_and_not_while_its_directory_is_away() -> None:
    disk = BrokenDisk()
    hosting = await Hosting.start(disk, directories=("/one", "/two"))
    hosting.create("t", partitions=1)
    ids = [one.directory_id.bytes for one in hosting.logs.directories if one.directory_id is not None]
    hosting.commit(PartitionChanged(topic_id(100), 0, directories=(ids[1],)))
    await hosting.stop()
    disk.remove_tree("/one/t-0")
    hosting = await Hosting.start(disk, hosting.image, directories=("/one", "/two"))
    assert hosting.folders("/two") == ["t-0"]
    await hosting.stop()
    disk.fails = lambda path: StorageError(path, "input/output error") if path.startswith("/two/") else None
    hosting = await Hosting.start(disk, hosting.image, directories=("/one", "/two"))
    assert refusal(hosting, "t") is ErrorCode.KAFKA_STORAGE_ERROR, "it may all be in the directory that failed"
    assert hosting.folders("/one") == []
    assert len(hosting.assignments) == 0, "the controller knows where it is, and that this directory has failed"


@on_loop
async def test_a_full_disk_keeps_a_new_partition_waiting_and_everything_else_going() -> None:
    hosting = await Hosting.start()
    hosting.create("before", number=100)
    hosting.disk.fails = lambda path: DiskFullError(path, "no space left") if "new-" in path else None
    hosting.create("new", partitions=2, number=200)
    assert hosting.offline == [], "there is nothing wrong with the disk but its size"
    assert refusal(hosting, "new", 0) is ErrorCode.KAFKA_STORAGE_ERROR
    assert write(hosting, "before") == 0
    hosting.publisher.place_waiting(hosting.image)
    assert refusal(hosting, "new", 1) is ErrorCode.KAFKA_STORAGE_ERROR
    hosting.disk.fails = lambda _: None
    hosting.publisher.place_waiting(hosting.image)
    assert [write(hosting, "new", index) for index in range(2)] == [0, 0]


@on_loop
async def test_more_partitions_than_files_may_be_open_wait_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One request for a large topic must not stop every broker of a cluster."""
    monkeypatch.setattr(BrokenDisk, "open_files_max", lambda _: 8)
    hosting = await Hosting.start()
    hosting.create("before", partitions=5, number=100)
    hosting.create("new", partitions=2, number=200)
    assert hosting.offline == [], "there is nothing wrong with the disk"
    assert write(hosting, "new", 0) == 0, "three quarters of the files are for logs"
    assert refusal(hosting, "new", 1) is ErrorCode.KAFKA_STORAGE_ERROR
    hosting.delete("before")
    hosting.publisher.place_waiting(hosting.image)
    assert write(hosting, "new", 1) == 0


@on_loop
async def test_a_topic_deleted_while_it_waits_for_room_is_forgotten() -> None:
    hosting = await Hosting.start()
    hosting.disk.fails = lambda path: DiskFullError(path, "no space left") if "new-" in path else None
    hosting.create("new")
    hosting.delete("new")
    assert refusal(hosting, "new") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    hosting.disk.fails = lambda _: None
    hosting.publisher.place_waiting(hosting.image)
    assert refusal(hosting, "new") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert hosting.replicas.find(TopicPartition("new", 0)) is None


@on_loop
async def test_a_log_that_cannot_be_removed_takes_its_directory_offline_and_the_topic_is_gone_all_the_same() -> None:
    hosting = await Hosting.start()
    hosting.create("orders")
    hosting.disk.fails = lambda path: StorageError(path, "input/output error") if "orders" in path else None
    hosting.delete("orders")
    assert hosting.offline == ["/data"]
    assert refusal(hosting, "orders") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def coordinates(hosting: Hosting, group_id: str = "g") -> bool:
    try:
        hosting.groups.ask(group_id, lambda _, respond: respond(True))
    except ApiError as error:
        return error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return True


@on_loop
async def test_groups_are_coordinated_by_the_leader_of_their_partition() -> None:
    hosting = await Hosting.start()
    assert not coordinates(hosting)
    hosting.create(OFFSETS_TOPIC, partitions=3)
    assert all(coordinates(hosting, group_id) for group_id in ("a", "b", "c", "d"))
    hosting.delete(OFFSETS_TOPIC)
    assert not coordinates(hosting)
    hosting.groups.close()


@on_loop
async def test_a_node_that_starts_coordinates_what_it_leads() -> None:
    first = await Hosting.start()
    first.create(OFFSETS_TOPIC)
    await first.stop()
    again = await Hosting.start(first.disk, first.image)
    assert coordinates(again)
    for hosting in (first, again):
        hosting.groups.close()


@on_loop
async def test_offsets_in_a_topic_go_when_the_topic_goes() -> None:
    hosting = await Hosting.start()
    hosting.create(OFFSETS_TOPIC, number=100)
    hosting.create("orders", number=200)
    key = OffsetCommitKey(group="g", topic="orders", partition=0)
    value = OffsetCommitValue(offset=1, metadata="", commit_timestamp=0)
    hosting.groups.ask("g", lambda shard, respond: respond(shard.replay([log_record(key, value)])))

    def count() -> Any:
        return hosting.groups.ask("g", lambda shard, respond: respond(len(shard.committed)))

    assert count() == 1
    hosting.delete("orders")
    assert count() == 0
    hosting.groups.close()
