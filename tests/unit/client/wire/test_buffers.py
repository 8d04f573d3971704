"""Buffers come back when nobody sees them, and never before."""

from __future__ import annotations

from bifrost.client.wire.buffers import KEPT_MAX, BufferPool


def test_a_buffer_is_used_again_once_its_views_are_gone() -> None:
    pool = BufferPool()
    first = pool.take(1000)
    assert len(first) >= 1000
    view = memoryview(first)[10:20]
    second = pool.take(1000)
    assert second is not first
    part = view[2:4].cast("b")
    view.release()
    del view
    assert pool.take(1000) is second, "a view of a view counts"
    held = memoryview(second)
    del part
    assert pool.take(1000) is first
    held.release()


def test_what_is_too_small_is_not_given() -> None:
    pool = BufferPool()
    small = pool.take(10)
    large = pool.take(1_000_000)
    assert len(large) >= 1_000_000
    assert pool.take(1_000_000) is large
    assert pool.take(10) in (small, large)


def test_only_so_many_are_kept() -> None:
    pool = BufferPool()
    held = [memoryview(pool.take(100)) for _ in range(KEPT_MAX + 3)]
    assert len({id(view.obj) for view in held}) == KEPT_MAX + 3
    assert len(pool._kept) == KEPT_MAX
