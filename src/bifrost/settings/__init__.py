"""Settings of nodes and configs of topics, under Kafka's names: parsing, resolving, describing, documenting.

Text and values only. Nothing in this package reads files, the environment or a clock, or talks to anyone.
"""

from bifrost.settings.broker import Settings
from bifrost.settings.describe import (
    ConfigEntry,
    ConfigSynonym,
    Source,
    TopicDescriber,
    describe_broker,
    describe_every_broker,
    describe_group,
    describe_topic,
)
from bifrost.settings.keys import Kind
from bifrost.settings.listeners import Listener
from bifrost.settings.markdown import render_markdown
from bifrost.settings.properties import parse_properties
from bifrost.settings.reading import parse_settings, with_dynamic
from bifrost.settings.topic import TopicConfig

__all__ = [
    "ConfigEntry",
    "ConfigSynonym",
    "Kind",
    "Listener",
    "Settings",
    "Source",
    "TopicConfig",
    "TopicDescriber",
    "describe_broker",
    "describe_every_broker",
    "describe_group",
    "describe_topic",
    "parse_properties",
    "parse_settings",
    "render_markdown",
    "with_dynamic",
]
