"""The cluster's topics as the group coordinator asks for them: it knows nothing of the metadata image."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from uuid import UUID

from bifrost.controller.core.image import MetadataImage


class KnownTopics:
    """See `coordinator.core.environment.Topics`."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image

    def partitions(self, name: str) -> int | None:
        topic = self._image.topics.get(name)
        return None if topic is None else len(topic.partitions)

    def topic_id(self, name: str) -> UUID | None:
        topic = self._image.topics.get(name)
        return None if topic is None else _uuid(topic.topic_id)

    def name(self, topic_id: UUID) -> str | None:
        topic = self._image.topics_by_id.get(topic_id.bytes)
        return None if topic is None else topic.name

    def names(self) -> Iterable[str]:
        return self._image.topics.keys()


@lru_cache(maxsize=4096)
def _uuid(topic_id: bytes) -> UUID:
    """Every commit asks, and to make one takes as long as to read the request."""
    return UUID(bytes=topic_id)
