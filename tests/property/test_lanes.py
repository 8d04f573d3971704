"""Lanes against a model of a broker that remembers five batches, over a network that loses requests and answers."""

from __future__ import annotations

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from bifrost.client.changes import Changes
from bifrost.client.wire.lanes import Batch, Lane, Pending
from bifrost.client.wire.patience import Backoff
from bifrost.errors import ErrorCode

NOW_S = 0.0
CHANGED = Changes()


class Broker:
    """One partition: what a batch's sequence number must be, and what is recognised (Kafka: ProducerStateEntry)."""

    def __init__(self) -> None:
        self.log: list[int] = []
        self._next = 0
        self._remembered: deque[tuple[int, int]] = deque(maxlen=5)

    def append(self, batch: Batch, size: int) -> tuple[int, int]:
        """Error code and base offset."""
        for sequence, offset in self._remembered:
            if sequence == batch.sequence:
                return ErrorCode.NONE, offset
        if batch.sequence != self._next:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        self._remembered.append((batch.sequence, len(self.log)))
        self._next += size
        self.log += [batch.sequence] * size
        return ErrorCode.NONE, len(self.log) - size


@given(
    sizes=st.lists(st.integers(1, 3), min_size=1, max_size=25),
    fates=st.lists(st.sampled_from(["ok", "ok", "ok", "refuse", "cut before", "cut after"]), max_size=60),
    depths=st.lists(st.integers(1, 5), max_size=60),
)
def test_everything_is_stored_once_and_in_order(sizes: list[int], fates: list[str], depths: list[int]) -> None:
    lane = Lane("t", 0, under_way_max=5, backoff=Backoff(1, 1))
    size_of: dict[int, int] = {}
    batches = []
    for size in sizes:
        sequence = lane.next_sequence(size)
        size_of[sequence] = size
        batches.append(Batch("t", 0, bytearray(1), sequence, 1e9, Pending(CHANGED)))
        lane.add(batches[-1])
    broker = Broker()
    fate, depth = iter(fates), iter(depths)
    for _ in range(1000):
        if not lane.waiting and not lane.under_way:
            break
        sent = [lane.take() for _ in range(next(depth, 5)) if lane.can_send(NOW_S)]
        assert sent or lane.under_way
        converse(lane, broker, sent, fate, size_of)
        assert lane.failure is None
    assert broker.log == [sequence for sequence, size in size_of.items() for _ in range(size)]
    offsets = [batch.pending.result().base_offset for batch in batches]
    assert offsets == [sum(sizes[:index]) for index in range(len(sizes))]


def converse(lane: Lane, broker: Broker, sent: list[Batch], fate: object, size_of: dict[int, int]) -> None:
    """One connection: requests in order, answers in order, until it is cut."""
    cut = False
    for batch in sent:
        what = "cut" if cut else next(fate, "ok")  # type: ignore[call-overload]
        if what in ("ok", "cut after"):
            code, offset = broker.append(batch, size_of[batch.sequence])
        if what == "ok":
            if code:
                assert lane.refuse(batch, code, None)[0] == []
            else:
                lane.succeed(batch, offset, -1)
        elif what == "refuse":
            lane.refuse(batch, ErrorCode.NOT_LEADER_OR_FOLLOWER, None)
        else:
            cut = True
            lane.lose(batch)
