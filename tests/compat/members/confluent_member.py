"""confluent-kafka (librdkafka) as a member, of both protocols."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.compat.members.worker import POLL_S, RECORDS_MAX, CommitError, Member, Offsets, Place


class ConfluentMember(Member):
    def open(self) -> None:
        spec = self.spec
        config: dict[str, Any] = {
            "bootstrap.servers": spec.bootstrap,
            "group.id": spec.group,
            "client.id": self.name,
            "group.protocol": spec.protocol,
            "auto.offset.reset": spec.reset,
            "enable.auto.commit": spec.commit == "auto",
            "auto.commit.interval.ms": 200,
            "fetch.wait.max.ms": 50,
            "max.poll.interval.ms": spec.max_poll_ms,
            "topic.metadata.refresh.interval.ms": 300,
            "on_commit": self._on_commit,
        }
        if spec.protocol == "classic":
            # A broker that assigns has these two in its own settings.
            config |= {"session.timeout.ms": spec.session_ms, "heartbeat.interval.ms": spec.heartbeat_ms}
        if spec.instance is not None:
            config["group.instance.id"] = spec.instance
        if spec.assignor is not None:
            name = "group.remote.assignor" if spec.protocol == "consumer" else "partition.assignment.strategy"
            config[name] = spec.assignor
        self._consumer = Consumer(config)
        self._consumer.subscribe(
            [spec.pattern] if spec.pattern is not None else list(spec.topics),
            on_assign=lambda _, places: self.on_assigned(_places(places)),
            on_revoke=lambda _, places: self.on_revoked(_places(places)),
            on_lost=lambda _, places: self.on_lost(_places(places)),
        )

    def poll(self) -> None:
        """One by one: callbacks run inside the call, and must find told what was read before them."""
        timeout_s = POLL_S
        for _ in range(RECORDS_MAX):
            message = self._consumer.poll(timeout_s)
            if message is None:
                return
            error = message.error()
            if error is None:
                topic, partition, offset, value = (
                    message.topic(),
                    message.partition(),
                    message.offset(),
                    message.value(),
                )
                assert topic is not None
                assert partition is not None
                assert offset is not None
                assert isinstance(value, bytes)
                self.took(topic, partition, offset, value)
            elif not _passing(error):
                raise KafkaException(error)
            timeout_s = 0.0

    def commit_now(self, offsets: Offsets) -> None:
        try:
            self._consumer.commit(offsets=_positions(offsets), asynchronous=False)
        except KafkaException as error:
            raise CommitError(error.args[0].str()) from error

    def commit_later(self, offsets: Offsets, told: list[list[Any]]) -> None:
        self._consumer.commit(offsets=_positions(offsets), asynchronous=True)

    def _on_commit(self, error: KafkaError | None, places: list[TopicPartition]) -> None:
        """For asynchronous and automatic commits; a commit of nothing is no news."""
        told = [[place.topic, place.partition, place.offset] for place in places if place.offset >= 0]
        if error is None and told:
            self.tell(committed=told)
        elif error is not None and error.code() != KafkaError._NO_OFFSET:
            self.tell(commit_failed=told, text=error.str())

    def close(self) -> None:
        self._consumer.close()


def _passing(error: KafkaError) -> bool:
    """What a loop that polls on gets over."""
    return error.retriable() or error.code() in {
        KafkaError._PARTITION_EOF,
        KafkaError._MAX_POLL_EXCEEDED,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TRANSPORT,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
    }


def _places(places: list[TopicPartition]) -> list[Place]:
    return [(place.topic, place.partition) for place in places]


def _positions(offsets: Offsets) -> list[TopicPartition]:
    return [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]


MEMBER = ConfluentMember
