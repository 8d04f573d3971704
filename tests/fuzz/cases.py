"""How long to fuzz, from which seed, with which kept cases; and how to keep another one."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"
SECONDS = float(os.environ.get("FUZZ_SECONDS", "8"))
"""For all fuzz tests together."""
SEED = os.environ.get("FUZZ_SEED", "0")
"""The same cases in every ordinary run; another seed explores."""


def kept() -> list[Path]:
    """Frames that found something once, or that are hard to find by chance; each is a whole frame."""
    return sorted(CORPUS.glob("*.bin"))


def until(share: float) -> Iterator[random.Random]:
    """Generators for one case each, for this share of the time. The seed of a case is its number after `SEED`."""
    deadline = time.monotonic() + SECONDS * share
    number = 0
    while time.monotonic() < deadline:
        yield random.Random(f"{SEED}-{number}")
        number += 1


def report(problem: str, data: bytes) -> str:
    """What to do about a case that failed."""
    return (
        f"{problem}\nKeep it: bytes.fromhex({data.hex()!r}) into tests/fuzz/corpus/NAME.bin"
        f"\nFind it again: FUZZ_SEED={SEED} pytest tests/fuzz"
    )
