"""The settings reference (docs/settings.md), written from the tables that the code itself reads."""

from __future__ import annotations

from bifrost.settings.broker import keys
from bifrost.settings.kafka_names import kafka_keys
from bifrost.settings.keys import Key
from bifrost.settings.topic import TopicKey, topic_keys

_INTRODUCTION = """\
# Settings

Made by `make docs` from the tables that a node reads its settings by; `bifrost settings` prints them, too.

A configuration file is Kafka's `server.properties`; `--set name=value` overrides one name. Names and defaults are
Kafka's unless the text says otherwise. A name that Kafka knows and that is of no use here is accepted with a note;
a name that nobody knows is an error that offers the nearest one.
"""
_BROKER = """
## Of a node

Below each name: its default, what it takes, and when a new value takes effect. `read-only`: at the next start.
`cluster-wide` and `per-broker` ones can be changed while nodes run, for one of them or for all
(IncrementalAlterConfigs), and count at once; those that are `per-broker` are mostly not the same everywhere.
"""
_OWN = """
## Of a node, and our own

Kafka does not have these.
"""
_TOPIC = """
## Of a topic

Given when a topic is created, and changed at any time (IncrementalAlterConfigs). What a topic does not set it inherits
from the setting of the node that is named; where there are several, the first that is set counts.
"""
_IGNORED = """
## Accepted without effect

Kafka has these; they are read, checked for their type, and left alone.
"""


def render_markdown() -> str:
    """The whole page: a heading for each name, so that each has an address and the search finds it."""
    ours = [key for key in keys().values() if key.own]
    kafkas = [key for key in keys().values() if not key.own]
    topics = [spec for spec in topic_keys().values() if not spec.internal]
    parts = [
        _INTRODUCTION,
        _BROKER,
        *(_broker_entry(key) for key in kafkas),
        _OWN,
        *(_broker_entry(key) for key in ours),
        _TOPIC,
        *(_topic_entry(spec) for spec in topics),
        _IGNORED,
        "\n" + ", ".join(f"`{name}`" for name in sorted(kafka_keys())) + ".\n",
    ]
    return "".join(parts)


def _broker_entry(key: Key) -> str:
    return _entry(key, _default(key), key.allowed(), f"`{key.update.value}`")


def _topic_entry(spec: TopicKey) -> str:
    names = ", ".join(f"`{synonym.name}`" for synonym in spec.synonyms)
    inherits = f"inherits {names}" if names else ""
    return _entry(spec.key, _default(spec.key), spec.key.allowed(), inherits)


def _entry(key: Key, *facts: str) -> str:
    remark = f" Note: {key.note}." if key.note else ""
    return f"\n#### `{key.name}`\n\n{key.doc}{remark}<br>\n<small>{' · '.join(filter(None, facts))}</small>\n"


def _default(key: Key) -> str:
    text = key.format(key.default)
    return f"default `{text}`" if text else "no default"
