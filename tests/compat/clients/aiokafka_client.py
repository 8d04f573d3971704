"""aiokafka: the asyncio client, which keeps to old, exact protocol versions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition  # type: ignore[import-untyped]
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions  # type: ignore[import-untyped]
from aiokafka.admin import NewTopic as AioNewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType  # type: ignore[import-untyped]
from aiokafka.errors import KafkaError, for_code  # type: ignore[import-untyped]

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


def _run(work: Coroutine[Any, Any, T]) -> T:
    try:
        return asyncio.run(asyncio.wait_for(work, TIMEOUT_S * 2))
    except KafkaError as error:
        raise ClientError(error_code(error), repr(error)) from error


class AioKafka(AdminClient):
    name = "aiokafka"

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
        async def work() -> list[Acked]:
            producer = AIOKafkaProducer(
                bootstrap_servers=self.bootstrap,
                compression_type=None if codec == "none" else codec,
                acks="all" if acks == -1 else acks,
                enable_idempotence=idempotent,
                max_request_size=max_bytes,
                max_batch_size=16384 if batch_bytes is None else batch_bytes,
                linger_ms=5,
                retry_backoff_ms=20,
            )
            await producer.start()
            try:
                futures = [
                    await producer.send(
                        topic,
                        value=record.value,
                        key=record.key,
                        headers=list(record.headers),
                        partition=record.partition,
                        timestamp_ms=record.timestamp_ms,
                    )
                    for record in records
                ]
                answers = await asyncio.gather(*futures)
            finally:
                await producer.stop()
            if acks == 0:
                return [Acked(record.partition, None) for record in records]
            return [Acked(each.partition, each.offset) for each in answers]

        return _run(work())

    @asynccontextmanager
    async def _consumer(self, **config: Any) -> AsyncIterator[AIOKafkaConsumer]:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="none",
            fetch_max_wait_ms=50,
            **config,
        )
        await consumer.start()
        try:
            yield consumer
        finally:
            await consumer.stop()

    def consume(self, topic: str, start: Mapping[int, int], count: int, *, max_bytes: int = 1_000_000) -> list[Stored]:
        async def work() -> list[Stored]:
            found: list[Stored] = []
            deadline = time.monotonic() + TIMEOUT_S
            async with self._consumer(max_partition_fetch_bytes=max_bytes) as consumer:
                consumer.assign([TopicPartition(topic, partition) for partition in start])
                for partition, at in start.items():
                    where = TopicPartition(topic, partition)
                    if at == EARLIEST:
                        await consumer.seek_to_beginning(where)
                    elif at == LATEST:
                        await consumer.seek_to_end(where)
                    else:
                        consumer.seek(where, at)
                while len(found) < count:
                    if time.monotonic() > deadline:
                        raise TimeoutError(f"{len(found)} of {count} records read")
                    batches = await consumer.getmany(timeout_ms=200, max_records=count - len(found))
                    for messages in batches.values():
                        found.extend(_stored(message) for message in messages)
            return found

        return _run(work())

    def offsets(self, topic: str, partitions: Sequence[int], at: int) -> dict[int, int | None]:
        async def work() -> dict[int, int | None]:
            asked = [TopicPartition(topic, partition) for partition in partitions]
            async with self._consumer() as consumer:
                if at == EARLIEST:
                    return {where.partition: o for where, o in (await consumer.beginning_offsets(asked)).items()}
                if at == LATEST:
                    return {where.partition: o for where, o in (await consumer.end_offsets(asked)).items()}
                answered = await consumer.offsets_for_times(dict.fromkeys(asked, at))
                return {where.partition: found.offset if found else None for where, found in answered.items()}

        return _run(work())

    @asynccontextmanager
    async def _admin(self) -> AsyncIterator[AIOKafkaAdminClient]:
        admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
        await admin.start()
        try:
            yield admin
        finally:
            await admin.close()

    def create_topic(self, topic: NewTopic, *, validate_only: bool = False) -> None:
        counts = (topic.partitions, topic.replication_factor) if topic.assignment is None else (-1, -1)
        assignments = None if topic.assignment is None else {p: list(ids) for p, ids in topic.assignment.items()}

        async def work() -> None:
            wanted = AioNewTopic(
                topic.name, *counts, replica_assignments=assignments, topic_configs=dict(topic.configs)
            )
            async with self._admin() as admin:
                answer = await admin.create_topics([wanted], validate_only=validate_only)
                for _, code, *message in answer.topic_errors:
                    _check(code, str(message))

        _run(work())

    def delete_topic(self, topic: str) -> None:
        async def work() -> None:
            async with self._admin() as admin:
                answer = await admin.delete_topics([topic])
                for _, code in answer.topic_error_codes:
                    _check(code)

        _run(work())

    def create_partitions(self, topic: str, total: int, assignment: Sequence[Sequence[int]] | None = None) -> None:
        async def work() -> None:
            wanted = NewPartitions(total, None if assignment is None else [list(each) for each in assignment])
            async with self._admin() as admin:
                await admin.create_partitions({topic: wanted})

        _run(work())

    def describe_topic(self, topic: str) -> tuple[PartitionInfo, ...]:
        async def work() -> tuple[PartitionInfo, ...]:
            async with self._admin() as admin:
                (found,) = await admin.describe_topics([topic])
                _check(found["error_code"])
                return tuple(
                    PartitionInfo(p["partition"], p["leader"], tuple(p["replicas"]), tuple(p["isr"]))
                    for p in sorted(found["partitions"], key=lambda p: int(p["partition"]))
                )

        return _run(work())

    def list_topics(self) -> set[str]:
        async def work() -> set[str]:
            async with self._admin() as admin:
                return set(await admin.list_topics())

        return _run(work())

    def describe_cluster(self) -> ClusterInfo:
        async def work() -> ClusterInfo:
            async with self._admin() as admin:
                found = await admin.describe_cluster()
                brokers = tuple(sorted((each["node_id"], each["host"], each["port"]) for each in found["brokers"]))
                return ClusterInfo(found["cluster_id"], found["controller_id"], brokers)

        return _run(work())

    def describe_topic_configs(self, topic: str) -> dict[str, str | None]:
        return self._configs(ConfigResource(ConfigResourceType.TOPIC, topic))

    def describe_broker_configs(self, broker: int) -> dict[str, str | None]:
        return self._configs(ConfigResource(ConfigResourceType.BROKER, str(broker)))

    def _configs(self, resource: ConfigResource) -> dict[str, str | None]:
        async def work() -> dict[str, str | None]:
            async with self._admin() as admin:
                (answer,) = await admin.describe_configs([resource])
                (found,) = answer.to_object()["resources"]
                _check(found["error_code"])
                return {entry["config_names"]: entry["config_value"] for entry in found["config_entries"]}

        return _run(work())


def _check(code: int, text: str = "") -> None:
    if code:
        raise ClientError(code, text or for_code(code).__name__)


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
