"""Which configs of topics and brokers are accepted, and what a broker's settings are once stored ones count."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from bifrost.controller.core.image import BROKER_RESOURCE, EVERY_BROKER, GROUP_RESOURCE, TOPIC_RESOURCE, MetadataImage
from bifrost.controller.core.records import ConfigChanged
from bifrost.errors import ApiError, ErrorCode
from bifrost.settings import Settings, TopicConfig, with_dynamic
from bifrost.settings.broker import keys
from bifrost.settings.reading import check_dynamic
from bifrost.settings.topic import check_override, check_together, topic_keys
from bifrost.types import INTERNAL_TOPICS

RESOURCES: Final = {TOPIC_RESOURCE: "topic", BROKER_RESOURCE: "broker", GROUP_RESOURCE: "group"}
"""What has configs, in a word."""
VALUE_BYTES_MAX: Final = 32_767
"""Answers of DescribeConfigs before v4 hold no more. Kafka: ConfigurationControlManager.validateAlterConfig."""


def check_sizes(configs: Iterable[tuple[str, str | None]]) -> None:
    """Values that cannot be described are not stored, whatever they are of."""
    for name, text in configs:
        if text is not None and len(text.encode()) > VALUE_BYTES_MAX:
            raise ApiError(
                ErrorCode.INVALID_CONFIG,
                f"{name}: the value is longer than {VALUE_BYTES_MAX} bytes",
            )


def current_settings(image: MetadataImage, settings: Settings) -> Settings:
    """The settings a broker was started with, under what was stored for every broker, under what was stored for it."""
    return with_dynamic(settings, image.broker_configs(EVERY_BROKER), image.broker_configs(str(settings.node_id)))


def check_topic_configs(settings: Settings, configs: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    """The overrides as they will be stored, or ApiError(INVALID_CONFIG). The last of several values counts."""
    accepted: dict[str, str] = {}
    try:
        for name, text in configs:
            if text is None:
                raise ValueError(f"{name} has no value; leave the config out to use the default")
            accepted[name] = check_override(name, text)
        check_sizes(accepted.items())
        if accepted:
            check_together(TopicConfig.of(settings).override(accepted))
    except ValueError as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from None
    return accepted


def topic_config_records(topic: str, configs: Mapping[str, str]) -> list[ConfigChanged]:
    """The records that give a topic these overrides."""
    return [ConfigChanged(TOPIC_RESOURCE, topic, name, text) for name, text in configs.items()]


def config_note(change: ConfigChanged) -> str:
    """What to tell whoever set this: mostly that it has no effect yet. Nothing of the brokers' own topics."""
    if change.resource_type == BROKER_RESOURCE:
        key = keys().get(change.name)
        return key.note if key is not None else ""
    spec = topic_keys().get(change.name) if change.resource_type == TOPIC_RESOURCE else None
    return spec.key.note if spec is not None and change.resource_name not in INTERNAL_TOPICS else ""


def check_broker_configs(
    image: MetadataImage, settings: Settings, name: str, configs: Mapping[str, str]
) -> dict[str, str]:
    """What will be stored for a broker, or for all of them (""), or ApiError(INVALID_REQUEST), as Kafka has it."""
    own = str(settings.node_id)
    try:
        accepted = {config: check_dynamic(config, text) for config, text in configs.items()}
        layers = {one: image.broker_configs(one) for one in (EVERY_BROKER, own)} | {name: accepted}
        wanted = with_dynamic(settings, layers[EVERY_BROKER], layers[own])
        check_together(TopicConfig.of(wanted))
        _check_cleaners(current_settings(image, settings).log_cleaner_threads, wanted.log_cleaner_threads)
    except ValueError as error:
        raise ApiError(ErrorCode.INVALID_REQUEST, str(error)) from None
    return accepted


def _check_cleaners(current: int, wanted: int) -> None:
    """While a broker runs there is one, and their number at most halves or doubles at once. Kafka: LogCleaner."""
    if wanted != current and not max(1, current // 2) <= wanted <= 2 * current:
        raise ValueError(
            f"log.cleaner.threads={wanted}: expected at least 1, and between half and double of what it is, {current}"
        )
