"""The part of `Admin` that knows topics and what their partitions hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from datetime import datetime
from typing import TYPE_CHECKING, Any

from bifrost.client.admin_session import AdminSession, only
from bifrost.client.descriptions import Offsets, PartitionDescription, TopicDescription, TopicListing
from bifrost.client.errors import (
    ConfigError,
    TopicExistsError,
    UnknownPartitionError,
    UnknownTopicError,
    from_kafka,
    nearest,
)

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient, OffsetSpec

CLUSTER_DECIDES = -1


class TopicAdmin(AdminSession):
    """Topics: list, describe, create, delete, grow, and find offsets."""

    def topics(self, *, internal: bool = False) -> list[TopicListing]:
        """All topics by name; those that belong to the brokers only on request."""
        found = self._describe(self._topic_names())
        return [topic.listing() for topic in found if internal or not topic.internal]

    def topic(self, name: str) -> TopicDescription:
        """A topic with its partitions: leader, replicas, and the offsets they hold.

        >>> admin.topic("readings").partitions[0].end_offset
        0
        """
        topic = self._known(name)
        offsets = self._offsets(topic)
        partitions = []
        for each in topic.partitions:
            held = offsets.get(each.partition)
            start, end = (held.start, held.end) if held is not None else (None, None)
            partitions.append(PartitionDescription(each.partition, each.leader, each.replicas, each.isr, start, end))
        return TopicDescription(topic.name, topic.id, topic.internal, tuple(partitions))

    def create_topic(
        self,
        name: str,
        partitions: int | None = None,
        replication_factor: int | None = None,
        config: Mapping[str, object] | None = None,
        *,
        exist_ok: bool = False,
    ) -> bool:
        """Create a topic and wait until it can be used; what is not given is up to the cluster.

        Returns whether it was created: with `exist_ok`, a topic that is there already is left as it is.

        >>> admin.create_topic("orders", partitions=3, config={"retention.ms": 86_400_000})
        True
        """
        from confluent_kafka.admin import NewTopic

        new = NewTopic(
            name,
            CLUSTER_DECIDES if partitions is None else partitions,
            CLUSTER_DECIDES if replication_factor is None else replication_factor,
            config={key: setting_text(value) for key, value in (config or {}).items()},
        )
        try:
            self._ask(lambda client: only(client.create_topics([new], **self._limits())), topic=name)
        except TopicExistsError:
            if exist_ok:
                return False
            raise
        except ConfigError as error:
            from bifrost.settings.topic import topic_keys

            raise refusal(error, config or {}, topic_keys()) from error
        self._until(lambda: self._is_usable(name))
        return True

    def delete_topic(self, name: str, *, missing_ok: bool = False) -> bool:
        """Delete a topic with everything in it. Returns whether it was there."""
        try:
            self._ask(lambda client: only(client.delete_topics([name], **self._limits())), topic=name)
        except UnknownTopicError as error:
            if missing_ok:
                return False
            raise self._unknown_topic(name) from error
        self._until(lambda: name not in self._topic_names())
        return True

    def add_partitions(self, name: str, total: int) -> None:
        """Grow a topic to `total` partitions. Messages stay where they are, so keys may now go elsewhere."""
        from confluent_kafka.admin import NewPartitions

        grown = NewPartitions(name, total)
        try:
            self._ask(lambda client: only(client.create_partitions([grown], **self._limits())), topic=name)
        except UnknownTopicError as error:
            raise self._unknown_topic(name) from error
        self._until(lambda: self._is_usable(name, total))

    def offsets(self, topic: str) -> dict[int, Offsets]:
        """The first and the next offset of every partition that has a leader."""
        return self._offsets(self._known(topic))

    def offsets_at(self, topic: str, moment: datetime | int) -> dict[int, int]:
        """For every partition with a leader, where messages of that time or later begin; the end if there are none.

        A number means milliseconds since 1970; a datetime without a time zone means local time, as ever in Python.
        """
        from confluent_kafka.admin import OffsetSpec

        described = self._known(topic)
        spec = OffsetSpec.for_timestamp(moment if isinstance(moment, int) else int(moment.timestamp() * 1000))
        found = self._find(described, spec)
        ends = self._find(described, OffsetSpec.latest())
        return {partition: offset if offset >= 0 else ends[partition] for partition, offset in found.items()}

    def _topic_names(self) -> list[str]:
        from confluent_kafka import KafkaException

        if not self._answered:
            self._ask(lambda client: client.describe_cluster(**self._limits()))  # Ctrl-C works here, and not below
        try:
            return sorted(self._open.list_topics(timeout=self.timeout_s).topics)
        except KafkaException as error:
            raise from_kafka(error, bootstrap=self.bootstrap) from error

    def _describe(self, names: Iterable[str]) -> list[TopicDescription]:
        """Those of the topics that exist: others may come and go meanwhile."""
        from confluent_kafka import TopicCollection

        wanted = list(names)
        if not wanted:
            return []

        def call(client: AdminClient) -> Mapping[Any, Future[Any]]:
            return client.describe_topics(TopicCollection(wanted), **self._limits())

        return [_topic(each) for each in self._ask_each(call, skipped="UNKNOWN_TOPIC_OR_PART").values()]

    def _known(self, name: str) -> TopicDescription:
        found = self._describe([name])
        if not found:
            raise self._unknown_topic(name)
        return found[0]

    def _unknown_topic(self, name: str) -> UnknownTopicError:
        hint = nearest(name, self._topic_names()) or f"Check the name, or create it: `bifrost topic create {name}`."
        return UnknownTopicError(f"topic {name} does not exist", hint, code="UNKNOWN_TOPIC_OR_PART")

    def _check_partitions(self, topic: TopicDescription, partitions: Iterable[int]) -> None:
        count = len(topic.partitions)
        for partition in partitions:
            if not 0 <= partition < count:
                there = "only partition 0" if count == 1 else f"partitions 0 to {count - 1}"
                raise UnknownPartitionError(f"topic {topic.name} has no partition {partition}", f"It has {there}.")

    def _is_usable(self, name: str, partitions: int = 1) -> bool:
        found = self._describe([name])
        return bool(found) and (
            len(found[0].partitions) >= partitions and all(each.leader is not None for each in found[0].partitions)
        )

    def _offsets(self, topic: TopicDescription) -> dict[int, Offsets]:
        from confluent_kafka.admin import OffsetSpec

        starts, ends = self._find(topic, OffsetSpec.earliest()), self._find(topic, OffsetSpec.latest())
        return {partition: Offsets(start, ends[partition]) for partition, start in starts.items() if partition in ends}

    def _find(self, topic: TopicDescription, spec: OffsetSpec) -> dict[int, int]:
        from confluent_kafka import TopicPartition as Place

        led = [each.partition for each in topic.partitions if each.leader is not None]
        if not led:
            return {}

        def call(client: AdminClient) -> Mapping[Any, Future[Any]]:
            return client.list_offsets({Place(topic.name, each): spec for each in led}, **self._limits())

        found = self._ask_each(call, topic=topic.name)
        return {place.partition: each.offset for place, each in found.items()}


def setting_text(value: object) -> str:
    """A setting as Kafka spells it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def refusal(error: ConfigError, settings: Iterable[str], known: Iterable[str]) -> ConfigError:
    """The cluster's refusal, with the nearest name that there is if it is about one that there is not."""
    names = set(known)
    unknown = [name for name in settings if name not in names]
    hint = nearest(unknown[0], names) if unknown else error.hint
    if "did you mean" in error.problem:  # a Bifrost cluster says so itself
        hint = ""
    return ConfigError(error.problem, hint, code=error.code)


def _topic(described: Any) -> TopicDescription:
    topic_id = str(described.topic_id).replace("+", "-").replace("/", "_")  # as Kafka spells it
    return TopicDescription(
        described.name, topic_id, described.is_internal, tuple(map(_partition, described.partitions))
    )


def _partition(info: Any) -> PartitionDescription:
    return PartitionDescription(
        info.id,
        info.leader.id if info.leader is not None and info.leader.id >= 0 else None,
        tuple(node.id for node in info.replicas),
        tuple(node.id for node in info.isr),
    )
