"""Leader epochs: the rules by which replicas find where their logs part (KIP-101, KIP-279)."""

from __future__ import annotations

import pytest

from bifrost.log.checkpoints import CorruptCheckpointError
from bifrost.log.epochs import LeaderEpochs

END = 100


def epochs(*entries: tuple[int, int]) -> LeaderEpochs:
    cache = LeaderEpochs()
    for epoch, start in entries:
        cache.assign(epoch, start)
    return cache


KNOWN = ((2, 10), (3, 20), (7, 50))


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (7, (7, END)),
        (3, (3, 50)),
        (2, (2, 20)),
        (5, (3, 50)),
        (1, (1, 10)),
        (8, (-1, -1)),
        (-1, (-1, -1)),
    ],
    ids=["latest ends at the log's end", "known", "oldest", "between", "older than all", "unknown", "undefined"],
)
def test_the_end_of_an_epoch(asked: int, answer: tuple[int, int]) -> None:
    assert epochs(*KNOWN).end_offset(asked, END) == answer


def test_without_epochs_nothing_is_known() -> None:
    assert LeaderEpochs().end_offset(0, END) == (-1, -1)
    assert LeaderEpochs().latest == -1
    assert LeaderEpochs().epoch_at(5) == -1


def test_an_epoch_starts_once() -> None:
    cache = epochs((1, 0))
    cache.assign(1, 5)
    assert cache.entries() == [(1, 0)]
    cache.assign(1, 0)
    assert cache.entries() == [(1, 0)]


def test_a_leader_that_wrote_nothing_is_replaced_by_its_successor() -> None:
    assert epochs((1, 0), (2, 10), (3, 10)).entries() == [(1, 0), (3, 10)]


def test_what_contradicts_a_new_epoch_is_forgotten() -> None:
    assert epochs((1, 0), (5, 10), (6, 20), (4, 15)).entries() == [(1, 0), (4, 15)]
    assert epochs((1, 0), (2, 20), (3, 5)).entries() == [(1, 0), (3, 5)]


def test_truncation_from_the_end_drops_epochs_that_start_there_or_later() -> None:
    cache = epochs(*KNOWN)
    cache.truncate_from_end(50)
    assert cache.entries() == [(2, 10), (3, 20)]
    assert cache.latest == 3
    cache.truncate_from_end(49)
    assert cache.entries() == [(2, 10), (3, 20)]
    cache.clear()
    assert cache.entries() == []
    assert cache.latest == -1


@pytest.mark.parametrize(
    ("start", "left"),
    [
        (5, KNOWN),
        (10, KNOWN),
        (15, ((2, 15), (3, 20), (7, 50))),
        (20, ((3, 20), (7, 50))),
        (60, ((7, 60),)),
    ],
)
def test_truncation_from_the_start_moves_the_epoch_that_spans_it(start: int, left: tuple[tuple[int, int], ...]) -> None:
    cache = epochs(*KNOWN)
    cache.truncate_from_start(start)
    assert cache.entries() == list(left)


def test_the_epoch_of_an_offset() -> None:
    cache = epochs(*KNOWN)
    assert [cache.epoch_at(offset) for offset in (9, 10, 19, 20, 50, 99)] == [-1, 2, 2, 3, 7, 7]


def test_changes_are_noted_until_they_are_stored() -> None:
    cache = LeaderEpochs.decode(epochs(*KNOWN).encode())
    assert cache.entries() == list(KNOWN)
    assert not cache.changed
    cache.assign(7, 80)
    cache.truncate_from_end(90)
    cache.truncate_from_start(10)
    assert not cache.changed
    cache.assign(8, 80)
    assert cache.changed


def test_a_damaged_file_is_refused() -> None:
    with pytest.raises(CorruptCheckpointError):
        LeaderEpochs.decode(b"0\n1\nx y\n")
