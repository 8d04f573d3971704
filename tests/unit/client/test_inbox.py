from __future__ import annotations

from bifrost.client.inbox import Inbox
from bifrost.client.message import Message
from bifrost.types import TopicPartition
from tests.unit.client.fetched import fetched

ONE, TWO = TopicPartition("t", 1), TopicPartition("t", 2)


def offsets(inbox: Inbox) -> list[tuple[int | None, int | None]]:
    return [(message.partition(), message.offset()) for message in inbox.queue]


def test_messages_come_out_as_they_came_in() -> None:
    inbox = Inbox()
    inbox.add([*fetched(1, 5), *fetched(2, 8), *fetched(1, 6)])
    assert offsets(inbox) == [(1, 5), (2, 8), (1, 6)]
    assert inbox.first_offsets() == {ONE: 5, TWO: 8}


def test_a_paused_partition_keeps_its_messages_aside_until_it_is_resumed() -> None:
    inbox = Inbox()
    inbox.add([*fetched(1, 5), *fetched(2, 8), *fetched(1, 6)])
    inbox.pause([ONE])
    inbox.pause([ONE])
    inbox.add([*fetched(1, 7), *fetched(2, 9)])
    assert offsets(inbox) == [(2, 8), (2, 9)]
    assert inbox.first_offsets() == {ONE: 5, TWO: 8}
    assert set(inbox.paused) == {ONE}
    inbox.resume([ONE, TWO])
    assert offsets(inbox) == [(2, 8), (2, 9), (1, 5), (1, 6), (1, 7)]


def test_a_partition_that_is_dropped_leaves_nothing_behind() -> None:
    inbox = Inbox()
    inbox.add([*fetched(1, 5), *fetched(2, 8)])
    inbox.pause([TWO])
    inbox.drop({ONE, TWO}, unpause=True)
    assert offsets(inbox) == []
    assert not inbox.paused
    inbox.add(fetched(2, 3))
    assert offsets(inbox) == [(2, 3)]


def test_seeking_in_a_paused_partition_leaves_it_paused() -> None:
    inbox = Inbox()
    inbox.pause([ONE])
    inbox.add(fetched(1, 5))
    inbox.drop({ONE}, unpause=False)
    inbox.add(fetched(1, 2))
    assert offsets(inbox) == []
    inbox.resume([ONE])
    assert offsets(inbox) == [(1, 2)]


def test_what_is_taken_from_the_ready_ones_is_given_out_and_the_rest_stays() -> None:
    inbox = Inbox()
    ready = inbox.ready
    inbox.add([*fetched(1, 5), *fetched(2, 8), *fetched(1, 6)])
    inbox.decoded([Message(raw, None, None) for raw in fetched(1, 5) + fetched(2, 8)])
    inbox.ready.popleft()
    assert offsets(inbox) == [(2, 8), (1, 6)]
    inbox.add(fetched(1, 7))
    inbox.keep()
    assert not inbox.ready
    assert offsets(inbox) == [(2, 8), (1, 6), (1, 7)]
    inbox.decoded([Message(raw, None, None) for raw in fetched(2, 8) + fetched(1, 6)])
    inbox.ready.popleft()
    inbox.drop({ONE}, unpause=True)
    assert not inbox.ready
    assert offsets(inbox) == []
    assert inbox.ready is ready, "iteration holds on to it"
