"""Random lives of a group: the promises hold at every step, and each of them catches a bug planted for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bifrost.coordinator.core import assignors
from bifrost.coordinator.core.consumer import changes, commits, heartbeat, reconciliation
from bifrost.coordinator.core.consumer.groups import ConsumerGroups
from bifrost.coordinator.core.consumer.reconciliation import Aim

from .invariants import Broken
from .life import Life

STEPS = 250


@pytest.mark.parametrize("interval_ms", [0, 1_000])
@pytest.mark.parametrize("seed", range(20))
def test_every_promise_holds_at_every_step(seed: int, interval_ms: int) -> None:
    Life(seed, interval_ms).run(STEPS)


Plant = Callable[[pytest.MonkeyPatch], None]


def gives_what_others_own(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(heartbeat, "Aim", lambda epoch, target, topics, taken: Aim(epoch, target, topics, frozenset()))


def takes_silence_for_giving_up(patch: pytest.MonkeyPatch) -> None:
    holds = reconciliation._holds
    patch.setattr(reconciliation, "_holds", lambda owned, held: owned is not None and holds(owned, held))


def forgets_a_partition(patch: pytest.MonkeyPatch) -> None:
    assign = assignors.ASSIGNORS["uniform"]

    def lossy(subscribers: Any, partitions: Any) -> Any:
        found = assign(subscribers, partitions)
        return {member_id: {t: mine[t] - {0} for t in mine if mine[t] - {0}} for member_id, mine in found.items()}

    patch.setitem(assignors.ASSIGNORS, "uniform", lossy)


def counts_backwards(patch: pytest.MonkeyPatch) -> None:
    group_epoch = changes.group_epoch
    patch.setattr(changes, "group_epoch", lambda group_id, epoch, topics: group_epoch(group_id, epoch - 2, topics))


def believes_before_it_is_written(patch: pytest.MonkeyPatch) -> None:
    write = ConsumerGroups._write

    def eager(groups: ConsumerGroups, written: Any, inherited: Any = ()) -> None:
        write(groups, [change for change in written if "TargetAssignmentMetadata" not in type(change[0]).__name__])
        for key, value in written:
            groups.replay(key, value)

    patch.setattr(ConsumerGroups, "_write", eager)


def lets_ghosts_commit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(commits, "check_commit", lambda *arguments: None)


def never_frees_what_the_silent_own(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ConsumerGroups, "_expire", lambda *arguments: None)


@pytest.mark.parametrize(
    ("plant", "promise"),
    [
        (gives_what_others_own, "one owner"),
        (takes_silence_for_giving_up, "give up before others get"),
        (forgets_a_partition, "none without an owner"),
        (counts_backwards, "epochs never go back"),
        (believes_before_it_is_written, "the journal tells all"),
        (lets_ghosts_commit, "commits of the past are refused"),
        (never_frees_what_the_silent_own, "the group comes to rest"),
    ],
)
def test_each_promise_catches_the_bug_planted_for_it(
    plant: Plant, promise: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    caught = set()
    for seed in range(12):
        try:
            Life(seed).run(STEPS)
        except Broken as broken:
            caught.add(str(broken).split(":")[0])
    assert promise in caught
