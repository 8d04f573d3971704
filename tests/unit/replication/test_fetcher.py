"""What a follower asks its leader, and when: nothing that its disk does not hold yet, and only what has changed."""

from __future__ import annotations

import asyncio

import pytest

from bifrost.protocol.fetch import PartitionFetchResult
from bifrost.types import NodeId
from tests.unit.broker.stand_ins import on_loop, turns, until
from tests.unit.replication.following import LEADER, ME, NOW, Following, batch, following


@following
async def test_the_first_request_names_everything_and_opens_a_session(it: Following) -> None:
    it.follow()
    await turns(5)
    (request,) = it.wire.requests
    assert (request.session_id, request.session_epoch, request.replica_id, request.replica_epoch) == (0, 0, ME, 9)
    (asked,) = it.wire.named
    assert (asked.fetch_offset, asked.current_leader_epoch, asked.last_fetched_epoch) == (0, 3, -1)


@following
async def test_what_was_fetched_is_acknowledged_once_it_is_synced(it: Following) -> None:
    """The next request says that this replica holds it: after a power cut, too."""
    it.follow()
    await turns(5)
    it.wire.answer(PartitionFetchResult(0, records=batch(0, 4), high_watermark=0, log_start_offset=0))
    await turns(5)
    assert it.partition.log.log_end_offset == 4
    assert len(it.wire.requests) == 1, "nothing is asked before the sync"
    it.partition.log.flush()
    await turns(5)
    (asked,) = it.wire.named
    assert (asked.fetch_offset, asked.last_fetched_epoch) == (4, 3)
    assert (it.wire.requests[-1].session_id, it.wire.requests[-1].session_epoch) == (77, 1)


@following
async def test_what_it_wrote_as_a_leader_is_not_acknowledged_before_it_is_synced_either(it: Following) -> None:
    it.partition.lead(2, (ME, LEADER), frozenset({ME}), 1)
    it.partition.append(memoryview(bytearray(batch(0))), acks=1, api_version=9, transactional_id=None, now_ms=NOW)
    it.follow(epoch=3)
    await turns(5)
    assert it.wire.requests == []
    it.partition.log.flush()
    await turns(5)
    assert it.wire.named[0].fetch_offset == 1


@following
async def test_a_session_names_only_what_has_changed(it: Following) -> None:
    other = it.make(1)
    it.follow()
    it.follow(partition=other)
    await turns(5)
    assert [one.index for one in it.wire.named] == [0, 1]
    it.wire.answer(PartitionFetchResult(1, records=batch(0), high_watermark=0, log_start_offset=0))
    await turns(5)
    other.log.flush()
    await turns(5)
    assert [one.index for one in it.wire.named] == [1]


@following
async def test_a_partition_that_comes_later_does_not_wait_for_the_answer(it: Following) -> None:
    it.follow()
    await turns(5)
    other = it.make(1)
    it.follow(partition=other)
    await turns(5)
    assert len(it.wire.requests) == 2
    assert [one.index for one in it.wire.named] == [1]


@following
async def test_where_histories_part_the_log_is_cut_and_asked_for_again(it: Following) -> None:
    it.partition.log.append_replicated(memoryview(batch(0, 5, epoch=1) + batch(5, 5, epoch=2)), NOW)
    it.partition.log.flush()
    it.follow()
    await turns(5)
    assert (it.wire.named[0].fetch_offset, it.wire.named[0].last_fetched_epoch) == (10, 2)
    it.wire.answer(PartitionFetchResult(0, diverging_epoch=(1, 5)))
    await turns(5)
    it.partition.log.flush()
    await turns(5)
    assert it.partition.log.log_end_offset == 5
    assert (it.wire.named[0].fetch_offset, it.wire.named[0].last_fetched_epoch) == (5, 1)


@following
async def test_who_lacks_what_the_leader_has_deleted_begins_anew(it: Following) -> None:
    it.follow()
    await turns(5)
    it.wire.answer(PartitionFetchResult(0, error_code=1, log_start_offset=40))
    await turns(5)
    it.partition.log.flush()
    await turns(5)
    assert (it.partition.log.log_start_offset, it.wire.named[0].fetch_offset) == (40, 40)


@following
async def test_a_leader_whose_log_begins_inside_a_batch_is_followed(it: Following) -> None:
    """What begins at 40 is in a batch that begins at 38: it would be fetched again and again if it were left out."""
    it.follow()
    await turns(5)
    it.wire.answer(PartitionFetchResult(0, error_code=1, log_start_offset=40))
    await turns(5)
    it.partition.log.flush()
    await turns(5)
    it.wire.answer(PartitionFetchResult(0, records=batch(38, 5), high_watermark=43, log_start_offset=40))
    await turns(5)
    it.partition.log.flush()
    await turns(5)
    log = it.partition.log
    assert (log.log_start_offset, log.log_end_offset, it.wire.named[0].fetch_offset) == (40, 43, 43)


@following
async def test_the_leader_is_told_of_a_new_start_once_it_is_on_disk(it: Following) -> None:
    it.follow()
    await turns(5)
    it.wire.answer(PartitionFetchResult(0, records=batch(0, 4), high_watermark=4, log_start_offset=3))
    await turns(5)
    it.partition.log.flush()
    await turns(5)
    log = it.partition.log
    assert (log.log_start_offset, it.wire.named[0].log_start_offset) == (3, 0)
    count = len(it.wire.requests)
    log.start_is_stored(3)
    await turns(5)
    assert len(it.wire.requests) == count + 1, "at once, though the last one still waits for an answer"
    assert (it.wire.named[0].log_start_offset, it.wire.named[0].fetch_offset) == (3, 4)


@following
async def test_a_late_answer_of_another_leader_is_dropped(it: Following) -> None:
    it.follow()
    await turns(5)
    it.partition.follow(NodeId(3), 4, (LEADER, ME))
    it.fetcher.forget(it.partition)
    it.wire.answer(PartitionFetchResult(0, records=batch(0), high_watermark=1, log_start_offset=0))
    await turns(5)
    assert it.partition.log.log_end_offset == 0


@following
async def test_a_leader_that_knows_nothing_of_the_session_is_told_everything_again(it: Following) -> None:
    it.follow()
    await turns(5)
    it.wire.answer()
    await turns(5)
    assert it.wire.named == []
    it.wire.session_id = 0
    it.wire.answer()
    await turns(5)
    assert [one.index for one in it.wire.named] == [0]
    assert it.wire.requests[-1].session_epoch == 0


@pytest.mark.parametrize("error", [6, 74, 75, 100])
def test_one_that_is_refused_is_asked_for_again_a_little_later_and_the_others_go_on(error: int) -> None:
    @on_loop
    async def run() -> None:
        it = Following()
        other = it.make(1)
        it.follow()
        it.follow(partition=other)
        await turns(5)
        it.wire.answer(PartitionFetchResult(0, error_code=error))
        await turns(5)
        assert it.wire.requests[-1].forgotten_topics[0].partitions == [0]
        await until(lambda: bool(it.wire.named))  # its pause is over after some milliseconds
        assert [one.index for one in it.wire.named] == [0]
        await it.stop()

    run()


@pytest.mark.parametrize(("refusals", "warnings"), [(3, 0), (5, 1)])
def test_a_leader_that_is_gone_for_a_moment_is_nothing_to_warn_of(
    refusals: int, warnings: int, caplog: pytest.LogCaptureFixture
) -> None:
    @following
    async def run(it: Following) -> None:
        it.wire.refusals = refusals
        it.follow()
        await until(lambda: bool(it.wire.requests))

    run()
    assert [one.message.split(" reason")[0] for one in caplog.records] == [f"leader not reached id={LEADER}"] * warnings


async def fetched(it: Following, *indexes: int) -> None:
    """Some bytes of these partitions have come, and the leader has many more."""
    it.wire.answer(
        *[PartitionFetchResult(one, records=batch(0), high_watermark=100, log_start_offset=0) for one in indexes]
    )
    await turns(5)


@following
async def test_a_throttled_partition_is_left_out_while_others_go_on(it: Following) -> None:
    other = it.make(1)
    it.throttled = {0}
    it.budget.set_rate(1, asyncio.get_running_loop().time() * 1000)
    it.follow()
    it.follow(partition=other)
    await turns(5)
    await fetched(it, 0, 1)
    it.partition.log.flush()
    other.log.flush()
    await turns(5)
    assert [one.index for one in it.wire.named] == [1]
    assert [topic.partitions for topic in it.wire.requests[-1].forgotten_topics] == [[0]]


@following
async def test_a_throttled_partition_goes_on_when_enough_time_has_passed(it: Following) -> None:
    it.throttled = {0}
    it.budget.set_rate(10_000, asyncio.get_running_loop().time() * 1000)
    it.follow()
    await turns(5)
    await fetched(it, 0)
    it.partition.log.flush()
    await until(lambda: bool(it.wire.requests[-1].topics) and it.wire.named[0].fetch_offset == 1)


@following
async def test_another_rate_counts_at_once(it: Following) -> None:
    it.throttled = {0}
    it.budget.set_rate(0, asyncio.get_running_loop().time() * 1000)
    it.follow()
    await turns(5)
    await fetched(it, 0)
    it.partition.log.flush()
    await turns(5)
    assert len(it.wire.requests) == 1
    it.budget.set_rate(None, 0)
    it.fetcher.on_budget_changed()
    await turns(5)
    assert it.wire.named[0].fetch_offset == 1


@following
async def test_who_has_caught_up_is_not_throttled(it: Following) -> None:
    """The leader may count on it from then on, and writes would wait as long as it rests."""
    it.throttled = {0}
    it.budget.set_rate(1, asyncio.get_running_loop().time() * 1000)
    it.follow()
    await turns(5)
    it.wire.answer(PartitionFetchResult(0, records=batch(0), high_watermark=1, log_start_offset=0))
    await turns(5)
    it.partition.log.flush()
    await turns(5)
    assert it.wire.named[0].fetch_offset == 1


@following
async def test_who_had_caught_up_is_not_throttled_when_a_burst_leaves_it_behind(it: Following) -> None:
    """The leader still counts on it."""
    it.throttled = {0}
    it.budget.set_rate(1, asyncio.get_running_loop().time() * 1000)
    it.follow()
    await turns(5)
    for offset, committed in ((0, 1), (1, 100)):
        it.wire.answer(PartitionFetchResult(0, records=batch(offset), high_watermark=committed, log_start_offset=0))
        await turns(5)
        it.partition.log.flush()
        await turns(5)
    assert it.wire.named[0].fetch_offset == 2


@following
async def test_who_is_in_sync_goes_on_at_once(it: Following) -> None:
    """Whatever it owes: in Kafka a replica in sync is not throttled."""
    it.throttled = {0}
    it.budget.set_rate(1, asyncio.get_running_loop().time() * 1000)
    it.follow()
    await turns(5)
    await fetched(it, 0)
    it.partition.log.flush()
    it.fetcher.look_again(it.partition)
    await turns(5)
    assert len(it.wire.requests) == 1, "nothing has changed"
    it.throttled = set()
    it.fetcher.look_again(it.partition)
    await turns(5)
    assert it.wire.named[0].fetch_offset == 1


@pytest.mark.parametrize("between", [True, False], ids=["another leader between", "another epoch"])
def test_a_late_answer_of_the_same_leader_in_another_epoch_is_dropped(between: bool) -> None:
    """What it holds may have been cut since."""

    @on_loop
    async def run() -> None:
        it = Following()
        it.follow(epoch=3)
        await turns(5)
        if between:
            it.partition.follow(NodeId(3), 4, (LEADER, ME))
            it.fetcher.forget(it.partition)
        it.follow(epoch=5)
        it.wire.answer(PartitionFetchResult(0, records=batch(0), high_watermark=1, log_start_offset=0))
        await turns(5)
        assert (it.partition.log.log_end_offset, it.partition.high_watermark) == (0, 0)
        assert (it.wire.named[0].fetch_offset, it.wire.named[0].current_leader_epoch) == (0, 5)
        it.wire.answer(PartitionFetchResult(0, records=batch(0, epoch=5), high_watermark=1, log_start_offset=0))
        await turns(5)
        assert (it.partition.log.log_end_offset, it.partition.high_watermark) == (1, 1)
        await it.stop()

    run()


class TestALeaderWithAShorterLog:
    """After an unclean election, where no epochs tell how the logs part (Kafka: fetchOffsetAndTruncate)."""

    @staticmethod
    async def out_of_range(it: Following) -> None:
        it.partition.log.append_replicated(memoryview(batch(0, 5, epoch=-1) + batch(5, 5, epoch=-1)), NOW)
        it.partition.log.flush()
        it.follow()
        await turns(5)
        assert (it.wire.named[0].fetch_offset, it.wire.named[0].last_fetched_epoch) == (10, -1)
        it.wire.answer(PartitionFetchResult(0, error_code=1, log_start_offset=0))
        await turns(5)
        (asked,) = it.wire.asked_for_ends
        assert (asked.replica_id, asked.topics[0].partitions[0].current_leader_epoch) == (ME, 3)

    def test_what_it_has_not_got_is_cut(self) -> None:
        @following
        async def test(it: Following) -> None:
            await self.out_of_range(it)
            it.wire.answer_end(7)
            await turns(5)
            it.partition.log.flush()
            await turns(5)
            assert it.partition.log.log_end_offset == 5, "a batch that reaches beyond goes as a whole"
            assert it.wire.named[0].fetch_offset == 5

        test()

    def test_who_is_followed_in_another_epoch_by_then_is_left_alone(self) -> None:
        @following
        async def test(it: Following) -> None:
            await self.out_of_range(it)
            it.follow(epoch=4)
            it.wire.answer_end(7)
            await turns(5)
            assert it.partition.log.log_end_offset == 10

        test()

    @pytest.mark.parametrize(("offset", "error_code"), [(12, 0), (-1, 6)], ids=["it has written since", "refused"])
    def test_else_it_is_asked_again_a_little_later(self, offset: int, error_code: int) -> None:
        @following
        async def test(it: Following) -> None:
            await self.out_of_range(it)
            it.wire.answer_end(offset, error_code)
            await until(lambda: len(it.wire.requests) > 1 and bool(it.wire.requests[-1].topics))
            assert (it.partition.log.log_end_offset, it.wire.named[0].fetch_offset) == (10, 10)

        test()
