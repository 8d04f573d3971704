"""The topics that the cluster makes for itself, when somebody first needs them.

Their settings ask for three replicas by default, and Kafka waits until there are so many brokers. Here they have one:
partitions are not replicated yet, and one node works without a word of configuration (ADR 0011).
"""

from __future__ import annotations

from bifrost.controller.core.topics import NewTopic
from bifrost.coordinator.router import OFFSETS_TOPIC
from bifrost.settings import Settings


def new_topic(name: str, settings: Settings) -> NewTopic:
    """What to create when a topic is needed that nobody has described: an internal one has settings of its own."""
    if name != OFFSETS_TOPIC:
        return NewTopic(name)
    return NewTopic(
        name,
        partitions=settings.offsets_topic_num_partitions,
        replication_factor=1,
        configs=(
            ("cleanup.policy", "compact"),
            ("compression.type", "producer"),
            ("segment.bytes", str(settings.offsets_topic_segment_bytes)),
        ),
    )
