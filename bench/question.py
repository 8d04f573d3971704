"""What a question is: something asked of two brokers in turn, the figures it yields, and the ratios to reach."""

from __future__ import annotations

import dataclasses
import enum
import math
import operator
import statistics
from collections.abc import Callable
from contextlib import AbstractContextManager

from bench.clients.job import Result
from bench.peers import Contender, Durability


class Better(enum.Enum):
    MORE = "more"
    LESS = "less"


@dataclasses.dataclass(frozen=True, slots=True)
class Metric:
    """One row of the table. `aim` is the ratio subject : reference to reach; None where none was promised.

    `limit` is an aim for the subject alone, in the metric's unit, where a promise is absolute.
    """

    key: str
    title: str
    unit: str
    better: Better
    aim: float | None = None
    limit: float | None = None
    of_samples: Callable[[list[float]], float] = statistics.median  # `max` where the worst is what counts

    def met(self, ratio: float, subject: float) -> bool | None:
        if self.limit is not None:
            return subject <= self.limit
        if self.aim is None:
            return None
        return ratio >= self.aim if self.better is Better.MORE else ratio <= self.aim


class Pairing(enum.Enum):
    """Which flush policies meet: (subject, reference, what that means, how it is set)."""

    EQUAL = (Durability.OS, Durability.OS, "page cache on both", "flush.policy=os : Kafka as it comes")
    ACK_VS_CACHE = (Durability.ACK, Durability.OS, "on disk vs page cache", "flush.policy=ack : Kafka as it comes")
    ACK_VS_FLUSH = (
        Durability.ACK,
        Durability.ACK,
        "on disk on both",
        "flush.policy=ack : log.flush.interval.messages=1",
    )

    def durability(self, side: int) -> Durability:
        """Of the reference (side 0) or the subject (side 1)."""
        return self.value[0] if side else self.value[1]

    @property
    def words(self) -> str:
        return self.value[2]

    @property
    def settings(self) -> str:
        return self.value[3]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much is done: the size of everything that makes a run long. It is broken off after `minutes_max`."""

    name: str
    samples: int
    seconds: float
    warm_seconds: float
    memory_seconds: float
    idle_seconds: float
    connections: int
    partitions: int
    messages: int
    groups: int
    group_rounds: int
    fill_bytes: int
    warm_rounds_max: int
    minutes_max: float
    kills: int = 0
    topics: int = 0
    missed_bytes: int = 0
    cluster_partitions: tuple[int, int] = (0, 0)


FULL = Effort(
    name="full",
    samples=3,
    seconds=1.0,
    warm_seconds=0.4,
    memory_seconds=20.0,
    idle_seconds=10.0,
    connections=10_000,
    partitions=3_000,
    messages=1_000_000,
    groups=1_000,
    group_rounds=3,
    fill_bytes=600_000_000,
    warm_rounds_max=8,
    minutes_max=14.5,
)
QUICK = Effort(
    name="quick",
    samples=1,
    seconds=0.5,
    warm_seconds=0.2,
    memory_seconds=5.0,
    idle_seconds=2.0,
    connections=1_000,
    partitions=300,
    messages=100_000,
    groups=100,
    group_rounds=1,
    fill_bytes=150_000_000,
    warm_rounds_max=3,
    minutes_max=3.5,
)

Sampler = Callable[[], Result]
Opening = Callable[[Contender, Effort], AbstractContextManager[Sampler]]


def p90(samples: list[float]) -> float:
    """By nearest rank: a sample that there was."""
    return sorted(samples)[math.ceil(0.9 * len(samples)) - 1]


def once(_effort: Effort) -> int:
    """For what takes too long to be done several times."""
    return 1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """`open` prepares a contender, yields the function that takes one sample, and cleans up."""

    name: str
    title: str  # may name a size of the effort in braces
    pairing: Pairing
    metrics: tuple[Metric, ...]
    open: Opening
    fresh: bool = False  # wants peers of its own, which it starts itself
    samples: Callable[[Effort], int] = operator.attrgetter("samples")
    null_can: bool = False  # the null sink can answer, so the client's ceiling can be asked
    in_quick: bool = True

    def title_for(self, effort: Effort) -> str:
        return self.title.format(effort=effort)
