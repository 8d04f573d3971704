"""What followers are sent: at once what was appended, once until they have said what became of it, and who counts."""

from __future__ import annotations

import gc
import sys

from bifrost.errors import ErrorCode
from bifrost.types import NodeId
from tests.unit.broker.led_partitions import EPOCH, FOLLOWER, ME, Led, led
from tests.unit.broker.stand_ins import on_loop, turns


@led()
async def test_what_is_there_is_sent_at_once(it: Led) -> None:
    it.append()
    it.append()
    assert it.ask((0, 0)).offsets() == [0, 1]


@led()
async def test_what_is_appended_is_sent_to_whoever_waits_together_with_all_of_that_turn(it: Led) -> None:
    assert it.ask((0, 0)).results[0].high_watermark == 0
    waiting = it.ask()
    assert waiting.answer is None
    it.append()
    it.append()
    await turns(2)
    assert waiting.offsets() == [0, 1], "what is not committed yet is fetched all the same"


@led()
async def test_what_was_sent_is_not_sent_again_before_the_follower_has_said_how_far_it_is(it: Led) -> None:
    it.append()
    assert it.ask((0, 0)).offsets() == [0]
    waiting = it.ask()
    it.append()
    await turns(3)
    assert waiting.answer is None
    assert it.ask((0, 1)).offsets() == [1]
    assert waiting.results == {}, "the next request makes the one that waits answer"


@led()
async def test_what_the_follower_asks_for_is_what_it_holds(it: Led) -> None:
    it.append()
    it.ask((0, 0))
    assert it.partitions[0].high_watermark == 0
    it.ask((0, 1))
    assert it.partitions[0].high_watermark == 1


@led()
async def test_another_history_does_not_count(it: Led) -> None:
    """Its log is longer, and not this one: it is told where to cut."""
    it.append()
    it.append()
    asked = it.ask((0, 2), last_epoch=EPOCH - 1)
    assert asked.results[0].diverging_epoch == (EPOCH - 1, 0)
    assert it.partitions[0].high_watermark == 0, "it holds two records, but not these"
    assert it.ask((0, 0)).offsets() == [0, 1]


@led()
async def test_what_a_follower_holds_beyond_the_end_does_not_count_for_what_is_written_there_later(it: Led) -> None:
    """One that began anew behind what its last leader had deleted does not know any epoch."""
    it.append()
    asked = it.ask((0, 40))
    assert asked.results[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    it.append()
    assert it.partitions[0].high_watermark == 0


@led()
async def test_that_more_is_committed_is_told_a_little_later(it: Led) -> None:
    it.append()
    it.ask((0, 0))
    waiting = it.ask((0, 1))
    assert it.partitions[0].high_watermark == 1
    assert waiting.answer is None, "it was just this request that committed it, but there is no more to tell"
    it.loop.let_pass(0.01)
    assert waiting.results[0].high_watermark == 1


@led()
async def test_that_more_is_committed_is_told_together_with_more_data(it: Led) -> None:
    it.append()
    it.ask((0, 0))
    waiting = it.ask((0, 1))
    it.append()
    await turns(2)
    assert (waiting.offsets(), waiting.results[0].high_watermark) == ([1], 1)
    waiting = it.ask((0, 2))
    it.loop.let_pass(0.01)
    assert waiting.results[0].high_watermark == 2


@led(count=2)
async def test_that_more_is_committed_is_told_together_with_the_data_of_others(it: Led) -> None:
    it.append(0)
    it.ask((0, 0), (1, 0))
    waiting = it.ask((0, 1))
    it.append(1)
    await turns(2)
    assert waiting.offsets(1) == [0]
    assert waiting.results[0].high_watermark == 1


@led()
async def test_a_leader_that_resigns_tells_its_followers(it: Led) -> None:
    it.ask((0, 0))
    waiting = it.ask()
    it.partitions[0].follow(NodeId(3), EPOCH + 1, (ME, FOLLOWER))
    await turns(2)
    assert waiting.results[0].error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert it.partitions[0].watchers == {}


@led()
async def test_who_is_behind_what_was_deleted_learns_where_the_log_begins(it: Led) -> None:
    for _ in range(3):
        it.append()
    it.partitions[0].log.advance_log_start(2)
    refused = it.ask((0, 0)).results[0]
    assert (ErrorCode(refused.error_code), refused.log_start_offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, 2)


@led()
async def test_followers_learn_at_once_that_the_log_begins_later(it: Led) -> None:
    it.append()
    it.ask((0, 0))
    it.ask((0, 1))
    waiting = it.ask()
    assert waiting.answer is None
    it.partitions[0].begin_at(1)
    await turns(2)
    assert waiting.results[0].log_start_offset == 1


@led(count=3)
async def test_what_does_not_fit_is_sent_next_time(it: Led) -> None:
    for index in range(3):
        it.append(index, size=600)
    first = it.ask((0, 0), (1, 0), (2, 0), max_bytes=1000)
    sent = {index for index, result in first.results.items() if result.records}
    assert sent == {0}
    second = it.ask(max_bytes=1 << 20)
    assert {index for index, result in second.results.items() if result.records} == {1, 2}


@led(count=2)
async def test_a_forgotten_partition_wakes_nobody(it: Led) -> None:
    it.ask((0, 0), (1, 0))
    waiting = it.ask(forget=(1,))
    it.append(1)
    await turns(3)
    assert waiting.answer is None
    assert it.partitions[1].watchers == {}


@led()
async def test_a_connection_that_is_lost_takes_its_session_with_it(it: Led) -> None:
    it.ask((0, 0))
    it.ask()
    it.line.when_lost["replica fetches"]()
    assert it.partitions[0].watchers == {}
    refused = it.ask((0, 0)).answer
    assert refused is not None
    assert ErrorCode(refused.error_code) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@led()
async def test_requests_of_a_session_come_in_order_or_not_at_all(it: Led) -> None:
    it.ask((0, 0))
    it.epoch = 7
    refused = it.ask().answer
    assert refused is not None
    assert ErrorCode(refused.error_code) is ErrorCode.INVALID_FETCH_SESSION_EPOCH


@on_loop
async def test_a_write_costs_the_same_however_many_partitions_are_followed() -> None:
    counts = []
    for count in (1, 200):
        it = Led(count)
        it.ask(*((index, 0) for index in range(count)))
        waiting = it.ask()
        calls = 0

        def on_call(_frame: object, event: str, _argument: object) -> None:
            nonlocal calls
            calls += event == "call"

        gc.disable()  # what earlier tests left behind may have something to say when it goes
        sys.setprofile(on_call)
        try:
            it.append(0)
            await turns(2)
        finally:
            sys.setprofile(None)
            gc.enable()
        assert waiting.offsets() == [0]
        counts.append(calls)
    assert counts[0] == counts[1]


@led()
async def test_a_replica_that_its_leader_has_not_heard_of_yet_is_refused_and_counts_when_it_asks_again(it: Led) -> None:
    """Nobody writes here, so nothing else would make it ask: it must not be left waiting uncounted."""
    (partition,) = it.partitions
    partition.lead(EPOCH, (ME,), frozenset({ME}), 2)
    early = it.ask((0, 0))
    assert early.results[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    partition.lead(EPOCH, (ME, FOLLOWER), frozenset({ME}), 3)
    it.ask((0, 0))
    assert partition.leader.followers[FOLLOWER].end_offset == 0


@led(2)
async def test_a_replica_that_its_leader_hears_of_before_it_answers_counts_from_then_on(it: Led) -> None:
    new = it.partitions[1]
    new.lead(EPOCH, (ME,), frozenset({ME}), 2)
    it.append(0, size=500)
    it.ask((0, 0), (1, 0), max_bytes=100)  # there is no room left in this answer for the second
    new.lead(EPOCH, (ME, FOLLOWER), frozenset({ME}), 3)
    it.ask((0, 1))
    assert new.leader.followers[FOLLOWER].end_offset == 0
