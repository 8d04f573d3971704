"""One connection: who is answered when, and how it ends."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bifrost.broker.receive import BufferPool
from tests.unit.broker.stand_ins import (
    FETCH,
    LIST_OFFSETS,
    METADATA,
    OFFSET_COMMIT,
    PRODUCE,
    Client,
    Script,
    on_loop,
    request,
    turns,
)


@on_loop
async def test_answers_leave_in_the_order_of_their_requests() -> None:
    client = Client()
    client.sends(*(request(PRODUCE, f"later{number}") for number in range(3)))
    client.script.finish("later2")
    client.script.finish("later1")
    assert client.texts == []
    client.script.finish("later0")
    assert client.texts == ["later0", "later1", "later2"]


@on_loop
async def test_an_answer_that_is_ready_at_once_waits_for_those_before_it() -> None:
    client = Client()
    client.sends(request(PRODUCE, "later"), request(PRODUCE, "at once"))
    assert (client.script.started, client.texts) == (["later", "at once"], [])
    client.script.finish("later")
    assert client.texts == ["later", "at once"]


@pytest.mark.parametrize("api_key", [PRODUCE, OFFSET_COMMIT])
@on_loop
async def test_writes_follow_each_other_before_the_first_is_answered(api_key: int) -> None:
    client = Client()
    client.sends(*(request(api_key, f"later{number}") for number in range(5)))
    assert len(client.script.started) == 5


@on_loop
async def test_answers_that_become_ready_together_share_a_write() -> None:
    client = Client()
    client.sends(*(request(PRODUCE, f"later{number}") for number in range(3)))
    for number in range(3):
        client.script.finish(f"later{number}")
    assert client.texts == ["later0", "later1", "later2"], "the last of them does not wait for the loop"
    assert client.peer.writes == 1
    await turns()
    assert client.peer.writes == 1


@on_loop
async def test_an_answer_does_not_wait_for_one_that_is_long_in_coming() -> None:
    client = Client()
    client.sends(request(PRODUCE, "later0"), request(PRODUCE, "later1"))
    client.script.finish("later0")
    await turns()
    assert client.texts == ["later0"]


@pytest.mark.parametrize(
    ("first", "second"),
    [(PRODUCE, FETCH), (FETCH, PRODUCE), (FETCH, FETCH), (METADATA, LIST_OFFSETS), (OFFSET_COMMIT, FETCH)],
)
@on_loop
async def test_any_other_pair_of_requests_is_served_one_after_the_other(first: int, second: int) -> None:
    client = Client()
    client.sends(request(first, "later1"), request(second, "later2"))
    assert client.script.started == ["later1"]
    client.script.finish("later1")
    assert client.script.started == ["later1", "later2"]
    client.script.finish("later2")
    assert client.texts == ["later1", "later2"]


@on_loop
async def test_a_request_that_waits_its_turn_is_not_lost_with_the_shared_buffer() -> None:
    pool = BufferPool(limit_bytes=1 << 30)
    one, two = Client(pool=pool), Client(pool=pool)
    one.sends(request(FETCH, "later"), request(FETCH, "waits"), request(FETCH, "waits too"))
    two.sends(request(FETCH, "x" * 500))
    one.script.finish("later")
    assert one.texts == ["later", "waits", "waits too"]
    assert pool.in_use_bytes == 0


@on_loop
async def test_no_more_than_the_allowed_writes_are_under_way() -> None:
    client = Client(max_pipelined=3)
    client.sends(*(request(PRODUCE, f"later{number}") for number in range(5)))
    assert client.script.started == ["later0", "later1", "later2"]
    assert client.peer.reading_paused
    client.script.finish("later0")
    await turns()
    assert client.script.started == ["later0", "later1", "later2", "later3"]
    for number in range(1, 5):
        client.script.finish(f"later{number}")
    assert client.texts == [f"later{number}" for number in range(5)]
    assert not client.peer.reading_paused


@on_loop
async def test_reading_stops_while_a_whole_request_waits_and_not_before() -> None:
    client = Client()
    client.sends(request(FETCH, "later"))
    assert not client.peer.reading_paused, "or nobody would notice that the peer has gone"
    client.sends(request(FETCH, "waits"))
    assert client.peer.reading_paused
    client.script.finish("later")
    assert not client.peer.reading_paused


@on_loop
async def test_a_request_that_wants_no_answer_gets_none() -> None:
    client = Client()
    client.sends(request(PRODUCE, "silent1"), request(PRODUCE, "later"), request(PRODUCE, "silent2"))
    client.sends(request(PRODUCE, "last"))
    client.script.finish("later")
    assert client.script.started == ["silent1", "later", "silent2", "last"]
    assert client.texts == ["later", "last"]


@on_loop
async def test_nonsense_closes_after_what_was_answered_is_sent() -> None:
    client = Client(room=10)
    client.sends(request(METADATA, "good"), request(METADATA, "bad bytes"), request(METADATA, "never seen"))
    assert client.script.started == ["good", "bad bytes"]
    assert client.metrics.protocol_errors == 1
    await turns()
    assert client.closed == [] or client.texts == ["good"]
    client.peer.read(1000)
    await turns()
    assert client.texts == ["good"]
    assert client.closed == ["ProtocolError: bad bytes"]


@on_loop
async def test_an_absurd_length_closes_after_what_was_answered_is_sent() -> None:
    client = Client()
    client.sends(request(METADATA, "good"), struct.pack(">i", -5), b"whatever")
    await turns()
    assert client.texts == ["good"]
    assert client.metrics.protocol_errors == 1
    assert client.peer.is_closing()


@on_loop
async def test_a_failed_request_closes_after_what_was_answered_is_sent() -> None:
    class Failing(Script):
        def dispatch(self, connection, frame):  # type: ignore[no-untyped-def]
            if bytes(frame[8:]) == b"fails":
                connection.fail(ValueError("no"))
                return None
            return super().dispatch(connection, frame)

    client = Client(Failing())
    client.sends(request(PRODUCE, "good"), request(PRODUCE, "fails"), request(PRODUCE, "never seen"))
    await turns()
    assert client.texts == ["good"]
    assert client.closed == ["ValueError: no"]


@on_loop
async def test_an_answer_that_cannot_be_given_closes_the_connection() -> None:
    client = Client()
    client.sends(request(FETCH, "later"))
    client.script.replies["later"].fail(RuntimeError("lost"))
    await turns()
    assert client.closed == ["RuntimeError: lost"]


@on_loop
async def test_a_lost_connection_cancels_what_is_under_way_and_gives_its_buffer_back() -> None:
    client = Client()
    client.sends(request(PRODUCE, "later1"), request(PRODUCE, "later2"), request(FETCH, "waits"))
    assert client.pool.in_use_bytes > 0
    client.connection.connection_lost(ConnectionResetError())
    assert client.script.cancelled == ["later1", "later2"]
    assert client.pool.in_use_bytes == 0
    assert client.closed == [None]


@on_loop
async def test_an_answer_that_comes_after_the_connection_is_lost_does_no_harm() -> None:
    client = Client()
    client.sends(request(PRODUCE, "later1"), request(PRODUCE, "later2"), request(FETCH, "waits"))
    client.peer.abort()
    client.script.finish("later1")
    await turns()
    client.script.finish("later2")
    assert client.script.started == ["later1", "later2"]
    assert client.pool.in_use_bytes == 0


@on_loop
async def test_only_the_first_answer_to_a_request_counts() -> None:
    client = Client()
    client.sends(request(FETCH, "later"))
    reply = client.script.replies["later"]
    client.script.finish("later")
    reply.send((b"again",))
    assert client.texts == ["later"]


@on_loop
async def test_a_peer_that_is_not_welcome_is_dropped_at_once() -> None:
    client = Client(accept=False)
    await turns()
    assert client.peer.aborted
    assert client.closed == [None]


@on_loop
async def test_a_peer_that_goes_in_the_middle_of_a_frame_leaves_nothing_behind() -> None:
    client = Client()
    client.sends(request(PRODUCE, "x" * 1000)[:300])
    assert client.pool.in_use_bytes > 0
    assert not client.connection.eof_received()
    client.peer.close()
    await turns()
    assert client.pool.in_use_bytes == 0


@on_loop
async def test_the_connection_that_held_its_buffer_longest_goes_when_memory_is_short() -> None:
    pool = BufferPool(limit_bytes=3 << 20)
    clients = [Client(pool=pool) for _ in range(4)]
    for client in clients:
        client.sends(request(PRODUCE, "x" * (1 << 20))[: 1 << 19])
    assert [client.peer.aborted for client in clients] == [True, False, False, False]
    clients[2].sends(request(PRODUCE, "x" * (1 << 20))[1 << 19 :])
    assert clients[2].texts == ["x" * (1 << 20)]
    await turns()
    assert clients[0].closed == [None]


@on_loop
async def test_bytes_and_the_time_of_the_last_ones_are_noted() -> None:
    client = Client()
    client.connection.last_active = 0.0
    client.sends(request(PRODUCE, "hello"))
    assert client.metrics.bytes_in == len(request(PRODUCE, "hello"))
    assert client.metrics.bytes_out == len(client.peer.received)
    assert client.connection.last_active > 0
    assert client.connection.peer == "10.0.0.1:4711"


KINDS = st.sampled_from(["now", "later", "silent"])
KEYS = st.sampled_from([PRODUCE, PRODUCE, FETCH, METADATA])


@settings(max_examples=150)
@given(
    asked=st.lists(st.tuples(KEYS, KINDS), max_size=12),
    cut=st.integers(1, 60),
    order=st.randoms(use_true_random=False),
    room=st.sampled_from([0, 7, 1 << 40]),
)
def test_whatever_is_ready_when_the_peer_gets_every_answer_in_order(asked, cut, order, room) -> None:  # type: ignore[no-untyped-def]
    @on_loop
    async def run() -> None:
        client = Client(room=room, max_pipelined=3)
        frames = [request(key, f"{kind} {number}") for number, (key, kind) in enumerate(asked)]
        stream = b"".join(frames)
        while len(client.script.started) < len(asked) or client.script.replies or client.peer.unsent:
            steps = ["finish"] * bool(client.script.replies) + ["read"] * bool(client.peer.unsent)
            if stream and not client.peer.reading_paused:
                steps.append("send")
            assert steps, "nothing can ever happen again"
            match order.choice(steps):
                case "finish":
                    client.script.finish(order.choice(list(client.script.replies)))
                case "read":
                    client.peer.read(order.randrange(1, 40))
                case "send":
                    piece, stream = stream[:cut], stream[cut:]
                    stream = client.sends(piece) + stream
        expected = [f"{kind} {number}" for number, (_, kind) in enumerate(asked) if kind != "silent"]
        assert client.texts == expected
        assert client.pool.in_use_bytes == 0

    run()
