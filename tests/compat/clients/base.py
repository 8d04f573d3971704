"""What a Kafka client must do to take part in the compat tests, and the values the tests speak in.

An adapter uses its client as a user of that client would, with as few settings as the test needs. It reports errors as
`ClientError` with Kafka's code and never retries on its own: what the client does is what is under test.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

Codec = Literal["none", "gzip", "snappy", "lz4", "zstd"]
Headers = tuple[tuple[str, bytes | None], ...]

CODECS: tuple[Codec, ...] = ("none", "gzip", "snappy", "lz4", "zstd")
EARLIEST = -2
LATEST = -1
TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Record:
    """A record as a producer hands it over; None leaves the choice to the client."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None
    partition: int | None = None


@dataclass(frozen=True, slots=True)
class Stored:
    """A record as a consumer gets it."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    append_time: bool = False


@dataclass(frozen=True, slots=True)
class Acked:
    """Where a produced record went; the offset is None where the client was not told (acks=0, or kcat)."""

    partition: int | None
    offset: int | None


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    partition: int
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    cluster_id: str | None
    controller: int | None
    brokers: tuple[tuple[int, str, int], ...]


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; `assignment` (partition to replicas) excludes the two counts."""

    name: str
    partitions: int = 1
    replication_factor: int = 1
    configs: Mapping[str, str] = field(default_factory=dict)
    assignment: Mapping[int, Sequence[int]] | None = None


class ClientError(Exception):
    """The client reported a failure; `code` is Kafka's error code, None when the client hides it."""

    def __init__(self, code: int | None, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code
        self.text = text


class Client(ABC):
    """A producer and consumer. Consumers are assigned by hand: no group, nothing committed."""

    name: ClassVar[str]
    codecs: ClassVar[frozenset[Codec]] = frozenset(CODECS)
    partitioner: ClassVar[Literal["murmur2", "crc32"]] = "murmur2"
    lacks: ClassVar[frozenset[str]] = frozenset()
    """Features that the client or its tool does not offer; a test that needs one leaves the client out."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    @abstractmethod
    def produce(
        self,
        topic: str,
        records: Sequence[Record],
        *,
        codec: Codec = "none",
        acks: int = -1,
        idempotent: bool = False,
        max_bytes: int = 1_000_000,
        batch_bytes: int | None = None,
    ) -> list[Acked]:
        """Sends everything, waits for every answer, returns them in the order of `records`.

        `batch_bytes` asks for many small batches, as far as the client can be asked.
        """

    @abstractmethod
    def consume(self, topic: str, start: Mapping[int, int], count: int, *, max_bytes: int = 1_000_000) -> list[Stored]:
        """The next `count` records from the given offset of each partition, in the order the client gave them.

        Offsets may be EARLIEST or LATEST. Raises TimeoutError when they do not come.
        """

    @abstractmethod
    def offsets(self, topic: str, partitions: Sequence[int], at: int) -> dict[int, int | None]:
        """The offset at EARLIEST, LATEST or a timestamp in ms; None where no record is that young."""


class AdminClient(Client):
    """A client that also has the topic admin calls."""

    @abstractmethod
    def create_topic(self, topic: NewTopic, *, validate_only: bool = False) -> None: ...

    @abstractmethod
    def delete_topic(self, topic: str) -> None: ...

    @abstractmethod
    def create_partitions(self, topic: str, total: int, assignment: Sequence[Sequence[int]] | None = None) -> None: ...

    @abstractmethod
    def describe_topic(self, topic: str) -> tuple[PartitionInfo, ...]:
        """The partitions in order; ClientError(3) when there is no such topic."""

    @abstractmethod
    def list_topics(self) -> set[str]: ...

    @abstractmethod
    def describe_cluster(self) -> ClusterInfo: ...

    @abstractmethod
    def describe_topic_configs(self, topic: str) -> dict[str, str | None]: ...

    @abstractmethod
    def describe_broker_configs(self, broker: int) -> dict[str, str | None]: ...


def by_partition(records: Sequence[Stored]) -> dict[int, list[Stored]]:
    """Records sorted into their partitions, each in the order the client gave them."""
    sorted_out: dict[int, list[Stored]] = {}
    for record in records:
        sorted_out.setdefault(record.partition, []).append(record)
    return sorted_out


def error_code(error: Any) -> int | None:
    """Kafka's code from an exception of the Python clients, which call it `errno`."""
    code = getattr(error, "errno", None)
    return code if isinstance(code, int) else None
