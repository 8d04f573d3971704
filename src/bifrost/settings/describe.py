"""Configs as DescribeConfigs and CreateTopics report them: value, where it comes from, and what it overrides.

A topic config is looked for in the topic, then in the broker settings it inherits from, each of which is looked for in
this broker's stored changes, the cluster-wide ones, the configuration file, and the defaults (KIP-226). The first hit
is the value; the rest are its synonyms, strongest first. Nothing here changes a config.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from bifrost.settings.broker import Settings, keys
from bifrost.settings.group import group_keys
from bifrost.settings.kafka_names import kafka_keys
from bifrost.settings.keys import Key, Kind, Update
from bifrost.settings.reading import with_dynamic
from bifrost.settings.topic import TopicConfig, topic_keys


class Source(IntEnum):
    """Where a value was found; the numbers are those of the wire."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT = 3
    STATIC = 4
    DEFAULT = 5
    GROUP = 8


class ConfigSynonym(NamedTuple):
    """One place that has a value for a config."""

    name: str
    value: str | None
    source: Source


class ConfigEntry(NamedTuple):
    """One config of a topic or broker, ready for the wire."""

    name: str
    value: str | None
    read_only: bool
    source: Source
    is_sensitive: bool
    synonyms: tuple[ConfigSynonym, ...]
    kind: Kind
    documentation: str


_NOTHING: Mapping[str, str] = {}


class TopicDescriber:
    """Describes topics of one broker. What topics inherit is worked out once, not for every topic."""

    def __init__(
        self,
        settings: Settings,
        *,
        dynamic_broker: Mapping[str, str] = _NOTHING,
        dynamic_default: Mapping[str, str] = _NOTHING,
    ) -> None:
        config = TopicConfig.of(with_dynamic(settings, dynamic_default, dynamic_broker))
        self._inherited: dict[str, ConfigEntry] = {}
        for name, spec in topic_keys().items():
            synonyms = [
                found
                for synonym in spec.synonyms
                for found in _broker_synonyms(settings, keys()[synonym.name], dynamic_broker, dynamic_default)
            ]
            if spec.synonyms and all(found.source is Source.DEFAULT for found in synonyms):
                # Kafka leaves out a default that stands behind a setting without one (log.roll.hours for segment.ms).
                synonyms = [found for found in synonyms if found.name == spec.synonyms[0].name]
            source = synonyms[0].source if synonyms else Source.DEFAULT
            value = spec.key.format(getattr(config, spec.attribute))
            self._inherited[name] = ConfigEntry(
                name, value, False, source, False, tuple(synonyms), spec.key.kind, spec.key.doc
            )
        self._internal = [name for name, spec in topic_keys().items() if spec.internal]

    def describe(self, overrides: Mapping[str, str]) -> list[ConfigEntry]:
        """Every config of a topic that has these overrides, by name; internal ones only when they are set."""
        entries = self._inherited.copy()
        for name, text in overrides.items():
            beneath = entries[name]
            synonyms = (ConfigSynonym(name, text, Source.TOPIC), *beneath.synonyms)
            entries[name] = beneath._replace(value=text, source=Source.TOPIC, synonyms=synonyms)
        for name in self._internal:
            if name not in overrides:
                del entries[name]
        return list(entries.values())


def describe_topic(
    settings: Settings,
    overrides: Mapping[str, str],
    *,
    dynamic_broker: Mapping[str, str] = _NOTHING,
    dynamic_default: Mapping[str, str] = _NOTHING,
) -> list[ConfigEntry]:
    """The configs of a single topic; for many of them keep a `TopicDescriber`."""
    describer = TopicDescriber(settings, dynamic_broker=dynamic_broker, dynamic_default=dynamic_default)
    return describer.describe(overrides)


def describe_broker(
    settings: Settings,
    *,
    dynamic_broker: Mapping[str, str] = _NOTHING,
    dynamic_default: Mapping[str, str] = _NOTHING,
) -> list[ConfigEntry]:
    """Every setting of a broker that has an effect, and those of Kafka's others that were set, by name."""
    ignored = {name: kafka_keys()[name] for name in settings.given if name not in keys()}
    entries = []
    for name, key in sorted((keys() | ignored).items()):
        synonyms = _broker_synonyms(settings, key, dynamic_broker, dynamic_default)
        sensitive = key.kind is Kind.PASSWORD
        if sensitive:
            synonyms = [found._replace(value=None) for found in synonyms]
        first = synonyms[0] if synonyms else ConfigSynonym(name, None, Source.DEFAULT)
        read_only = key.update is Update.READ_ONLY
        entries.append(
            ConfigEntry(name, first.value, read_only, first.source, sensitive, tuple(synonyms), key.kind, key.doc)
        )
    return entries


def describe_group(
    settings: Settings,
    overrides: Mapping[str, str],
    *,
    dynamic_broker: Mapping[str, str] = _NOTHING,
    dynamic_default: Mapping[str, str] = _NOTHING,
) -> list[ConfigEntry]:
    """The configs of a group, whether it exists or not."""
    entries = []
    for name, spec in group_keys().items():
        synonyms = _broker_synonyms(settings, keys()[spec.inherits], dynamic_broker, dynamic_default)
        if name in overrides:
            synonyms.insert(0, ConfigSynonym(name, overrides[name], Source.GROUP))
        first, key = synonyms[0], spec.key
        entries.append(ConfigEntry(name, first.value, False, first.source, False, tuple(synonyms), key.kind, key.doc))
    return entries


def describe_every_broker(dynamic_default: Mapping[str, str]) -> list[ConfigEntry]:
    """What was stored for all brokers; what a single one makes of it is not told here."""
    entries = []
    for name in sorted(keys().keys() & dynamic_default):
        key, text = keys()[name], dynamic_default[name]
        synonyms = (ConfigSynonym(name, text, Source.DYNAMIC_DEFAULT),)
        entries.append(ConfigEntry(name, text, False, Source.DYNAMIC_DEFAULT, False, synonyms, key.kind, key.doc))
    return entries


def _broker_synonyms(
    settings: Settings, key: Key, dynamic_broker: Mapping[str, str], dynamic_default: Mapping[str, str]
) -> list[ConfigSynonym]:
    """Everywhere that one broker setting has a value, strongest first."""
    found = [
        ConfigSynonym(key.name, layer[key.name], source)
        for layer, source in ((dynamic_broker, Source.DYNAMIC_BROKER), (dynamic_default, Source.DYNAMIC_DEFAULT))
        if key.name in layer
    ]
    static = settings.given.get(key.name)
    if static is None and key.name in keys() and settings.value(key.name) != key.default:
        static = key.format(settings.value(key.name))  # set in code, as embedded clusters do
    if static is not None:
        found.append(ConfigSynonym(key.name, static, Source.STATIC))
    if key.default is not None:
        found.append(ConfigSynonym(key.name, key.format(key.default), Source.DEFAULT))
    return found
