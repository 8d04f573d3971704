"""Which topic configs are accepted, and the records that store them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bifrost.controller.core.image import TOPIC_RESOURCE
from bifrost.controller.core.records import ConfigChanged
from bifrost.errors import ApiError, ErrorCode
from bifrost.settings import Settings, TopicConfig
from bifrost.settings.topic import check_override, check_together


def check_topic_configs(settings: Settings, configs: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    """The overrides as they will be stored, or ApiError(INVALID_CONFIG). The last of several values counts."""
    accepted: dict[str, str] = {}
    try:
        for name, text in configs:
            if text is None:
                raise ValueError(f"{name} has no value; leave the config out to use the default")
            accepted[name] = check_override(name, text)
        if accepted:
            check_together(TopicConfig.of(settings).override(accepted))
    except ValueError as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from None
    return accepted


def topic_config_records(topic: str, configs: Mapping[str, str]) -> list[ConfigChanged]:
    """The records that give a topic these overrides."""
    return [ConfigChanged(TOPIC_RESOURCE, topic, name, text) for name, text in configs.items()]
