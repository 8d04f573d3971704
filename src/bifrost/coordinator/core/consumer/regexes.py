"""Finds out which topics the regular expressions of a group mean, a little at a time. Kafka: TopicRegexResolver.

The answer is not waited for: members join with what they have, and the group moves on when it is known, as in Kafka,
where another thread does it. Here it is done in slices of a few milliseconds, between which everybody has a turn.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Final

from bifrost.coordinator.core.consumer.group import ConsumerGroup
from bifrost.coordinator.core.environment import Environment
from bifrost.coordinator.core.patterns import InvalidPatternError, Pattern, compile_pattern
from bifrost.errors import ApiError, ErrorCode

SLICE_MS: Final = 5

Found = dict[str, set[str]]


def check_regex(regex: str) -> None:
    """Raises what Kafka answers to an expression that nobody can match."""
    try:
        compile_pattern(regex)
    except InvalidPatternError as error:
        raise ApiError(ErrorCode.INVALID_REGULAR_EXPRESSION, f"`{regex}`: {error}") from error


class Resolver:
    """Every search of one shard that is under way, at most one for each group."""

    def __init__(self, environment: Environment, on_found: Callable[[str, Found], None]) -> None:
        self._environment = environment
        self._on_found = on_found

    def is_busy_with(self, group_id: str) -> bool:
        return ("regexes", group_id) in self._environment.deadlines

    def start(self, group: ConsumerGroup) -> None:
        """What is found goes to `on_found` later."""
        search = _Search(sorted(group.regexes()), list(self._environment.topics.names()))
        self._run_next(group.group_id, search, self._environment.monotonic_ms())

    def _run_next(self, group_id: str, search: _Search, at_ms: int) -> None:
        self._environment.deadlines.set(("regexes", group_id), at_ms, lambda: self._run(group_id, search))

    def _run(self, group_id: str, search: _Search) -> None:
        monotonic_ms = self._environment.monotonic_ms
        end_ms = monotonic_ms() + SLICE_MS
        while monotonic_ms() < end_ms:
            if search.go_on():
                self._on_found(group_id, search.found)
                return
        # One millisecond later, so that whoever runs deadlines gets out of its loop.
        self._run_next(group_id, search, monotonic_ms() + 1)


class _Search:
    """What is still to be tried, and what was found by then."""

    def __init__(self, regexes: list[str], names: list[str]) -> None:
        self.found: Found = {regex: set() for regex in regexes}
        patterns = [(pattern, self.found[regex]) for regex in regexes if (pattern := _compile(regex)) is not None]
        self._pending = product(names, patterns)

    def go_on(self) -> bool:
        """Tries one name against one pattern, which may be as large as patterns get; True if that was the last."""
        for name, (pattern, found) in self._pending:
            if pattern.matches(name):
                found.add(name)
            return False
        return True


def _compile(regex: str) -> Pattern | None:
    """None for what was accepted once and is not any more, by a log from elsewhere: it means no topic."""
    try:
        return compile_pattern(regex)
    except InvalidPatternError:
        return None
