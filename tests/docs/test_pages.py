"""Every block of code on every page does what the page says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, Block, blocks, pages
from tests.docs.story import Story

NOT_RUN = {
    "README.md": 4,
    "docs/arrow.md": 1,
    "docs/benchmarks.md": 2,
    "docs/index.md": 1,
    "docs/pipelines.md": 5,
    "docs/quickstart.md": 1,
    "docs/spark.md": 3,
    "docs/testing.md": 1,
}
"""How many blocks a page may leave out, each with its reason above it. Whoever adds one, adds it here too."""

FOUND = {page: blocks(page, (ROOT / page).read_text(encoding="utf-8")) for page in pages()}


@pytest.mark.timeout(600)  # Spark starts in one of them
@pytest.mark.parametrize("page", [page for page, found in FOUND.items() if found])
def test_every_block_does_what_its_page_says(page: str, tmp_path: Path, note: list[Block]) -> None:
    with Story(tmp_path) as story:
        for block in FOUND[page]:
            story.tell(block)
            note.append(block)
        story.finish()


def test_blocks_that_are_not_run_are_counted() -> None:
    counted = {page: sum(block.reason is not None for block in found) for page, found in FOUND.items()}
    assert {page: count for page, count in counted.items() if count} == NOT_RUN
