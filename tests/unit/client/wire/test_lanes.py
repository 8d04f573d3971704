"""One partition's batches: in order, five at most, again after a failure, and an end when one fails for good."""

from __future__ import annotations

import pytest

from bifrost.client.changes import Changes
from bifrost.client.errors import BifrostError, MessageTooLargeError, TimedOutError
from bifrost.client.wire.lanes import SEQUENCES, Appended, Batch, Lane, Pending
from bifrost.client.wire.patience import Backoff
from bifrost.errors import ErrorCode

CHANGED = Changes()


def lane_with(count: int, *, under_way: int = 0, under_way_max: int = 5) -> tuple[Lane, list[Batch]]:
    lane = Lane("t", 3, under_way_max=under_way_max, backoff=Backoff(100, 1000, lambda low, _: low))
    batches = [
        Batch("t", 3, bytearray(10), lane.next_sequence(2), 100.0 + index, Pending(CHANGED)) for index in range(count)
    ]
    for batch in batches:
        lane.add(batch)
    taken = [lane.take() for _ in range(under_way)]
    assert taken == batches[:under_way]
    return lane, batches


def sendable(lane: Lane, now_s: float = 1e9) -> list[int]:
    found = []
    while lane.can_send(now_s):
        found.append(lane.take().sequence)
    return found


def test_sequences_follow_each_other_and_start_again_after_the_last() -> None:
    lane, _ = lane_with(0)
    assert [lane.next_sequence(size) for size in (3, 1, SEQUENCES - 5, 2, 1)] == [0, 3, 4, SEQUENCES - 1, 1]


def test_only_so_many_are_under_way() -> None:
    lane, batches = lane_with(8)
    assert sendable(lane) == [0, 2, 4, 6, 8]
    lane.succeed(batches[0], 70, -1)
    assert batches[0].pending.result() == Appended("t", 3, 70, -1)
    assert sendable(lane) == [10]


def test_what_was_lost_goes_again_in_order_before_what_is_new() -> None:
    lane, batches = lane_with(5, under_way=3)
    for batch in batches[:3]:
        assert not lane.can_send(1e9) or batch is batches[0], "nothing overtakes what may have been lost"
        lane.lose(batch)
    assert sendable(lane) == [0, 2, 4, 6, 8]


def test_after_a_refusal_everything_under_way_is_heard_first() -> None:
    lane, batches = lane_with(4, under_way=3)
    assert lane.refuse(batches[0], ErrorCode.NOT_LEADER_OR_FOLLOWER, None) == ([], True)
    assert not lane.can_send(1e9)
    assert lane.refuse(batches[1], ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, None) == ([], False)
    assert not lane.can_send(1e9)
    lane.succeed(batches[2], 5, -1)
    assert sendable(lane) == [0, 2, 6]


def test_a_batch_that_the_broker_has_already_is_there() -> None:
    lane, batches = lane_with(1, under_way=1)
    assert lane.refuse(batches[0], ErrorCode.DUPLICATE_SEQUENCE_NUMBER, None) == ([], False)
    assert batches[0].pending.result().base_offset == -1


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.MESSAGE_TOO_LARGE, MessageTooLargeError),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, BifrostError),
        (ErrorCode.CORRUPT_MESSAGE, BifrostError),
        (ErrorCode.INVALID_PRODUCER_EPOCH, BifrostError),
        (12345, BifrostError),
    ],
)
def test_a_failure_for_good_ends_the_lane(code: int, kind: type[BifrostError]) -> None:
    lane, batches = lane_with(4, under_way=2)
    gone, _ = lane.refuse(batches[0], code, "because")
    assert gone == batches
    assert isinstance(lane.failure, kind)
    for batch in batches:
        with pytest.raises(kind, match=r"^t-3: "):
            batch.pending.result()
    assert not lane.holds(batches[1])
    assert not lane.can_send(1e9)


def test_patience_has_an_end_once_nothing_is_under_way() -> None:
    lane, batches = lane_with(2, under_way=1)
    assert lane.expire(500, 120) == []
    lane.lose(batches[0])
    assert lane.expire(99, 120) == []
    assert lane.expire(100, 120) == batches
    with pytest.raises(TimedOutError, match="a batch for t-3 was not acknowledged within 120 s"):
        batches[1].pending.result()


def test_pauses_grow_until_something_works() -> None:
    lane, batches = lane_with(2, under_way=1)
    lane.pause(10)
    assert lane.resume_at_s == pytest.approx(10.08)
    lane.pause(10)
    assert lane.resume_at_s == pytest.approx(10.16)
    assert not lane.can_send(10.1)
    assert lane.can_send(10.2)
    lane.succeed(batches[0], 0, -1)
    lane.pause(20)
    assert lane.resume_at_s == pytest.approx(20.08)


def test_waiting_for_a_result_has_an_end() -> None:
    with pytest.raises(TimedOutError):
        Pending(CHANGED).result(timeout=0.01)
