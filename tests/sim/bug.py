"""What `planted` has to say of each bug."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple


class Bug(NamedTuple):
    """How to plant it, and the kind of run that shows it."""

    plant: Callable[[], AbstractContextManager[Any]]
    policy: str
    faults: tuple[str, ...]
    shown_by: tuple[str, ...]
    """Anomalies of which at least one is seen."""
    groups: tuple[str, ...] = ()
    """The kinds of groups that take part."""
    is_compacted: bool = False
    """Whether topics are compacted; then nobody else takes part."""
