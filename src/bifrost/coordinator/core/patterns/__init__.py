"""Regular expressions over topic names, in RE2's syntax and with RE2's promise: time linear in the name.

Anybody who may join a group may send one, so a matcher that backtracks, such as Python's own, would let anybody stop
the node with one line. `syntax` reads and refuses what RE2 refuses, `automaton` matches without ever going back.

Only what a topic can be called counts: a character class is the set of legal characters in it.
"""

from __future__ import annotations

from bifrost.coordinator.core.patterns.automaton import Pattern
from bifrost.coordinator.core.patterns.syntax import InvalidPatternError, parse


def compile_pattern(text: str) -> Pattern:
    """Ready to match; InvalidPatternError says what is wrong with it."""
    return Pattern(parse(text))


__all__ = ["InvalidPatternError", "Pattern", "compile_pattern"]
