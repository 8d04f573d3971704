"""A peer that does not read its answers is not read from, and what waits for it stays small."""

from __future__ import annotations

import pytest

from tests.unit.broker.stand_ins import FETCH, METADATA, PRODUCE, Client, on_loop, request

MEGABYTE = 1 << 20
HIGH = MEGABYTE
"""Unsent bytes from which on a connection starts no request."""


@pytest.mark.parametrize("api_key", [FETCH, METADATA])
@on_loop
async def test_a_peer_that_never_reads_costs_little_more_than_one_answer(api_key: int) -> None:
    client = Client(room=0)
    client.script.answer_bytes = 3 * MEGABYTE
    client.sends(*(request(api_key, f"ask {number}") for number in range(2000)))
    assert client.script.started == ["ask 0"]
    assert client.peer.unsent_max <= HIGH + 3 * MEGABYTE + 4
    assert client.peer.reading_paused


@on_loop
async def test_small_answers_pile_up_to_the_limit_and_no_further() -> None:
    client = Client(room=0)
    client.script.answer_bytes = 10_000
    client.sends(*(request(FETCH, f"ask {number}") for number in range(2000)))
    assert client.peer.unsent_max <= HIGH + 10_004
    assert 100 <= len(client.script.started) <= 106


@on_loop
async def test_writes_whose_answers_nobody_reads_are_not_taken_for_ever() -> None:
    client = Client(room=0, max_pipelined=10)
    frame = request(PRODUCE, "x" * 100_000)
    while not client.peer.reading_paused:
        client.sends(frame)
    assert client.peer.unsent_max <= HIGH + 2 * len(frame)
    assert len(client.script.started) <= HIGH // 100_000 + 2


@on_loop
async def test_when_the_peer_reads_again_everything_goes_on_in_order() -> None:
    client = Client(room=0)
    client.script.answer_bytes = MEGABYTE
    client.sends(*(request(FETCH, f"ask {number}") for number in range(50)))
    reads = 0
    while len(client.peer.received) < 50 * (MEGABYTE + 4):
        client.peer.read(300_000)
        reads += 1
        assert reads < 1000
        assert len(client.peer.unsent) <= 2 * HIGH + 4
    assert client.texts == [f"ask {number}" for number in range(50)]
    assert not client.peer.reading_paused
    assert client.pool.in_use_bytes == 0


@on_loop
async def test_an_answer_that_gets_ready_while_the_peer_does_not_read_starts_nothing_new() -> None:
    client = Client(room=0)
    client.script.answer_bytes = 2 * MEGABYTE
    client.sends(request(FETCH, "later"), request(FETCH, "big"), request(FETCH, "waits"))
    client.script.finish("later")
    assert client.script.started == ["later", "big"]
    client.peer.read(1 << 40)
    assert client.texts == ["later", "big", "waits"]


@on_loop
async def test_how_much_may_lie_unsent_is_a_setting() -> None:
    client = Client(room=0, max_unsent_bytes=50_000)
    client.script.answer_bytes = 10_000
    client.sends(*(request(FETCH, f"ask {number}") for number in range(100)))
    assert len(client.script.started) == 5
