"""Deadlines and pauses, on a clock that is told what time it is."""

from __future__ import annotations

import pytest

from bifrost.client.wire.patience import Backoff, Deadline


def test_a_deadline_passes() -> None:
    now = [100.0]
    deadline = Deadline(5, lambda: now[0])
    sooner, later = deadline.at_most(2), deadline.at_most(60)
    assert (sooner.remaining_s(), later.remaining_s(), deadline.passed) == (2, 5, False)
    now[0] = 103.0
    assert (sooner.remaining_s(), sooner.passed, later.remaining_s()) == (0, True, 2)
    now[0] = 105.0
    assert (deadline.passed, deadline.remaining_s()) == (True, 0)


def test_messages_tell_what_was_allowed_and_not_what_was_left_of_it() -> None:
    now = [100.0]
    deadline = Deadline(0.3, lambda: now[0])
    now[0] = 100.003
    assert (deadline.at_most(30).seconds, deadline.at_most(0.1).seconds) == (0.3, 0.1)


def test_pauses_double_up_to_a_limit_and_start_again() -> None:
    backoff = Backoff(100, 500, lambda low, high: (low + high) / 2)
    assert [backoff.next_s() for _ in range(5)] == pytest.approx([0.1, 0.2, 0.4, 0.5, 0.5])
    backoff.reset()
    assert backoff.next_s() == pytest.approx(0.1)


def test_pauses_are_a_little_off() -> None:
    backoff = Backoff(100, 100)
    pauses = {backoff.next_s() for _ in range(50)}
    assert len(pauses) > 1
    assert all(0.08 <= pause <= 0.12 for pause in pauses)
