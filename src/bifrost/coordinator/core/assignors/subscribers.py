"""What every assignor is told, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias
from uuid import UUID

Assignment: TypeAlias = Mapping[UUID, frozenset[int]]
"""Partitions by the id of their topic; a topic without partitions is left out."""


class Subscriber(NamedTuple):
    """A member of a group, as an assignor sees it."""

    topics: frozenset[UUID]
    """What it reads, of the topics that exist."""
    assigned: Assignment
    """What it was meant to have until now."""
    instance_id: str | None = None


Assignor: TypeAlias = Callable[[Mapping[str, Subscriber], Mapping[UUID, int]], dict[str, Assignment]]
"""From subscribers by their ids and the number of partitions of each topic; everybody is in the answer."""
