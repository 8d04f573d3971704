"""Incremental fetch sessions: one test for each rule of KIP-227."""

from __future__ import annotations

import random

import pytest

from bifrost.broker.fetch_sessions import FetchPlan, FetchSessions
from bifrost.errors import ApiError, ErrorCode
from bifrost.protocol.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, PartitionFetchResult
from bifrost.protocol.wire import ZERO_UUID


def partition(index: int, offset: int = 0) -> FetchPartition:
    return FetchPartition(index, -1, offset, -1, -1, 1 << 20)


def request(session_id: int, epoch: int, *indexes: int, forget: tuple[int, ...] = (), offset: int = 0) -> FetchRequest:
    topics = [FetchTopic("t", ZERO_UUID, [partition(index, offset) for index in indexes])] if indexes else []
    forgotten = [ForgottenTopic("t", ZERO_UUID, list(forget))] if forget else []
    return FetchRequest(0, 1, 1 << 20, topics, forgotten, session_id=session_id, session_epoch=epoch)


def sessions(slots: int = 10) -> FetchSessions:
    return FetchSessions(slots, random.Random(1))


def indexes(plan: FetchPlan) -> list[int]:
    return [wanted.index for _, wanted in plan.partitions]


def plan(cache: FetchSessions, asked: FetchRequest, now: float = 0.0, *, by_id: bool = False) -> FetchPlan:
    return cache.plan(asked, by_id=by_id, now=now)


def refused(cache: FetchSessions, asked: FetchRequest, *, by_id: bool = False) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        plan(cache, asked, by_id=by_id)
    return caught.value.code


def test_a_request_without_a_session_gets_none() -> None:
    cache = sessions()
    assert plan(cache, request(0, -1, 0, 1)).session_id == 0
    assert len(cache) == 0


def test_epoch_zero_opens_a_session() -> None:
    cache = sessions()
    opened = plan(cache, request(0, 0, 0, 1))
    assert opened.session_id != 0
    assert not opened.incremental


def test_an_incremental_request_means_every_partition_of_the_session() -> None:
    cache = sessions()
    session_id = plan(cache, request(0, 0, 0, 1, 2)).session_id
    following = plan(cache, request(session_id, 1, 1, offset=7))
    assert following.incremental
    assert indexes(following) == [0, 1, 2]
    assert [wanted.fetch_offset for _, wanted in following.partitions] == [0, 7, 0]


def test_partitions_join_and_leave() -> None:
    cache = sessions()
    session_id = plan(cache, request(0, 0, 0, 1)).session_id
    assert indexes(plan(cache, request(session_id, 1, 5, forget=(0,)))) == [1, 5]


def test_each_request_raises_the_epoch_and_a_repeated_one_is_refused() -> None:
    cache = sessions()
    session_id = plan(cache, request(0, 0, 0)).session_id
    plan(cache, request(session_id, 1))
    assert refused(cache, request(session_id, 1)) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert refused(cache, request(session_id, 5)) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    plan(cache, request(session_id, 2))


def test_a_refused_request_changes_nothing() -> None:
    cache = sessions()
    session_id = plan(cache, request(0, 0, 0, 1)).session_id
    refused(cache, request(session_id, 9, 4, forget=(0,)))
    assert indexes(plan(cache, request(session_id, 1))) == [0, 1]


def test_an_unknown_session_is_refused() -> None:
    assert refused(sessions(), request(77, 1)) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_names_and_ids_do_not_mix_in_one_session() -> None:
    cache = sessions()
    session_id = plan(cache, request(0, 0, 0)).session_id
    assert refused(cache, request(session_id, 1), by_id=True) is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


@pytest.mark.parametrize("epoch", [0, -1])
def test_a_full_request_ends_the_session_it_names(epoch: int) -> None:
    cache = sessions()
    session_id = plan(cache, request(0, 0, 0)).session_id
    plan(cache, request(session_id, epoch, 0))
    assert refused(cache, request(session_id, 1)) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_without_partitions_is_closed() -> None:
    cache = sessions()
    session_id = plan(cache, request(0, 0, 0)).session_id
    emptied = plan(cache, request(session_id, 1, forget=(0,)))
    assert (emptied.session_id, indexes(emptied), len(cache)) == (0, [], 0)


def test_without_a_free_slot_a_newcomer_is_served_without_a_session() -> None:
    cache = sessions(slots=1)
    first = plan(cache, request(0, 0, 0), now=0.0)
    assert plan(cache, request(0, 0, 0), now=60.0).session_id == 0
    assert plan(cache, request(first.session_id, 1), now=61.0).session_id == first.session_id


def test_a_session_unused_for_two_minutes_makes_room() -> None:
    cache = sessions(slots=1)
    first = plan(cache, request(0, 0, 0), now=0.0)
    assert plan(cache, request(0, 0, 0), now=121.0).session_id not in (0, first.session_id)


def test_an_incremental_answer_names_only_what_changed() -> None:
    cache = sessions()
    opened = plan(cache, request(0, 0, 0))
    assert opened.tell("t", PartitionFetchResult(0, high_watermark=5, log_start_offset=0))
    following = plan(cache, request(opened.session_id, 1))
    assert not following.tell("t", PartitionFetchResult(0, high_watermark=5, log_start_offset=0))
    assert following.tell("t", PartitionFetchResult(0, high_watermark=6, log_start_offset=0))
    assert following.tell("t", PartitionFetchResult(0, high_watermark=6, log_start_offset=0, records=b"data"))
    assert following.tell("t", PartitionFetchResult(0, ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert following.tell("t", PartitionFetchResult(0, high_watermark=6, log_start_offset=0))


def test_a_partition_that_got_data_goes_to_the_end_of_the_line() -> None:
    cache = sessions()
    opened = plan(cache, request(0, 0, 0, 1, 2))
    opened.rotate("t", 0)
    assert indexes(plan(cache, request(opened.session_id, 1))) == [1, 2, 0]
