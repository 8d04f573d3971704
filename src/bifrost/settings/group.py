"""The configs of a single consumer group (KIP-848, KIP-1263): their names, bounds, and which setting each one inherits.

Those of share and streams groups, of which there are none here, are not known. Text and values only.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from bifrost.settings.broker import Settings
from bifrost.settings.broker import keys as broker_keys
from bifrost.settings.keys import Key, Update
from bifrost.settings.reading import nearest

SESSION_TIMEOUT = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL = "consumer.heartbeat.interval.ms"
ASSIGNMENT_INTERVAL = "consumer.assignment.interval.ms"


class GroupKey(NamedTuple):
    """A config of a group: its key, the setting it inherits from, and those that bound it."""

    key: Key
    inherits: str
    least: str
    most: str


@cache
def group_keys() -> dict[str, GroupKey]:
    """Every config of a group by name, sorted."""
    return {name: _of(name) for name in (ASSIGNMENT_INTERVAL, HEARTBEAT_INTERVAL, SESSION_TIMEOUT)}


def _of(name: str) -> GroupKey:
    inherits = f"group.{name}"
    parent, what = broker_keys()[inherits], name.removeprefix("consumer.")
    key = Key(name, parent.kind, parent.default, parent.doc, parent.at_least, update=Update.CLUSTER_WIDE)
    return GroupKey(key, inherits, f"group.consumer.min.{what}", f"group.consumer.max.{what}")


def check_group_configs(settings: Settings, configs: Mapping[str, str]) -> dict[str, str]:
    """The configs as they will be stored; ValueError tells what is wrong. Kafka: GroupConfig.validate."""
    values = {name: _number(settings, spec.inherits) for name, spec in group_keys().items()}
    for name, text in configs.items():
        spec = group_keys().get(name)
        if spec is None:
            raise ValueError(f"unknown group config {name}{nearest(name, group_keys())}")
        value = spec.key.parse(text)
        assert isinstance(value, int), f"{name} is a number"
        least, most = _number(settings, spec.least), _number(settings, spec.most)
        if not least <= value <= most:
            raise ValueError(f"{name}={value}: expected {least} to {most}, which {spec.least} and {spec.most} say")
        values[name] = value
    if configs and values[SESSION_TIMEOUT] <= values[HEARTBEAT_INTERVAL]:
        raise ValueError(f"{SESSION_TIMEOUT} has to be more than {HEARTBEAT_INTERVAL}")
    return {name: str(values[name]) for name in configs}


def _number(settings: Settings, name: str) -> int:
    value = settings.value(name)
    assert isinstance(value, int), f"{name} is a number"
    return value
