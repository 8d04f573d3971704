"""How long to fuzz, from which seed, with which kept cases; and how to keep another one."""

from __future__ import annotations

import os
import random
import time
import traceback
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

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


TRACED = 0.1
"""Tracing makes a case ten times slower: one in ten is."""
ALLOCATED_PER_CASE = 100_000
ALLOCATED_PER_BYTE = 200


def check(work: Callable[[bytes], object], data: bytes, refused: tuple[type[Exception], ...], *, traced: bool) -> None:
    """Whatever the bytes are, they are understood or refused, and in memory that is in proportion to them."""
    if traced:
        tracemalloc.start()
    try:
        work(data)
    except refused:
        pass
    except BaseException:  # noqa: BLE001  # what it is, is what this test is about
        pytest.fail(report(traceback.format_exc(), data))
    finally:
        peak = tracemalloc.get_traced_memory()[1] if traced else 0
        tracemalloc.stop()
    if peak > ALLOCATED_PER_CASE + ALLOCATED_PER_BYTE * len(data):
        pytest.fail(report(f"{peak} bytes allocated for {len(data)}", data))
