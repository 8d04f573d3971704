"""A connection's writes stay in order when leaders change in their midst: what stands behind a failed one waits."""

from __future__ import annotations

import pytest

from bifrost.broker.write_order import FORGOTTEN_AFTER_S, WriteOrder
from bifrost.protocol.batch import SEQUENCE_MASK, ProducerMark
from bifrost.types import NodeId, TopicPartition

TP = TopicPartition("orders", 0)
A, B = NodeId(1), NodeId(2)


def mark(sequence: int, *, epoch: int = 0, producer: int = 7) -> ProducerMark:
    return ProducerMark(producer, epoch, sequence)


@pytest.fixture
def order() -> WriteOrder:
    return WriteOrder()


def test_what_follows_a_failed_write_waits_until_that_comes_again(order: WriteOrder) -> None:
    order.sent(TP, mark(0), A)
    order.sent(TP, mark(5), A)
    order.answered(TP, mark(0), 0.0, comes_again=True)
    assert not order.admits(TP, mark(9), B, 1.0)
    order.answered(TP, mark(5), 1.0, comes_again=True)
    assert not order.admits(TP, mark(5), B, 1.0), "0 has not come again"
    assert order.admits(TP, mark(0), B, 2.0)
    assert order.admits(TP, mark(5), B, 2.0)
    assert len(order) == 0


def test_nothing_goes_to_another_leader_while_the_last_one_has_not_answered(order: WriteOrder) -> None:
    order.sent(TP, mark(0), A)
    assert order.admits(TP, mark(5), A, 0.0)
    order.sent(TP, mark(5), A)
    assert not order.admits(TP, mark(9), B, 0.0)
    order.answered(TP, mark(0), 0.0, comes_again=False)
    order.answered(TP, mark(5), 0.0, comes_again=False)
    assert not order.admits(TP, mark(12), B, 0.0), "9 was refused"
    assert order.admits(TP, mark(9), B, 0.0)


def test_a_write_that_failed_here_holds_back_those_behind_it(order: WriteOrder) -> None:
    order.failed(TP, mark(5), 0.0)
    order.failed(TP, mark(0), 0.0)
    order.failed(TP, mark(9), 0.0)
    assert not order.admits(TP, mark(5), B, 0.0)
    assert order.admits(TP, mark(0), B, 0.0)


def test_a_write_that_has_come_again_before_its_first_try_has_failed_holds_nobody_back(order: WriteOrder) -> None:
    """Its producer was told that it timed out while its leader still had it."""
    order.sent(TP, mark(0), A)
    assert order.admits(TP, mark(0), A, 1.0)
    order.sent(TP, mark(0), A)
    order.answered(TP, mark(0), 2.0, comes_again=True)
    assert not order.admits(TP, mark(5), A, 2.0), "the second may fail, too"
    order.answered(TP, mark(0), 3.0, comes_again=False)
    assert order.admits(TP, mark(5), A, 3.0)
    assert len(order) == 0


def test_others_are_not_held_back(order: WriteOrder) -> None:
    order.failed(TP, mark(0), 0.0)
    assert order.admits(TP, None, B, 0.0)
    assert order.admits(TP, mark(5, producer=8), B, 0.0)
    assert order.admits(TopicPartition("orders", 1), mark(5), B, 0.0)
    assert order.admits(TP, mark(0, epoch=1), B, 0.0), "a new epoch begins anew"


def test_what_no_producer_sends_again_holds_nobody_back(order: WriteOrder) -> None:
    order.sent(TP, mark(0), A)
    order.answered(TP, mark(0), 0.0, comes_again=False)
    assert len(order) == 0
    assert order.admits(TP, mark(5), B, 0.0)


def test_a_producer_that_has_given_up_goes_on_after_a_while(order: WriteOrder) -> None:
    order.failed(TP, mark(0), 0.0)
    assert not order.admits(TP, mark(5), B, FORGOTTEN_AFTER_S - 1)
    assert order.admits(TP, mark(5), B, FORGOTTEN_AFTER_S)


def test_sequences_wrap_around(order: WriteOrder) -> None:
    order.failed(TP, mark(SEQUENCE_MASK), 0.0)
    assert not order.admits(TP, mark(0), B, 0.0)
    assert order.admits(TP, mark(SEQUENCE_MASK - 1), B, 0.0)
