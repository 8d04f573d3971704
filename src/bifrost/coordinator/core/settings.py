"""How patient a group coordinator is, and how much it lets in. Kafka: GroupCoordinatorConfig.

The cores see these numbers only; which setting of the broker each of them comes from is said beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Of all groups; the defaults are Kafka's."""

    min_session_timeout_ms: int = 6_000
    """`group.min.session.timeout.ms`: classic members that ask for less are refused."""
    max_session_timeout_ms: int = 1_800_000
    """`group.max.session.timeout.ms`: classic members that ask for more are refused."""
    initial_rebalance_delay_ms: int = 3_000
    """`group.initial.rebalance.delay.ms`: how long an empty classic group waits for more members than the first."""
    max_size: int = (1 << 31) - 1
    """`group.max.size`: members of a classic group."""
    new_member_join_timeout_ms: int = 300_000
    """How long a new classic member may wait for its first generation. No setting: five minutes in Kafka too."""
    consumer_session_timeout_ms: int = 45_000
    """`group.consumer.session.timeout.ms`: how long a consumer group's member may be silent."""
    consumer_heartbeat_interval_ms: int = 5_000
    """`group.consumer.heartbeat.interval.ms`: how often its members are told to speak."""
    consumer_max_size: int = (1 << 31) - 1
    """`group.consumer.max.size`: members of a consumer group."""
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    """`group.consumer.assignors`: what members may ask for, and first what they get when none of them asks."""
    consumer_assignment_interval_ms: int = 1_000
    """`group.consumer.assignment.interval.ms`: an assignment is not followed by the next one sooner (KIP-1263)."""
    consumer_regex_refresh_interval_ms: int = 600_000
    """`group.consumer.regex.refresh.interval.ms`: when patterns are tried again although no topic was created."""

    def of_group(self, configs: Mapping[str, str]) -> GroupSettings:
        """The same with a consumer group's own configs, which were validated before they were stored."""
        if not configs:
            return self
        values = {
            f"consumer_{name.removeprefix('consumer.').replace('.', '_')}": int(configs[name]) for name in configs
        }
        return replace(self, **values)  # type: ignore[arg-type]  # each of them is a number of milliseconds
