"""Topics that a broker has made because somebody needs them: it asks the controller as a client would."""

from __future__ import annotations

from collections.abc import Sequence

from bifrost.broker.controller_channel import ControllerChannel
from bifrost.controller.core.topics import NewTopic
from bifrost.errors import ErrorCode
from bifrost.protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)


async def create_topics(channel: ControllerChannel, wanted: Sequence[NewTopic]) -> dict[str, ErrorCode]:
    """How each of them went; ApiError if no controller can be asked, or if it refuses them all."""
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=topic.name,
                num_partitions=topic.partitions,
                replication_factor=topic.replication_factor,
                configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs],
            )
            for topic in wanted
        ]
    )
    answer = await channel.ask(request, CreateTopicsResponse)
    return {topic.name: ErrorCode(topic.error_code) for topic in answer.topics}
