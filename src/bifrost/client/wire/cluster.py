"""Which brokers there are, who leads what, and how to reach them: what is known of a cluster, kept fresh.

Metadata are asked for when they are needed, when they are old, and when an answer shows that they are wrong. Any known
broker may be asked; when none of them answers, the addresses that the client was given are tried again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple, TypeVar

from bifrost.client.errors import BifrostError, TimedOutError, UnknownPartitionError, UnreachableError
from bifrost.client.wire.connection import Address, Connection
from bifrost.client.wire.failures import TRANSPORT_FAILURES, TryAgain, from_code
from bifrost.client.wire.patience import Backoff, Deadline
from bifrost.client.wire.pool import ConnectionPool
from bifrost.client.wire.settings import WireSettings
from bifrost.errors import ErrorCode
from bifrost.protocol.messages.cluster import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from bifrost.protocol.schema import Message

NEW_TOPIC_S: Final = 0.5
"""A topic that was created a moment ago may not be known to every broker yet."""

Result = TypeVar("Result")
Answer = TypeVar("Answer", bound=Message)


class Leader(NamedTuple):
    """Where a partition is written and read."""

    node_id: int
    epoch: int
    topic_id: bytes
    """Sixteen zero bytes if the cluster has no topic ids."""


class Topic(NamedTuple):
    """A topic as of one answer."""

    topic_id: bytes
    leaders: Mapping[int, tuple[int, int]]
    """Node and leader epoch by partition; a node of -1 means that an election is under way."""
    known_since: float


class Cluster:
    """Thread-safe."""

    def __init__(
        self,
        bootstrap: Sequence[Address],
        settings: WireSettings,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.settings = settings
        self._pool = ConnectionPool(settings, clock)
        self._bootstrap = tuple(bootstrap)
        self._brokers: dict[int, Address] = {}
        self._topics: dict[str, Topic] = {}
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()

    def __str__(self) -> str:
        return ",".join(map(str, self._bootstrap))

    def forget_connections(self) -> None:
        """In a forked child."""
        self._lock = threading.Lock()
        self._pool.forget()

    def close(self) -> None:
        self._pool.close()

    def call_deadline(self) -> Deadline:
        """For one call with all its attempts. Whoever was never heard of gets less: the address may be wrong."""
        known = bool(self._brokers)
        return Deadline((self.settings.api_timeout_ms if known else self.settings.connect_timeout_ms) / 1000)

    def backoff(self) -> Backoff:
        return Backoff(self.settings.retry_backoff_ms, self.settings.retry_backoff_max_ms)

    def persist(self, attempt: Callable[[], Result], deadline: Deadline, *, even_if_unreachable: bool = True) -> Result:
        """Attempts until one succeeds or time is over; then a failure is raised, that of the last one if it tells more.

        The last attempt is often cut short: that it took too long says less than what the one before it met. A program
        may wait until somebody is there at all; a person wants to hear at once that nobody is.
        """
        backoff = self.backoff()
        failure: BifrostError | None = None
        while True:
            try:
                return attempt()
            except TryAgain as again:
                failure = again.failure
            except UnreachableError as broken:
                if not even_if_unreachable:
                    raise
                failure = broken
            except TimedOutError as late:
                failure = failure or late
            pause = backoff.next_s()
            if pause >= deadline.remaining_s():
                raise failure
            self._sleep(pause)

    def request_deadline(self, deadline: Deadline) -> Deadline:
        return deadline.at_most(self.settings.request_timeout_ms / 1000)

    def ask_any(self, request: Message, kind: type[Answer], deadline: Deadline) -> Answer:
        """The answer of the first broker that gives one. One round; `persist` makes more."""
        failure: BifrostError | None = None
        with self._lock:
            addresses = dict.fromkeys((*self._brokers.values(), *self._bootstrap))
        for address in addresses:
            try:
                with self._borrowed(address, deadline) as connection:
                    return connection.ask(request, kind, self.request_deadline(deadline))
            except TRANSPORT_FAILURES as error:
                failure = error
        assert failure is not None, "a cluster has at least one address"
        if len(addresses) == 1:
            raise failure
        raise UnreachableError(
            f"none of {', '.join(map(str, addresses))} answers; the last one: {failure.problem}", failure.hint
        ) from failure

    def ask_node(self, node_id: int, request: Message, kind: type[Answer], deadline: Deadline) -> Answer:
        """The answer of one broker. One attempt."""
        with self._borrowed(self._address(node_id), deadline) as connection:
            return connection.ask(request, kind, self.request_deadline(deadline))

    def take(self, node_id: int, deadline: Deadline) -> Connection:
        """A connection of one's own to a broker; to be given back, or closed."""
        return self._take(self._address(node_id), deadline)

    def take_at(self, address: Address, deadline: Deadline) -> Connection:
        """The same to a broker that an answer named, which metadata may not have told of yet."""
        return self._take(address, deadline)

    def give_back(self, connection: Connection) -> None:
        self._pool.give_back(connection)

    def lost(self, connection: Connection) -> None:
        """A connection broke in its owner's hands."""
        connection.close()
        self._pool.drop_idle(connection.address)

    def topics(self, deadline: Deadline) -> dict[str, bool]:
        """Names of all topics, and whether each is internal."""
        found = self.persist(lambda: self._ask_metadata(None, deadline), deadline)
        return {topic.name: topic.is_internal for topic in found if topic.name and not topic.error_code}

    def describe_topics(self, deadline: Deadline) -> list[MetadataResponseTopic]:
        """Every topic with its partitions, as the cluster tells it now."""
        return self.persist(lambda: self._ask_metadata(None, deadline), deadline)

    def topic(self, name: str, deadline: Deadline, *, fresh: bool = False) -> Topic:
        """What is known of a topic, asked for anew if that is old or `fresh`. UnknownTopicError if there is none."""
        known = self._topics.get(name)
        if known is not None and not fresh and known.known_since >= self._oldest():
            return known
        unknown_until = deadline.at_most(NEW_TOPIC_S)

        def attempt() -> Topic:
            (found,) = self._ask_metadata([name], deadline)
            code = ErrorCode(found.error_code)
            if code is ErrorCode.NONE:
                return self._learn(name, found)
            failure = from_code(code, topic=name)
            if code.retriable and not (code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and unknown_until.passed):
                raise TryAgain(failure)
            with self._lock:
                self._topics.pop(name, None)
            raise failure

        return self.persist(attempt, deadline)

    def leader(self, name: str, partition: int, deadline: Deadline) -> Leader:
        """Who leads a partition; waits while an election is under way."""
        known = self._topics.get(name)
        if known is not None and known.known_since >= self._oldest():
            node_id, epoch = known.leaders.get(partition, (-1, -1))
            if node_id in self._brokers:
                return Leader(node_id, epoch, known.topic_id)
        return self._find_leader(name, partition, deadline)

    def _find_leader(self, name: str, partition: int, deadline: Deadline) -> Leader:
        fresh = False

        def attempt() -> Leader:
            nonlocal fresh
            topic = self.topic(name, deadline, fresh=fresh)
            if partition not in topic.leaders and not fresh:
                topic = self.topic(name, deadline, fresh=True)  # it may have been added since
            fresh = True
            node_id, epoch = topic.leaders.get(partition, (None, -1))
            if node_id is None:
                raise _no_partition(name, partition, topic)
            if node_id < 0 or node_id not in self._brokers:
                raise TryAgain(from_code(ErrorCode.LEADER_NOT_AVAILABLE, topic=name, partition=partition))
            return Leader(node_id, epoch, topic.topic_id)

        return self.persist(attempt, deadline)

    def suspect(self, name: str) -> None:
        """What is known of the topic seems wrong: ask before it is used again."""
        with self._lock:
            known = self._topics.get(name)
            if known is not None:
                self._topics[name] = known._replace(known_since=float("-inf"))

    def _oldest(self) -> float:
        """What was learnt before this moment is asked for again."""
        return self._clock() - self.settings.metadata_max_age_ms / 1000

    def _ask_metadata(self, names: Sequence[str] | None, deadline: Deadline) -> list[MetadataResponseTopic]:
        asked = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
        answer = self.ask_any(request, MetadataResponse, deadline)
        if answer.error_code:  # REBOOTSTRAP_REQUIRED: what we know of brokers is no longer true (KIP-1102)
            with self._lock:
                self._brokers = {}
            raise TryAgain(from_code(answer.error_code, bootstrap=str(self)))
        with self._lock:
            self._brokers = {broker.node_id: Address(broker.host, broker.port) for broker in answer.brokers}
        return answer.topics

    def _learn(self, name: str, found: MetadataResponseTopic) -> Topic:
        leaders = {each.partition_index: (each.leader_id, each.leader_epoch) for each in found.partitions}
        topic = Topic(found.topic_id.bytes, leaders, self._clock())
        with self._lock:
            self._topics[name] = topic
        return topic

    def _address(self, node_id: int) -> Address:
        try:
            return self._brokers[node_id]
        except KeyError:
            raise UnreachableError(
                f"broker {node_id} is not in the cluster", "It may be starting: try again."
            ) from None

    def _take(self, address: Address, deadline: Deadline) -> Connection:
        try:
            return self._pool.take(address, deadline)
        except TRANSPORT_FAILURES:
            self._pool.drop_idle(address)
            raise

    @contextmanager
    def _borrowed(self, address: Address, deadline: Deadline) -> Iterator[Connection]:
        connection = self._take(address, deadline)
        try:
            yield connection
        except TRANSPORT_FAILURES:
            self.lost(connection)
            raise
        finally:
            self._pool.give_back(connection)


def _no_partition(name: str, partition: int, topic: Topic) -> UnknownPartitionError:
    return UnknownPartitionError(
        f"partition {partition} of topic {name} does not exist",
        f"It has {len(topic.leaders)}, counted from 0.",
        code="UNKNOWN_TOPIC_OR_PARTITION",
    )
