"""The clients that fixtures and helpers use, one set for each cluster: kept while tests run, closed before the broker.

A client that outlives its broker prints connection errors into somebody's test output; so these have an end, and say
what they have to say to Python's logging instead of stderr. Works with any cluster that speaks Kafka's protocol.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from functools import cached_property
from itertools import starmap
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from bifrost.client.admin import Admin
from bifrost.client.errors import TimedOutError, UnknownTopicError, from_kafka
from bifrost.testing.record import ANY, Record, encode, header_pairs

_log = logging.getLogger(__name__)

TIMEOUT_S = 10.0
REACH_S = 5.0
CONFIG: dict[str, Any] = {"log.connection.close": False, "broker.address.family": "v4"}


class Clients:
    """A producer and an admin client of one cluster, made when they are first used."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._deletions: list[Future[None]] = []

    @cached_property
    def _admin(self) -> AdminClient:
        return AdminClient({**CONFIG, "bootstrap.servers": self.bootstrap}, logger=_log)

    @cached_property
    def _producer(self) -> Producer:
        config = {
            **CONFIG,
            "bootstrap.servers": self.bootstrap,
            # A retry must not change the order. (Idempotence would, but costs the first produce half a second.)
            "max.in.flight.requests.per.connection": 1,
            "partitioner": "murmur2_random",
            "linger.ms": 1,
        }
        return Producer(config, logger=_log)

    def create_topic(self, name: str, partitions: int | None, config: Mapping[str, object]) -> None:
        """Returns once the topic can be written and read."""
        settings = {key: str(value) for key, value in config.items()}
        new = NewTopic(name, -1 if partitions is None else partitions, -1, config=settings)
        self._result(self._admin.create_topics([new], request_timeout=TIMEOUT_S)[name], topic=name)
        self.await_topic(name, time.monotonic() + TIMEOUT_S)

    def await_topic(self, name: str, deadline: float) -> list[int]:
        """The topic's partitions, once it exists and each of them has a leader."""
        while (partitions := self._ready_partitions(name)) is None:
            if time.monotonic() > deadline:
                hint = "Did the code under test write to another topic, or to another cluster?"
                raise UnknownTopicError(f"topic {name} does not exist at {self.bootstrap}", hint)
            time.sleep(0.01)
        return partitions

    def _ready_partitions(self, name: str) -> list[int] | None:
        asked = self._admin.describe_topics(TopicCollection([name]), request_timeout=TIMEOUT_S)[name]
        try:
            found = asked.result()
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return None
            raise from_kafka(error, topic=name, bootstrap=self.bootstrap) from None
        led = all(partition.leader is not None and partition.leader.id >= 0 for partition in found.partitions)
        return [partition.id for partition in found.partitions] if led else None

    def delete_topic(self, name: str) -> None:
        """Asks for it and does not wait: the next test has no use for the answer."""
        self._deletions = [each for each in self._deletions if not each.done()]
        self._deletions.append(self._admin.delete_topics([name], request_timeout=TIMEOUT_S)[name])

    def produce(self, topic: str, records: Sequence[Record], timeout_s: float) -> list[Record]:
        """Sends the records in their order and returns them as they were stored."""
        stored: list[Record | None] = [None] * len(records)
        failures: list[KafkaError] = []

        def stored_as(number: int) -> Any:
            def delivered(error: KafkaError | None, message: Message) -> None:
                if error is not None:
                    failures.append(error)
                else:
                    stored[number] = read_record(message)

            return delivered

        __tracebackhide__ = True
        prepared = list(starmap(_arguments, enumerate(records)))  # all are sent, or none
        deadline = time.monotonic() + timeout_s
        for number, arguments in enumerate(prepared):
            self._send(topic, arguments, stored_as(number), deadline)
        self._producer.flush(max(0.0, deadline - time.monotonic()))
        if failures:
            raise from_kafka(failures[0], topic=topic, bootstrap=self.bootstrap)
        done = [record for record in stored if record is not None]
        if len(done) < len(records):
            problem = (
                f"{self.bootstrap} acknowledged {len(done)} of {len(records)} records for {topic} in {timeout_s} s"
            )
            raise TimedOutError(problem, "Is it running?")
        return done

    def _send(self, topic: str, arguments: Mapping[str, Any], delivered: Any, deadline: float) -> None:
        while True:
            try:
                self._producer.produce(topic, on_delivery=delivered, **arguments)
            except BufferError:
                if time.monotonic() > deadline:
                    return  # what is not acknowledged is counted in the end
                self._producer.poll(0.1)
            except KafkaException as error:
                raise from_kafka(error, topic=topic, bootstrap=self.bootstrap) from None
            else:
                return

    def broker_ids(self) -> list[int]:
        """The brokers of the cluster; an error that says why if nobody is there."""
        with Admin(self.bootstrap, timeout_s=REACH_S, config=CONFIG) as admin:
            return sorted(broker.id for broker in admin.cluster().brokers)

    def broker_settings(self, broker_id: int) -> dict[str, str | None]:
        """The settings of a broker as it reports them."""
        resource = ConfigResource(ResourceType.BROKER, str(broker_id))
        asked = self._admin.describe_configs([resource], request_timeout=TIMEOUT_S)[resource]
        return {name: entry.value for name, entry in self._result(asked).items()}

    def start_offsets(self, topic: str, partitions: Sequence[int]) -> dict[int, int]:
        """The offsets of the partitions' first records."""
        return self._offsets(topic, partitions, OffsetSpec.earliest())

    def end_offsets(self, topic: str, partitions: Sequence[int]) -> dict[int, int]:
        """The offsets that the partitions' next records will get."""
        return self._offsets(topic, partitions, OffsetSpec.latest())

    def _offsets(self, topic: str, partitions: Sequence[int], which: OffsetSpec) -> dict[int, int]:
        wanted = {TopicPartition(topic, each): which for each in partitions}
        asked = self._admin.list_offsets(wanted, request_timeout=TIMEOUT_S)
        return {place.partition: self._result(found, topic=topic).offset for place, found in asked.items()}

    def _result(self, asked: Future[Any], *, topic: str | None = None) -> Any:
        try:
            return asked.result()
        except KafkaException as error:
            raise from_kafka(error, topic=topic, bootstrap=self.bootstrap) from None

    def close(self) -> None:
        """Waits for what is under way; a topic that cannot be deleted any more is no concern of the tests."""
        for deletion in self._deletions:
            deletion.exception(TIMEOUT_S)
        self._deletions.clear()
        self.__dict__.pop("_producer", None)
        self.__dict__.pop("_admin", None)


def _arguments(number: int, record: Record) -> dict[str, Any]:
    """What librdkafka takes; TypeError with the record's number if something of it cannot be sent."""
    __tracebackhide__ = True
    try:
        arguments = {
            "value": encode(record.value),
            "key": encode(record.key),
            "headers": header_pairs(record.headers),
        }
    except TypeError as error:
        problem = f"record {number}: {error}"
    else:
        given = {"partition": record.partition, "timestamp": record.timestamp_ms}
        return arguments | {name: value for name, value in given.items() if value is not ANY}
    raise TypeError(problem)


def read_record(message: Message) -> Record:
    """What librdkafka gives, as a test sees it."""
    return Record(
        value=message.value(),
        key=message.key(),
        headers=tuple(message.headers() or ()),
        partition=message.partition(),
        offset=message.offset(),
        timestamp_ms=message.timestamp()[1],
    )
