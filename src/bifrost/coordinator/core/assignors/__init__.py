"""Who is to read what: the assignors that members may ask for by name (KIP-848, "server-side assignors").

An assignor knows no group, no epoch and no log: subscriptions and present assignments in, new assignments out. Every
partition of every topic that somebody reads is given to exactly one of its readers, whatever else they weigh.
"""

from __future__ import annotations

from typing import Final

from bifrost.coordinator.core.assignors.ranges import assign_ranges
from bifrost.coordinator.core.assignors.subscribers import Assignor
from bifrost.coordinator.core.assignors.uniform import assign_uniformly

ASSIGNORS: Final[dict[str, Assignor]] = {"uniform": assign_uniformly, "range": assign_ranges}
"""The first is the one that a group gets when none of its members asks."""
