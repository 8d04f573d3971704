"""The arithmetic of majorities: who has won a vote, and which offset is safe. Pure.

Must never: count anybody twice, or anybody who is not a voter.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bifrost.types import NodeId


def majority(voters: int) -> int:
    """How many of them it takes, so that any two majorities share a member."""
    return voters // 2 + 1


def committed_offset(end_offsets: Sequence[int]) -> int:
    """The largest offset that a majority of voters, of whom these are the end offsets, has reached."""
    return sorted(end_offsets, reverse=True)[majority(len(end_offsets)) - 1]


class Tally:
    """The votes of one election, or of the question before it. The first answer of each voter counts."""

    __slots__ = ("_answers", "_needed")

    def __init__(self, voters: Iterable[NodeId], *, granted_by: NodeId) -> None:
        self._answers: dict[NodeId, bool | None] = dict.fromkeys(voters)
        assert granted_by in self._answers, f"{granted_by} is not a voter"
        self._answers[granted_by] = True
        self._needed = majority(len(self._answers))

    def count(self, voter: NodeId, granted: bool) -> None:
        if self._answers.get(voter, False) is None:
            self._answers[voter] = granted

    def is_open(self, voter: NodeId) -> bool:
        """Whether this voter still owes an answer."""
        return self._answers.get(voter, False) is None

    @property
    def is_won(self) -> bool:
        return sum(answer is True for answer in self._answers.values()) >= self._needed

    @property
    def is_lost(self) -> bool:
        """Whether those who still owe an answer could not change the outcome any more."""
        return sum(answer is False for answer in self._answers.values()) > len(self._answers) - self._needed
