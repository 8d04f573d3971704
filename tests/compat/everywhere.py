"""A new topic is known at one broker first: who may ask any of them next waits here until all know it."""

from __future__ import annotations

from bifrost.protocol.messages.cluster import MetadataRequest, MetadataRequestTopic
from tests.integration.wire import Wire
from tests.waiting import eventually

_VERSION = 9


def wait_until_known(bootstrap: str, topic: str) -> None:
    for broker in bootstrap.split(","):
        eventually(lambda broker=broker: _knows(broker, topic), f"{topic} is known at {broker}")  # type: ignore[misc]


def _knows(broker: str, topic: str) -> bool:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    with Wire(broker) as wire:
        (found,) = wire.call(_VERSION, request).topics
    return not found.error_code and all(not partition.error_code for partition in found.partitions)
