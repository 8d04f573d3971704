"""The leader's rules: what is committed, who may see it, and what is refused before it is written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bifrost.errors import ApiError, ErrorCode
from bifrost.replication.core.leader import PartitionLeader
from bifrost.types import NodeId

ME = NodeId(1)


def leader(
    *,
    high_watermark: int = 0,
    end: int = 0,
    durable: int = 0,
    isr: tuple[int, ...] = (1,),
    replicas: tuple[int, ...] = (1,),
) -> PartitionLeader:
    return PartitionLeader(
        ME,
        epoch=5,
        replicas=tuple(map(NodeId, replicas)),
        isr=frozenset(map(NodeId, isr)),
        high_watermark=high_watermark,
        log_end_offset=end,
        durable_offset=durable,
    )


def test_what_is_written_but_not_durable_is_not_committed() -> None:
    it = leader()
    assert it.on_append(10, 0).high_watermark is None
    assert it.high_watermark == 0


def test_what_is_durable_is_committed() -> None:
    it = leader()
    it.on_append(10, 0)
    assert it.on_durable(7).high_watermark == 7
    assert it.on_durable(10).high_watermark == 10
    assert it.high_watermark == 10


def test_a_write_that_is_durable_at_once_is_committed_at_once() -> None:
    """Under flush.policy=os the page cache counts."""
    it = leader()
    assert it.on_append(3, 3).high_watermark == 3


def test_a_sync_that_brings_nothing_new_wakes_nobody() -> None:
    it = leader(high_watermark=5, end=5, durable=5)
    assert it.on_durable(5).high_watermark is None
    assert it.on_append(9, 5).high_watermark is None


def test_the_high_watermark_does_not_go_back_with_a_late_report() -> None:
    it = leader(high_watermark=5, end=9, durable=5)
    assert it.on_durable(4).high_watermark is None
    assert it.high_watermark == 5


@pytest.mark.parametrize(
    ("in_sync", "replicas", "needed", "accepted"),
    [
        ((1,), 1, 1, True),
        ((1,), 3, 2, False),
        ((1, 2), 3, 2, True),
        ((1, 2), 3, 3, False),
        ((1,), 1, 2, True),  # a topic with one replica cannot have two in sync (KIP-966)
        ((1, 2, 3), 3, 9, True),
    ],
)
def test_acks_all_needs_enough_replicas_in_sync(
    in_sync: tuple[int, ...], replicas: int, needed: int, accepted: bool
) -> None:
    it = leader(isr=in_sync, replicas=tuple(range(1, replicas + 1)))
    it.on_min_insync_replicas(needed)
    if accepted:
        it.check_replicas()
    else:
        with pytest.raises(ApiError) as refused:
            it.check_replicas()
        assert refused.value.code is ErrorCode.NOT_ENOUGH_REPLICAS


def test_a_leader_is_in_sync_with_itself() -> None:
    with pytest.raises(AssertionError):
        leader(isr=(2, 3))


def test_no_watermark_above_the_log() -> None:
    with pytest.raises(AssertionError):
        leader(high_watermark=6, end=5)


def test_nothing_is_durable_that_was_not_written() -> None:
    with pytest.raises(AssertionError):
        leader(end=5).on_durable(6)


def test_a_log_does_not_get_shorter_under_its_leader() -> None:
    with pytest.raises(AssertionError):
        leader(end=5, durable=5).on_append(4, 4)


@given(
    start=st.integers(0, 20),
    steps=st.lists(st.tuples(st.sampled_from(["append", "durable", "late"]), st.integers(1, 10)), max_size=40),
)
def test_the_high_watermark_never_goes_back_and_never_passes_what_is_durable(
    start: int, steps: list[tuple[str, int]]
) -> None:
    it = leader(high_watermark=start, end=start, durable=start)
    end = durable = start
    seen = start
    for kind, size in steps:
        if kind == "append":
            end += size
            effects = it.on_append(end, durable)
        elif kind == "durable":
            durable = min(end, durable + size)
            effects = it.on_durable(durable)
        else:  # a report that was overtaken by a better one
            effects = it.on_durable(max(0, durable - size))
        assert seen <= it.high_watermark <= durable <= it.log_end_offset
        assert (effects.high_watermark is not None) == (it.high_watermark > seen), "whoever waits is woken exactly then"
        assert effects.high_watermark in (None, it.high_watermark)
        seen = it.high_watermark
    assert seen == durable
