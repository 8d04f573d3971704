"""Scripts of what happens to a quorum; `script.py` says how to read and to rewrite them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.unit.raft.script import Script

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.txt"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_prints_what_it_says(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    played = Script().play(text)
    if os.environ.get("REWRITE"):
        path.write_text(played, encoding="utf-8")
    assert played == text, "REWRITE=1 writes it anew"


def test_there_are_scripts() -> None:
    assert len(SCRIPTS) > 5
