"""Matches a name against a pattern by knowing, after each character, every place in the pattern that one could be at.

Sets of places that have come up are kept with where they led to, so that most characters cost one dictionary lookup.
Both the pattern's size and what is kept are bounded: a name of n characters costs at most n walks over the pattern.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from bifrost.coordinator.core.patterns.characters import WORD
from bifrost.coordinator.core.patterns.syntax import (
    Choice,
    InvalidPatternError,
    Node,
    OneOf,
    Place,
    Repeat,
    Sequence,
)

STATES_MAX: Final = 1500
KEPT_MAX: Final = 1000
_STEPS_MAX: Final = 20 * STATES_MAX
"""Of building: repetitions of nothing make no states, and still take time."""


class _Side(Enum):
    """What stands to one side of a place in a name."""

    EDGE = auto()
    WORD = auto()
    OTHER = auto()


class _Kept:
    """Where one may be after some characters, and what is known about going on from there."""

    __slots__ = ("accepts", "before", "moves", "states")

    def __init__(self, states: frozenset[int], before: _Side) -> None:
        self.states, self.before = states, before
        self.moves: dict[str, _Kept] = {}
        self.accepts: bool | None = None


class Pattern:
    """A regular expression that is matched as a whole."""

    def __init__(self, root: Node) -> None:
        self._characters: list[frozenset[str]] = []  # what leads on from a state, if anything does
        self._places: list[Place | None] = []  # what must hold for a state to be left without a character
        self._out: list[tuple[int, ...]] = []
        self._steps = 0
        accept = self._state()
        self._accept = accept
        self._start = frozenset([self._build(root, accept)])
        self._kept: dict[tuple[frozenset[int], _Side], _Kept] = {}

    def matches(self, name: str) -> bool:
        now = self._keep(self._start, _Side.EDGE)
        for character in name:
            after = now.moves.get(character)
            if after is None:
                after = now.moves[character] = self._move(now, character)
            if not after.states:
                return False
            now = after
        if now.accepts is None:
            now.accepts = self._accept in self._reachable(now.states, now.before, _Side.EDGE)
        return now.accepts

    def _keep(self, states: frozenset[int], before: _Side) -> _Kept:
        kept = self._kept.get((states, before))
        if kept is None:
            if len(self._kept) >= KEPT_MAX:
                self._kept.clear()
            kept = self._kept[states, before] = _Kept(states, before)
        return kept

    def _move(self, now: _Kept, character: str) -> _Kept:
        after = _Side.WORD if character in WORD else _Side.OTHER
        reached = self._reachable(now.states, now.before, after)
        return self._keep(
            frozenset(self._out[state][0] for state in reached if character in self._characters[state]), after
        )

    def _reachable(self, states: frozenset[int], before: _Side, after: _Side) -> set[int]:
        """The states that can be reached without a character, at a place between `before` and `after`."""
        found = set(states)
        pending = list(states)
        while pending:
            state = pending.pop()
            if self._characters[state] or not _holds(self._places[state], before, after):
                continue
            for out in self._out[state]:
                if out not in found:
                    found.add(out)
                    pending.append(out)
        return found

    def _state(self, *out: int, characters: frozenset[str] = frozenset(), place: Place | None = None) -> int:
        if len(self._out) >= STATES_MAX:
            raise InvalidPatternError("it is too large")
        self._characters.append(characters)
        self._places.append(place)
        self._out.append(out)
        return len(self._out) - 1

    def _build(self, node: Node, then: int) -> int:
        """Makes the states of `node`, from which one goes on to `then`; returns the first of them."""
        self._steps += 1
        if self._steps > _STEPS_MAX:
            raise InvalidPatternError("it is too large")
        match node:
            case OneOf(characters):
                # A state without a way out is where nothing matches.
                return self._state(then, characters=characters) if characters else self._state()
            case Place():
                return self._state(then, place=node)
            case Sequence(parts):
                for part in reversed(parts):
                    then = self._build(part, then)
                return then
            case Choice(parts):
                return self._state(*[self._build(part, then) for part in parts])
            case Repeat(part, low, high):
                return self._build_repeat(part, low, high, then)

    def _build_repeat(self, part: Node, low: int, high: int | None, then: int) -> int:
        if high is None:
            loop = self._state()
            self._out[loop] = (self._build(part, loop), then)
            first = loop
        else:
            first = then
            for _ in range(high - low):
                first = self._state(self._build(part, first), then)
        for _ in range(low):
            first = self._build(part, first)
        return first


def _holds(place: Place | None, before: _Side, after: _Side) -> bool:
    match place:
        case Place.START:
            return before is _Side.EDGE
        case Place.END:
            return after is _Side.EDGE
        case Place.WORD_EDGE:
            return (before is _Side.WORD) != (after is _Side.WORD)
        case Place.NO_WORD_EDGE:
            return (before is _Side.WORD) == (after is _Side.WORD)
        case None:
            return True
