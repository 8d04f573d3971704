"""Which topics a consumer asked for, as far as the coordinator may look.

What members tell their leader is opaque, but for protocol type `consumer` its beginning is known: every version of
ConsumerProtocolSubscription starts like version 0. Offsets of topics that nobody reads expire, and may be deleted; for
that alone the topics are read. Which partitions a cooperative consumer still owns stands further back and is nobody's
business here.
"""

from __future__ import annotations

from collections.abc import Iterable

from bifrost.errors import ProtocolError
from bifrost.protocol.codec import reader
from bifrost.protocol.schema import I16, Message

CONSUMER_PROTOCOL_TYPE = "consumer"


class ConsumerProtocolSubscription(Message, versions=range(1)):
    """The part that all versions share."""

    version: I16
    topics: list[str]
    user_data: bytes | None


def subscribed_topics(subscriptions: Iterable[bytes]) -> set[str] | None:
    """The topics of all of them; None if one cannot be read."""
    read = reader(ConsumerProtocolSubscription, 0)
    topics: set[str] = set()
    for subscription in subscriptions:
        try:
            topics.update(read(subscription, 0)[0].topics)
        except ProtocolError:
            return None
    return topics
