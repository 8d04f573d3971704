"""Partitions for a reader without a group: all of them, also those that are added while it reads.

With a group this is the coordinator's work. Here a reader starts where it was told to, and new partitions are read from
their first message on, since nobody could have read them before.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from time import monotonic

from bifrost.client.consumer_options import LOOK_EVERY_S
from bifrost.client.errors import ConfigError, TimedOutError, UnreachableError
from bifrost.client.lookups import END, START, Lookups
from bifrost.client.ownership import Ownership
from bifrost.types import INTERNAL_TOPICS, TopicPartition

logger = logging.getLogger(__name__)


class Discovery:
    """Keeps the partitions of some topics assigned."""

    def __init__(
        self, lookups: Lookups, owner: Ownership, topics: Sequence[str], pattern: str | None, *, from_beginning: bool
    ) -> None:
        self._lookups = lookups
        self._owner = owner
        self._topics = topics
        self._pattern = None if pattern is None else re.compile(pattern)
        self._from_beginning = from_beginning
        self._look_at = monotonic() + LOOK_EVERY_S

    def begin(self) -> None:
        """Assign what there is now."""
        place = START if self._from_beginning else END
        self._owner.assign(self._lookups.offsets_at(dict.fromkeys(self._partitions(), place)), more_to_come=True)

    def look(self, now: float) -> None:
        """Assign what has come since, if it is time to look."""
        if now < self._look_at:
            return
        self._look_at = now + LOOK_EVERY_S
        try:
            fresh = [partition for partition in self._partitions() if partition not in self._owner.assigned]
            starts = self._lookups.offsets_at(dict.fromkeys(fresh, START))
        except (UnreachableError, TimedOutError) as error:
            logger.debug("cannot look for new partitions now error=%s", error)
            return
        if starts:
            logger.info("new partitions partitions=%s", ",".join(map(str, starts)))
            self._owner.add(starts)

    def _partitions(self) -> list[TopicPartition]:
        if self._pattern is None:
            return self._lookups.partitions(self._topics)
        return [
            TopicPartition(topic, index)
            for topic, count in self._lookups.all_topics().items()
            for index in range(count)
            if self._pattern.fullmatch(topic) and topic not in INTERNAL_TOPICS
        ]


def group_pattern(pattern: str) -> str:
    """A pattern for whole names as librdkafka and the coordinator take it: they know patterns by the ^ in front."""
    try:
        re.compile(pattern)
    except re.error as error:
        raise ConfigError(f"pattern={pattern!r} is no regular expression: {error}", "Correct it.") from error
    return f"^({pattern.removeprefix('^').removesuffix('$')})$"
