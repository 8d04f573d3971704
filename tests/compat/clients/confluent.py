"""confluent-kafka: librdkafka with its Python face."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient as RdAdmin
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.cimpl import NewPartitions
from confluent_kafka.cimpl import NewTopic as RdNewTopic

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
)

T = TypeVar("T")


def _logical(offset: int) -> int:
    return {EARLIEST: OFFSET_BEGINNING, LATEST: OFFSET_END}.get(offset, offset)


def _failed(error: KafkaError) -> ClientError:
    return ClientError(error.code(), error.str())


class Confluent(AdminClient):
    name = "confluent"
    partitioner = "crc32"

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
        config: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap,
            "compression.type": codec,
            "acks": acks,
            "enable.idempotence": idempotent,
            "message.max.bytes": max_bytes,
            "linger.ms": 5,
            "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 50,
            "message.timeout.ms": int(TIMEOUT_S * 1000),
        }
        if batch_bytes is not None:
            config["batch.size"] = batch_bytes
        producer = Producer(config)
        acked: dict[int, Acked] = {}
        errors: list[KafkaError] = []
        for index, record in enumerate(records):
            extra: dict[str, Any] = {}
            if record.partition is not None:
                extra["partition"] = record.partition
            if record.timestamp_ms is not None:
                extra["timestamp"] = record.timestamp_ms
            if record.headers:
                extra["headers"] = list(record.headers)

            def delivered(error: KafkaError | None, message: Any, index: int = index) -> None:
                if error is not None:
                    errors.append(error)
                else:
                    acked[index] = Acked(message.partition(), message.offset() if acks != 0 else None)

            try:
                producer.produce(topic, value=record.value, key=record.key, on_delivery=delivered, **extra)
            except KafkaException as error:
                raise _failed(error.args[0]) from error
        if producer.flush(TIMEOUT_S) > 0:
            raise TimeoutError(f"{len(acked)} of {len(records)} records delivered")
        if errors:
            raise _failed(errors[0])
        return [acked[index] for index in range(len(records))]

    def _consumer(self, **config: Any) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "never-joined",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 50,
                **config,
            }
        )

    def consume(self, topic: str, start: Mapping[int, int], count: int, *, max_bytes: int = 1_000_000) -> list[Stored]:
        consumer = self._consumer(
            **{
                "fetch.message.max.bytes": max_bytes,
                "fetch.max.bytes": max(max_bytes, 52_428_800),
                "receive.message.max.bytes": max(max_bytes, 52_428_800) + 10_000,
            }
        )
        found: list[Stored] = []
        deadline = time.monotonic() + TIMEOUT_S
        try:
            consumer.assign([TopicPartition(topic, partition, _logical(at)) for partition, at in start.items()])
            while len(found) < count:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{len(found)} of {count} records read")
                for message in consumer.consume(count - len(found), timeout=0.2):
                    if (error := message.error()) is not None:
                        raise _failed(error)
                    found.append(_stored(message))
        finally:
            consumer.close()
        return found

    def offsets(self, topic: str, partitions: Sequence[int], at: int) -> dict[int, int | None]:
        consumer = self._consumer()
        try:
            if at in (EARLIEST, LATEST):
                marks = {
                    p: consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=TIMEOUT_S) for p in partitions
                }
                return {p: mark[0] if at == EARLIEST else mark[1] for p, mark in marks.items()}
            asked = [TopicPartition(topic, partition, at) for partition in partitions]
            answered = consumer.offsets_for_times(asked, timeout=TIMEOUT_S)
            return {each.partition: each.offset if each.offset >= 0 else None for each in answered}
        except KafkaException as error:
            raise _failed(error.args[0]) from error
        finally:
            consumer.close()

    def _admin(self, call: Callable[[RdAdmin], Mapping[Any, Future[T]]]) -> T:
        """The result of an admin call about one thing."""
        admin = RdAdmin({"bootstrap.servers": self.bootstrap})
        try:
            (future,) = call(admin).values()
            return future.result(TIMEOUT_S)
        except KafkaException as error:
            raise _failed(error.args[0]) from error

    def create_topic(self, topic: NewTopic, *, validate_only: bool = False) -> None:
        kwargs: dict[str, Any] = {"num_partitions": topic.partitions, "replication_factor": topic.replication_factor}
        if topic.assignment is not None:
            kwargs = {
                "num_partitions": len(topic.assignment),
                "replica_assignment": [list(topic.assignment[p]) for p in sorted(topic.assignment)],
            }
        wanted = RdNewTopic(topic.name, config=dict(topic.configs), **kwargs)
        self._admin(lambda admin: admin.create_topics([wanted], validate_only=validate_only))

    def delete_topic(self, topic: str) -> None:
        self._admin(lambda admin: admin.delete_topics([topic]))

    def create_partitions(self, topic: str, total: int, assignment: Sequence[Sequence[int]] | None = None) -> None:
        extra: dict[str, Any] = (
            {} if assignment is None else {"replica_assignment": [list(each) for each in assignment]}
        )
        self._admin(lambda admin: admin.create_partitions([NewPartitions(topic, total, **extra)]))

    def describe_topic(self, topic: str) -> tuple[PartitionInfo, ...]:
        found = self._admin(lambda admin: admin.describe_topics(TopicCollection([topic])))
        return tuple(
            PartitionInfo(p.id, p.leader.id, tuple(n.id for n in p.replicas), tuple(n.id for n in p.isr))
            for p in sorted(found.partitions, key=lambda p: int(p.id))
        )

    def list_topics(self) -> set[str]:
        return set(RdAdmin({"bootstrap.servers": self.bootstrap}).list_topics(timeout=TIMEOUT_S).topics)

    def describe_cluster(self) -> ClusterInfo:
        admin = RdAdmin({"bootstrap.servers": self.bootstrap})
        found = admin.describe_cluster().result(TIMEOUT_S)
        brokers = tuple(sorted((node.id, node.host, node.port) for node in found.nodes))
        return ClusterInfo(found.cluster_id, found.controller.id if found.controller else None, brokers)

    def describe_topic_configs(self, topic: str) -> dict[str, str | None]:
        return self._configs(ConfigResource(ConfigResource.Type.TOPIC, topic))

    def describe_broker_configs(self, broker: int) -> dict[str, str | None]:
        return self._configs(ConfigResource(ConfigResource.Type.BROKER, str(broker)))

    def _configs(self, resource: ConfigResource) -> dict[str, str | None]:
        entries = self._admin(lambda admin: admin.describe_configs([resource]))
        return {name: entry.value for name, entry in entries.items()}


def _stored(message: Any) -> Stored:
    kind, timestamp_ms = message.timestamp()
    return Stored(
        partition=message.partition(),
        offset=message.offset(),
        timestamp_ms=timestamp_ms,
        key=message.key(),
        value=message.value(),
        headers=tuple(message.headers() or ()),
        append_time=kind == 2,
    )
