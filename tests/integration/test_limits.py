"""No client makes a node take more memory than its settings allow, and the others are served meanwhile."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator

import pytest

from tests.integration.limits import MEGABYTE, SMALL_SLICES, Victim, idle, never_finish, never_read, victim

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="resident memory is read from /proc"),
    pytest.mark.xdist_group("limits"),
]


@pytest.fixture(scope="module")
def target() -> Iterator[Victim]:
    with victim() as running:
        yield running


def test_consumers_that_never_read_cost_no_memory_where_data_is_sent_from_files(target: Victim) -> None:
    cost = target.cost_of(never_read("large", 1, connections=20, requests=100))
    assert cost.peak - cost.before < 10 * MEGABYTE, "20 of them asked for 2 GB"


def test_consumers_that_never_read_cost_one_answer_and_what_may_lie_unsent(target: Victim) -> None:
    cost = target.cost_of(never_read("small", SMALL_SLICES, connections=10, requests=100))
    assert cost.peak - cost.before < 10 * 3 * MEGABYTE, "10 of them asked for 1 GB"


def test_frames_that_never_end_cost_what_has_arrived_of_them(target: Victim) -> None:
    cost = target.cost_of(never_finish(connections=200, announced=100 * MEGABYTE, sent=1024))
    assert cost.peak - cost.before < 10 * MEGABYTE, "200 of them announced 20 GB"


def test_frames_that_never_end_are_dropped_when_they_take_too_much_together() -> None:
    with victim(queued_max_request_bytes=16 * MEGABYTE) as target:
        cost = target.cost_of(never_finish(connections=30, announced=100 * MEGABYTE, sent=4 * MEGABYTE))
    assert cost.peak - cost.before < (16 + 32 + 16) * MEGABYTE, "the bound, what is kept, and one that grows"


def test_idle_connections_cost_little(target: Victim) -> None:
    count = min(1000, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 200)
    cost = target.cost_of(idle(count))
    assert cost.growth / count < 8 * 1024
