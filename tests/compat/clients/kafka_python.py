"""kafka-python: the wire protocol in pure Python."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

with warnings.catch_warnings():
    # It loads its message definitions through importlib.resources.read_text, which Python 3.11 deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition  # type: ignore[import-untyped]
    from kafka import codec as kafka_codec
    from kafka.admin import ConfigResource  # type: ignore[import-untyped]
    from kafka.errors import KafkaError, for_code  # type: ignore[import-untyped]

from tests.compat.clients.base import (
    EARLIEST,
    LATEST,
    TIMEOUT_S,
    Acked,
    AdminClient,
    ClientError,
    ClusterInfo,
    Codec,
    NewTopic,
    PartitionInfo,
    Record,
    Stored,
    error_code,
)

T = TypeVar("T")

_TIMEOUT_MS = int(TIMEOUT_S * 1000)


def _supported() -> frozenset[Codec]:
    """Snappy, lz4 and zstd are extras of this client."""
    extras: dict[Codec, Callable[[], bool]] = {
        "snappy": kafka_codec.has_snappy,
        "lz4": kafka_codec.has_lz4,
        "zstd": kafka_codec.has_zstd,
    }
    found: set[Codec] = {"none", "gzip"}
    return frozenset(found | {name for name, present in extras.items() if present()})


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except KafkaError as error:
        raise ClientError(error_code(error), repr(error)) from error


class KafkaPython(AdminClient):
    name = "kafka-python"
    codecs = _supported()
    lacks = frozenset({"null-header-values"})

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
        with _translated():
            producer = KafkaProducer(
                bootstrap_servers=self.bootstrap,
                compression_type=None if codec == "none" else codec,
                acks=acks,
                enable_idempotence=idempotent,
                max_request_size=max_bytes,
                batch_size=16384 if batch_bytes is None else batch_bytes,
                linger_ms=5,
                max_block_ms=_TIMEOUT_MS,
                delivery_timeout_ms=_TIMEOUT_MS,
                request_timeout_ms=_TIMEOUT_MS // 2,
                reconnect_backoff_ms=10,
                reconnect_backoff_max_ms=50,
                retry_backoff_ms=20,
            )
            try:
                futures = [
                    producer.send(
                        topic,
                        value=record.value,
                        key=record.key,
                        headers=list(record.headers),
                        partition=record.partition,
                        timestamp_ms=record.timestamp_ms,
                    )
                    for record in records
                ]
                answers = [future.get(timeout=TIMEOUT_S) for future in futures]
            finally:
                producer.close(timeout=5)
        return [Acked(answer.partition, answer.offset if acks != 0 else None) for answer in answers]

    @contextmanager
    def _consumer(self, **config: Any) -> Iterator[KafkaConsumer]:
        with _translated():
            consumer = KafkaConsumer(
                bootstrap_servers=self.bootstrap,
                group_id=None,
                enable_auto_commit=False,
                auto_offset_reset="none",
                fetch_max_wait_ms=50,
                **config,
            )
            try:
                yield consumer
            finally:
                consumer.close(autocommit=False)

    def consume(self, topic: str, start: Mapping[int, int], count: int, *, max_bytes: int = 1_000_000) -> list[Stored]:
        found: list[Stored] = []
        deadline = time.monotonic() + TIMEOUT_S
        with self._consumer(max_partition_fetch_bytes=max_bytes) as consumer:
            consumer.assign([TopicPartition(topic, partition) for partition in start])
            for partition, at in start.items():
                where = TopicPartition(topic, partition)
                if at == EARLIEST:
                    consumer.seek_to_beginning(where)
                elif at == LATEST:
                    consumer.seek_to_end(where)
                else:
                    consumer.seek(where, at)
            while len(found) < count:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{len(found)} of {count} records read")
                for messages in consumer.poll(timeout_ms=200, max_records=count - len(found)).values():
                    found.extend(_stored(message) for message in messages)
        return found

    def offsets(self, topic: str, partitions: Sequence[int], at: int) -> dict[int, int | None]:
        asked = [TopicPartition(topic, partition) for partition in partitions]
        with self._consumer() as consumer:
            if at == EARLIEST:
                return {where.partition: offset for where, offset in consumer.beginning_offsets(asked).items()}
            if at == LATEST:
                return {where.partition: offset for where, offset in consumer.end_offsets(asked).items()}
            answered = consumer.offsets_for_times(dict.fromkeys(asked, at))
            return {where.partition: found.offset if found else None for where, found in answered.items()}

    def _admin(self, call: Callable[[KafkaAdminClient], T]) -> T:
        with _translated():
            admin = KafkaAdminClient(bootstrap_servers=self.bootstrap)
            try:
                return call(admin)
            finally:
                admin.close()

    def create_topic(self, topic: NewTopic, *, validate_only: bool = False) -> None:
        options: dict[str, Any] = {"configs": dict(topic.configs)}
        if topic.assignment is None:
            options |= {"num_partitions": topic.partitions, "replication_factor": topic.replication_factor}
        else:
            options["assignments"] = {partition: list(replicas) for partition, replicas in topic.assignment.items()}
        self._admin(lambda admin: admin.create_topics({topic.name: options}, validate_only=validate_only))

    def delete_topic(self, topic: str) -> None:
        self._admin(lambda admin: admin.delete_topics([topic]))

    def create_partitions(self, topic: str, total: int, assignment: Sequence[Sequence[int]] | None = None) -> None:
        wanted = total if assignment is None else {"count": total, "assignments": [list(each) for each in assignment]}
        self._admin(lambda admin: admin.create_partitions({topic: wanted}))

    def describe_topic(self, topic: str) -> tuple[PartitionInfo, ...]:
        (found,) = self._admin(lambda admin: admin.describe_topics([topic]))
        if found["error_code"]:
            raise ClientError(found["error_code"], for_code(found["error_code"]).__name__)
        return tuple(
            PartitionInfo(p["partition_index"], p["leader_id"], tuple(p["replica_nodes"]), tuple(p["isr_nodes"]))
            for p in sorted(found["partitions"], key=lambda p: int(p["partition_index"]))
        )

    def list_topics(self) -> set[str]:
        return set(self._admin(lambda admin: admin.list_topics()))

    def describe_cluster(self) -> ClusterInfo:
        found = self._admin(lambda admin: admin.describe_cluster())
        brokers = tuple(sorted((each["broker_id"], each["host"], each["port"]) for each in found["brokers"]))
        return ClusterInfo(found["cluster_id"], found["controller_id"], brokers)

    def describe_topic_configs(self, topic: str) -> dict[str, str | None]:
        return self._configs("topic", topic)

    def describe_broker_configs(self, broker: int) -> dict[str, str | None]:
        return self._configs("broker", str(broker))

    def _configs(self, kind: str, name: str) -> dict[str, str | None]:
        resource = ConfigResource(kind, name)
        answer = self._admin(lambda admin: admin.describe_configs([resource], config_filter="all"))
        return {config: entry["value"] for config, entry in answer[kind][name].items()}


def _stored(message: Any) -> Stored:
    return Stored(
        partition=message.partition,
        offset=message.offset,
        timestamp_ms=message.timestamp,
        key=message.key,
        value=message.value,
        headers=tuple(message.headers),
        append_time=message.timestamp_type == 1,
    )
