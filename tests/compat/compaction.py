"""A topic that the cleaner of Apache Kafka has been through: offsets that are gone, markers, empty batches."""

from __future__ import annotations

from collections import Counter

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from tests.compat import wire
from tests.compat.conftest import unique_name
from tests.spark.records import Seen, consume, produce
from tests.waiting import eventually

CLEANER = {"log_cleaner_backoff_ms": "100"}
"""For a broker of one's own: the cleaner looks for work much more often."""
_CLEANED_SOON = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.001",
    "segment.ms": "50",
    "delete.retention.ms": "0",
}
_FILLER = b"filler"
"""Written until a segment has ended: the last one is never cleaned."""


def compacted_topic(bootstrap: str) -> tuple[str, list[Seen]]:
    """Its name, and what librdkafka reads of it under read_committed. Nothing is written or cleaned any more."""
    topic = unique_name()
    wire.create_topic(bootstrap, topic, 1, _CLEANED_SOON)
    for number in range(4):
        for first in range(0, 30, 5):  # batches of which all records, some, or none stay
            rows = [{"key": f"{each}", "value": f"{number}-{each}"} for each in range(first, first + 5)]
            produce(bootstrap, topic, [row for row in rows if (int(row["key"]) + number) % 4 or number == 0])
        _transaction(bootstrap, topic, number)

    def clean() -> bool:
        produce(bootstrap, topic, [{"key": _FILLER, "value": "x"}])
        counts = Counter(each.key for each in consume(bootstrap, topic))
        return all(count == 1 for key, count in counts.items() if key != _FILLER)

    eventually(clean, "the cleaner has been through all")
    _leave_alone(bootstrap, topic)
    seen = consume(bootstrap, topic)
    assert len(seen) < seen[-1].offset, "there are gaps"
    return topic, seen


def _leave_alone(bootstrap: str, topic: str) -> None:
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in (("cleanup.policy", "delete"), ("retention.ms", "-1"))
    ]
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result()


def _transaction(bootstrap: str, topic: str, number: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": unique_name()})
    producer.init_transactions()
    producer.begin_transaction()
    for each in range(3):
        producer.produce(topic, key=f"t{each}", value=f"t{number}-{each}")
    producer.flush()
    producer.commit_transaction() if number % 2 == 0 else producer.abort_transaction()
