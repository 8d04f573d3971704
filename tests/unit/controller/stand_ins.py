"""A metadata log in memory, and short ways to build images and run decisions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from bifrost.controller.core.brokers import Registration, register_broker
from bifrost.controller.core.cluster import open_cluster
from bifrost.controller.core.decision import Decision
from bifrost.controller.core.delta import Delta
from bifrost.controller.core.image import MetadataImage
from bifrost.controller.core.placement import Rotation
from bifrost.controller.core.records import Endpoint, MetadataRecord, decode_change, encode_change
from bifrost.controller.core.topics import CreatedTopic, NewTopic, create_topics
from bifrost.controller.replica import MetadataReplica
from bifrost.errors import ApiError, ErrorCode, StorageError
from bifrost.raft.metadata_log import Entry
from bifrost.settings import Settings

CLUSTER = "cluster-of-tests"
T = TypeVar("T")


class MemoryLog:
    """Keeps values in a list. `failure` is raised by the next append; `gate` holds appends back until it is set."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.appends: list[int] = []  # how many values each append brought
        self.failure: StorageError | ApiError | None = None
        self.gate: asyncio.Event | None = None
        self.reached = asyncio.Event()  # an append has begun
        self.replicas: list[MetadataReplica] = []  # who is told of commits

    @property
    def name(self) -> str:
        return "memory"

    @property
    def end_offset(self) -> int:
        return len(self.values)

    def entries(self, start: int, end: int) -> Iterator[Entry]:
        for offset in range(start, end):
            yield Entry(offset, offset * 1000, self.values[offset])

    async def append(self, values: Sequence[bytes], epoch: int) -> int:
        self.reached.set()
        await (self.gate.wait() if self.gate else asyncio.sleep(0))
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure
        self.values += values
        self.appends.append(len(values))
        for replica in self.replicas:
            replica.on_commit(len(self.values))
        return len(self.values) - len(values)


def topic_id(number: int) -> bytes:
    return number.to_bytes(16, "big")


def registration(
    broker_id: int,
    start: int = 1,
    *,
    rack: str | None = None,
    previous_epoch: int = -1,
    directories: tuple[bytes, ...] = (),
) -> Registration:
    return Registration(
        broker_id=broker_id,
        cluster_id=CLUSTER,
        incarnation=topic_id(1_000 * start + broker_id),
        endpoints=(Endpoint("PLAINTEXT", f"host{broker_id}", 9092),),
        rack=rack,
        previous_epoch=previous_epoch,
        directories=directories,
    )


def directory_of(broker_id: int, number: int = 0) -> bytes:
    """The id of one of a broker's log directories."""
    return topic_id(1_000_000 + 10 * broker_id + number)


def place(
    brokers: Sequence[int], *, fenced: Sequence[int] = (), racks: Mapping[int, str] | None = None, **wanted: int
) -> list[tuple[int, ...]]:
    """Where replicas go, on brokers that belong to no image."""
    return Rotation(brokers, fenced, racks).place(**wanted)


def commit(image: MetadataImage, decision: Decision[T]) -> T:
    """Apply a decision the way a driver does, through its bytes."""
    apply(image, decode_change(encode_change(decision.records)))
    return decision.result


def apply(image: MetadataImage, records: Sequence[MetadataRecord]) -> Delta:
    delta = Delta()
    offset = image.offset + 1
    for record in records:
        image.apply(record, offset, delta)
    return delta


def cluster_of(*broker_ids: int) -> MetadataImage:
    """An image of a cluster with these brokers."""
    image = MetadataImage()
    commit(image, open_cluster(image, CLUSTER))
    for broker_id in broker_ids:
        commit(image, register_broker(image, registration(broker_id)))
    return image


def create(image: MetadataImage, *topics: NewTopic, settings: Settings | None = None) -> list[CreatedTopic]:
    """Create topics, whose ids count up from 100 or from the greatest there is."""
    first = 1 + max((int.from_bytes(known) for known in image.topics_by_id), default=99)
    ids = [topic_id(first + number) for number in range(len(topics))]
    return commit(image, create_topics(image, settings or Settings(), topics, topic_ids=ids))


def create_one(image: MetadataImage, topic: NewTopic, settings: Settings | None = None) -> CreatedTopic:
    (created,) = create(image, topic, settings=settings)
    return created


def refusal(image: MetadataImage, topic: NewTopic, settings: Settings | None = None) -> tuple[ErrorCode, str]:
    """Code and message of a topic that must not be created."""
    before = image.copy()
    created = create_one(image, topic, settings)
    assert image.topics == before.topics
    assert created.error is not ErrorCode.NONE
    assert (created.topic_id, created.partitions, created.replication_factor) == (bytes(16), -1, -1)
    return created.error, created.message or ""
