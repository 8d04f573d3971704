"""Admin clients that delete records, of three libraries and our own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as RdPartition
from confluent_kafka.admin import AdminClient as RdAdmin

from bifrost import Admin
from bifrost.client.errors import BifrostError, OffsetOutOfRangeError
from tests.compat.clients.base import TIMEOUT_S, ClientError
from tests.compat.clients.driven import Java
from tests.compat.clients.kafka_python import KafkaAdminClient, KafkaError, TopicPartition, error_code


class RecordAdmin(ABC):
    """Deletes what lies before an offset in one partition."""

    name: ClassVar[str]

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    @abstractmethod
    def delete_before(self, topic: str, partition: int, offset: int) -> int:
        """Where the partition begins now; -1 stands for all that is there."""


class ConfluentRecords(RecordAdmin):
    name = "confluent"

    def delete_before(self, topic: str, partition: int, offset: int) -> int:
        admin = RdAdmin({"bootstrap.servers": self.bootstrap})
        (done,) = admin.delete_records([RdPartition(topic, partition, offset)], request_timeout=TIMEOUT_S).values()
        try:
            return int(done.result(TIMEOUT_S).low_watermark)
        except KafkaException as error:
            raise ClientError(error.args[0].code(), str(error)) from error


class KafkaPythonRecords(RecordAdmin):
    name = "kafka-python"

    def delete_before(self, topic: str, partition: int, offset: int) -> int:
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap)
        try:
            (found,) = admin.delete_records({TopicPartition(topic, partition): offset}).values()
            return int(found["low_watermark"])
        except KafkaError as error:
            raise ClientError(error_code(error), repr(error)) from error
        finally:
            admin.close()


class JavaRecords(RecordAdmin):
    name = "java"

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self._driver = Java(bootstrap)

    def delete_before(self, topic: str, partition: int, offset: int) -> int:
        return int(self._driver.call("delete_records", topic=topic, partition=partition, offset=offset))


class BifrostRecords(RecordAdmin):
    """Asks where partitions end first, and refuses by itself what the broker would refuse."""

    name = "bifrost"

    def delete_before(self, topic: str, partition: int, offset: int) -> int:
        with Admin(self.bootstrap) as admin:
            before = None if offset == -1 else {partition: offset}
            try:
                (found,) = admin.delete_records(topic, before, partitions=[partition] if before is None else None)
            except OffsetOutOfRangeError as error:
                raise ClientError(1, str(error)) from error
            except BifrostError as error:
                code = {"UNKNOWN_TOPIC_OR_PART": 3, "POLICY_VIOLATION": 44, "TOPIC_EXCEPTION": 17}[str(error.code)]
                raise ClientError(code, str(error)) from error
        return found.new_start


RECORD_ADMINS: dict[str, type[RecordAdmin]] = {
    each.name: each for each in (ConfluentRecords, KafkaPythonRecords, JavaRecords, BifrostRecords)
}
