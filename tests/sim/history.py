"""What clients saw of a cluster, in the order in which they saw it. Checkers judge it; nothing here does.

A history knows nothing of the simulator: whoever drives real processes can record the same events. Times are seconds on
one clock. `asked_at` is when a client sent the question, `at` when it had the answer: what happened in between may or
may not be part of the answer.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

from tests.sim.crowd.events import GroupEvent


class Place(NamedTuple):
    """One partition of one topic; a topic that was deleted and made again has another id."""

    topic: str
    topic_id: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Value(NamedTuple):
    """A record that says where it comes from. `line` counts the connections of a client that never repeats itself."""

    producer: str
    line: int
    number: int

    def __str__(self) -> str:
        return f"{self.producer}.{self.line}.{self.number}"


GARBAGE = Value("garbage", -1, -1)
"""Stands for a record that nobody ever wrote."""


class Sent(NamedTuple):
    """A batch was sent, for the first time or again."""

    at: float
    place: Place
    values: tuple[Value, ...]


class Acknowledged(NamedTuple):
    """The broker promised that the batch is stored at these offsets."""

    asked_at: float
    at: float
    place: Place
    base_offset: int
    values: tuple[Value, ...]


class Forgotten(NamedTuple):
    """The broker refused the next sequence of a producer: it does not know what it acknowledged before."""

    asked_at: float
    at: float
    place: Place
    producer: str
    detail: str


class Polled(NamedTuple):
    """A fetch was answered. Records are in the order in which they came."""

    asked_at: float
    at: float
    reader: str
    place: Place
    fetch_offset: int
    high_watermark: int
    records: tuple[tuple[int, Value], ...]
    asked_of: str = ""
    """The machine that was asked, where there are several: a follower may answer, and knows of the end later."""


class OutOfRange(NamedTuple):
    """The log does not reach to an offset that the reader had from it."""

    asked_at: float
    at: float
    reader: str
    place: Place
    fetch_offset: int


class EndSeen(NamedTuple):
    """ListOffsets told where the partition ends."""

    asked_at: float
    at: float
    place: Place
    end_offset: int


class Leading(NamedTuple):
    """Who takes himself for the leader of a partition from now on: several, while one of them has not heard of another.

    Clients do not see this: whoever runs the machines tells it, so that what clients were told can be held against it.
    """

    at: float
    place: Place
    machines: tuple[str, ...]
    knows_end: bool
    """Whether it is one alone, whose watermark has come to where the leaders before it can have had theirs."""


class ProducerIdGiven(NamedTuple):
    """InitProducerId was answered."""

    at: float
    producer: str
    producer_id: int
    producer_epoch: int


class TopicState(NamedTuple):
    """What is known of a topic. An empty id is one that nobody was told."""

    topic_id: str
    partitions: int


class TopicChanged(NamedTuple):
    """Its only owner changed a topic: `before` and `after` it, None where there is none.

    `outcome` is "done" (acknowledged), "refused" (because the topic was, or was not, there) or "unknown".
    """

    at: float
    name: str
    before: TopicState | None
    after: TopicState | None
    outcome: str


class TopicsListed(NamedTuple):
    """All topics, as the owner of all topics sees them."""

    at: float
    topics: dict[str, TopicState]


class Crashed(NamedTuple):
    """The broker ended without a clean stop; with `power`, the memory of its machine is gone too."""

    at: float
    power: bool


class ReadBack(NamedTuple):
    """Everything in a partition after the last fault was over. Of two, the later one counts, and both must agree."""

    at: float
    place: Place
    end_offset: int
    records: tuple[tuple[int, Value], ...]


class CompactedEnd(NamedTuple):
    """The same for a partition that is compacted, and may not begin with the first offset."""

    at: float
    place: Place
    start_offset: int
    end_offset: int
    records: tuple[tuple[int, Value], ...]


class Complaint(NamedTuple):
    """Something that must never happen was seen where it happened: a bug, a broken promise, a wait without end."""

    at: float
    kind: str
    detail: str


class Sighting(NamedTuple):
    """Somebody was told that a value is at an offset. Not an event of its own, but what several of them say."""

    how: str
    asked_at: float
    at: float
    place: Place
    offset: int
    value: Value

    def __str__(self) -> str:
        return f"{self.value} {self.how} at offset {self.offset} at {self.at:.3f}"


Event = (
    Sent
    | Acknowledged
    | Forgotten
    | Polled
    | OutOfRange
    | EndSeen
    | Leading
    | ProducerIdGiven
    | TopicChanged
    | TopicsListed
    | Crashed
    | ReadBack
    | CompactedEnd
    | Complaint
    | GroupEvent
)
E_ = TypeVar("E_", bound=Event)


class History:
    """The events of one run, and what was promised about them."""

    def __init__(
        self, events: list[Event] | None = None, *, survives_power_loss: bool = True, leaders_move: bool = False
    ) -> None:
        self.events: list[Event] = events or []
        self._sightings: tuple[int, list[Sighting]] = (-1, [])
        self.survives_power_loss = survives_power_loss
        """flush.policy=ack: what was acknowledged or read stays, whatever happens to the machine."""
        self.leaders_move = leaders_move
        """Then somebody may answer who leads no more and has not heard so: where a partition ends is certain only while
        one alone is known to lead (`Leading`)."""

    def add(self, event: Event) -> None:
        self.events.append(event)

    def of(self, kind: type[E_]) -> Iterator[E_]:
        return (event for event in self.events if isinstance(event, kind))

    def losses(self) -> list[float]:
        """The moments at which the ends of logs may have been lost."""
        if self.survives_power_loss:
            return []
        return sorted(event.at for event in self.of(Crashed) if event.power)

    def eras(self) -> Callable[[float, float], int | None]:
        """Tells between which two losses a question was asked and answered; None if one came in between."""
        losses = self.losses()

        def era(asked_at: float, at: float) -> int | None:
            first = bisect_right(losses, asked_at)
            return first if first == bisect_right(losses, at) else None

        return era

    def acknowledged(self) -> Iterator[Sighting]:
        for event in self.of(Acknowledged):
            for offset, value in enumerate(event.values, event.base_offset):
                yield Sighting("acknowledged", event.asked_at, event.at, event.place, offset, value)

    def read(self) -> Iterator[Sighting]:
        for event in self.of(Polled):
            how = f"read by {event.reader}"
            for offset, value in event.records:
                yield Sighting(how, event.asked_at, event.at, event.place, offset, value)

    def read_back(self) -> Iterator[Sighting]:
        for event in self.of(ReadBack):
            for offset, value in event.records:
                yield Sighting("read back", event.at, event.at, event.place, offset, value)

    def sightings(self) -> list[Sighting]:
        """All of them; kept, because every other checker wants them."""
        if self._sightings[0] != len(self.events):
            found = [*self.acknowledged(), *self.read(), *self.read_back()]
            self._sightings = len(self.events), found
        return self._sightings[1]

    def final(self) -> dict[Place, dict[int, Value]]:
        """What is there in the end, by partition and offset."""
        return {event.place: dict(event.records) for event in self.of(ReadBack)}
