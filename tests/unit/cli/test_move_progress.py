"""What people see of moves: a bar that never shrinks, and words that are true."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bifrost.cli.move_progress import Bar, Lines, words
from bifrost.client.moves.run import AT_ONCE, MoveRun, Progress
from bifrost.types import TopicPartition
from tests.unit.client.moves.paper_cluster import PaperCluster

T0 = TopicPartition("t", 0)


def test_words_tell_what_is_left_and_who_is_awaited() -> None:
    assert words(Progress(1, 1, 0)) == "1 of 1 partition left"
    assert words(Progress(12, 5, 1_234_567)) == "5 of 12 partitions left, 1 MB to copy"
    assert words(Progress(2, 1, 999, (3, 4))) == "1 of 2 partitions left, 999 B to copy, waiting for broker 3,4"
    assert words(Progress(1, 1, 2_500_000_000_000)) == "1 of 1 partition left, 2.5 TB to copy"


def test_the_bar_of_one_large_partition_grows_with_its_bytes() -> None:
    bar, seen = Bar(), []
    for left in (1000, 750, 250, 0):
        bar.update(Progress(1, 1, left))
        seen.append(bar.completed)
    assert seen == [0, 0.25, 0.75, 0.95], "it is not over when all is copied"
    bar.update(Progress(1, 0, 0))
    assert bar.completed == bar.total == 1


def test_what_only_changes_its_replicas_counts_by_partitions() -> None:
    bar = Bar()
    for left in (4, 3, 1):
        assert bar.update(Progress(4, left, 0)) == f"{left} of 4 partitions left"
        assert bar.completed == 4 - left


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 1 << 40)), max_size=30))
def test_the_bar_never_shrinks_and_never_runs_over(told: list[tuple[int, int]]) -> None:
    bar, before = Bar(), 0.0
    for partitions_left, bytes_left in told:
        bar.update(Progress(20, partitions_left, bytes_left))
        assert before <= bar.completed <= bar.total == 20
        before = bar.completed


def test_where_there_is_no_terminal_bytes_alone_are_no_news() -> None:
    lines = Lines()
    told = [Progress(2, 2, 900), Progress(2, 2, 500), Progress(2, 2, 500, (1,)), Progress(2, 1, 100), Progress(2, 1, 0)]
    assert [lines.update(each) for each in told] == [
        "2 of 2 partitions left, 900 B to copy",
        None,
        "2 of 2 partitions left, 500 B to copy, waiting for broker 1",
        "1 of 2 partitions left, 100 B to copy",
        None,
    ]


def test_bytes_are_those_that_new_replicas_lack() -> None:
    cluster = PaperCluster(3, {T0: (0, 1)})
    cluster.sizes = {0: {T0: 1000}, 2: {T0: 400}}
    run = MoveRun(cluster.admin, {T0: (0, 2)})
    assert run.step() == Progress(1, 1, 600)
    cluster.away = {2}
    assert run.step() == Progress(1, 1, 600, (2,))
    cluster.arrive()
    assert run.step() == Progress(1, 0, 0)


def test_moves_begin_as_others_end_and_whoever_looks_again_goes_on() -> None:
    partitions = [TopicPartition("t", index) for index in range(AT_ONCE + 20)]
    cluster = PaperCluster(2, dict.fromkeys(partitions, (0,)))
    run = MoveRun(cluster.admin, dict.fromkeys(partitions, (1,)))
    assert run.step() == Progress(AT_ONCE + 20, AT_ONCE + 20, 0)
    assert len(run.begun) == AT_ONCE
    cluster.arrive(*partitions[:15])
    assert run.step().partitions_left == AT_ONCE + 5
    assert len(run.begun) == AT_ONCE + 15
    moving = {tp: place for tp, place in cluster.places.items() if place.is_moving}
    again = MoveRun(cluster.admin, {}, watched=moving)
    assert again.step() == Progress(AT_ONCE, AT_ONCE, 0)
    cluster.arrive()
    assert again.step().is_over
    assert run.step().partitions_left == 5
