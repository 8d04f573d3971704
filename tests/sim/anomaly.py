"""What a checker returns."""

from __future__ import annotations

from typing import NamedTuple


class Anomaly(NamedTuple):
    """A broken promise: which one, where, and what shows it."""

    kind: str
    where: str
    evidence: str

    def __str__(self) -> str:
        return f"{self.kind} in {self.where}: {self.evidence}"
