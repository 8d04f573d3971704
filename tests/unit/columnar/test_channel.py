"""Record batches from many threads to one: bounded, in order, with the failures of any of them."""

from __future__ import annotations

import threading

import pytest

from bifrost.columnar.channel import Channel
from tests.waiting import eventually


def test_items_come_in_order_and_end_when_every_sender_has() -> None:
    channel: Channel[int] = Channel(room=10, senders=2)
    for numbers in ([1, 2], [3]):
        with channel.sending():
            for number in numbers:
                assert channel.put(number)
    assert [channel.get() for _ in range(4)] == [1, 2, 3, None]


def test_a_sender_waits_for_room() -> None:
    channel: Channel[int] = Channel(room=2, senders=1)
    put: list[int] = []

    def send() -> None:
        with channel.sending():
            for number in range(5):
                channel.put(number)
                put.append(number)

    thread = threading.Thread(target=send)
    thread.start()
    eventually(lambda: len(put) == 2)
    assert channel.get() == 0
    eventually(lambda: len(put) == 3)
    assert [channel.get() for _ in range(5)] == [1, 2, 3, 4, None]
    thread.join()


def test_what_a_sender_fails_with_is_raised_behind_what_it_sent() -> None:
    channel: Channel[int] = Channel(room=2, senders=2)
    with channel.sending():
        channel.put(1)
        raise ValueError("broken")
    assert channel.get() == 1
    with pytest.raises(ValueError, match="broken"):
        channel.get()


def test_a_sender_who_waits_is_let_go_when_the_receiver_leaves() -> None:
    channel: Channel[int] = Channel(room=1, senders=1)
    taken: list[bool] = []
    thread = threading.Thread(target=lambda: taken.extend([channel.put(1), channel.put(2)]))
    thread.start()
    eventually(lambda: taken or thread.is_alive())
    channel.close()
    thread.join()
    assert taken[-1] is False
    assert channel.closed
    assert channel.get() is None
