"""The topics that the cluster makes for itself, when somebody first needs them.

Their settings ask for three replicas by default, and Kafka waits until there are so many brokers. Here they have as
many as there are brokers, if that is less, so that one node works without a word of configuration (ADR 0011). A number
that somebody has set is taken as it is.
"""

from __future__ import annotations

from bifrost.controller.core.topics import NewTopic
from bifrost.coordinator.router import OFFSETS_TOPIC
from bifrost.settings import Settings


def new_topic(name: str, settings: Settings, brokers: int) -> NewTopic:
    """What to create when a topic is needed that nobody has described: an internal one has settings of its own.

    `brokers` are registered, of whom some may not be up at the moment.
    """
    if name != OFFSETS_TOPIC:
        return NewTopic(name)
    replicas = settings.offsets_topic_replication_factor
    if "offsets.topic.replication.factor" not in settings.given:
        replicas = min(replicas, brokers)
    return NewTopic(
        name,
        partitions=settings.offsets_topic_num_partitions,
        replication_factor=replicas,
        configs=(
            ("cleanup.policy", "compact"),
            ("compression.type", "producer"),
            ("segment.bytes", str(settings.offsets_topic_segment_bytes)),
        ),
    )
