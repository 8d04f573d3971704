"""Tells at the end of a run which blocks of the documentation were run, which only read, and which not and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.docs.blocks import Block

PROPERTY = "blocks of the documentation"


@pytest.fixture
def note(record_property: pytest.RecordProperty, request: pytest.FixtureRequest) -> Iterator[list[Block]]:
    """A list for the blocks that a test has dealt with."""
    told: list[Block] = []
    yield told
    record_property(PROPERTY, [(each.page, each.line, each.kind, each.fate, each.reason) for each in told])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    told = {
        tuple(block)
        for reports in terminalreporter.stats.values()
        for report in reports
        for name, value in getattr(report, "user_properties", ())
        if name == PROPERTY
        for block in value
    }
    if not told:
        return
    terminalreporter.section("documentation")
    by_page: dict[str, list[tuple[int, str, str, str | None]]] = {}
    for page, line, kind, fate, reason in sorted(told, key=lambda block: block[:2]):
        by_page.setdefault(page, []).append((line, kind, fate, reason))
    for page, found in by_page.items():
        for fate in ("run", "compared", "read", "shown"):
            lines = [f"{line} {kind}" for line, kind, its_fate, _ in found if its_fate == fate]
            if lines:
                terminalreporter.write_line(f"{page} {fate}: {', '.join(lines)}")
        for line, kind, fate, reason in found:
            if fate == "not run":
                terminalreporter.write_line(f"{page} not run: {line} {kind}: {reason}")
    counts = Counter(fate for found in by_page.values() for _, _, fate, _ in found)
    terminalreporter.write_line(", ".join(f"{count} blocks {fate}" for fate, count in counts.most_common()))
