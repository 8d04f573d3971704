"""From names and text to `Settings`: what is refused, and what is accepted with a remark.

A name that Kafka knows and we have no use for is accepted with a note. A name that nobody knows is an error that
offers the nearest known one. Every problem is reported at once, so that a file is mended in one go.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches

from bifrost.settings.broker import Settings, attribute_names, keys
from bifrost.settings.connections import OF_LISTENERS
from bifrost.settings.kafka_names import kafka_keys, retired_names
from bifrost.settings.keys import Update, Value
from bifrost.settings.listeners import check_listeners, check_served, is_loopback
from bifrost.settings.quorum import quorum_notes, quorum_problems

# Names that Kafka lets plug-ins and listeners invent; what comes after listener.name.X. is an ordinary name.
_OPEN_PREFIX = re.compile(r"(rlmm\.config|rsm\.config|config\.providers|metrics\.context)\..+")
_LISTENER_PREFIX = re.compile(r"listener\.name\.[^.]+\.(.+)")


def parse_settings(properties: Mapping[str, str]) -> tuple[Settings, list[str]]:
    """Settings and the notes to tell the operator; ValueError has one line for each problem."""
    values: dict[str, Value] = {}
    given: dict[str, str] = {}
    of_listeners: dict[str, int] = {}
    notes: list[str] = []
    problems: list[str] = []
    for name, text in _with_node_id(properties, notes, problems).items():
        known = keys().get(name) or kafka_keys().get(name)
        try:
            if OF_LISTENERS.fullmatch(name.lower()):
                of_listeners[name.lower()] = _of_listener(name, text)
                continue
            if known is None:
                notes.append(_note_on_foreign(name))
                continue
            value = known.parse(text)
        except ValueError as error:
            problems.append(str(error))
            continue
        given[name] = known.format(value) or ""
        if name in keys():
            values[attribute_names()[name]] = value
            if known.note:
                notes.append(f"{name}: {known.note}")
        else:
            notes.append(f"{name}: known to Kafka, but of no use here; it is ignored")
    settings = replace(Settings(given=given, of_listeners=of_listeners), **values)  # type: ignore[arg-type]  # each key parses to its field's type
    problems += _problems_together(settings)
    if settings.http_listener and settings.process_roles == ("broker",):
        notes.append("http.listener: only controllers speak HTTP; this node is a broker, and does not")
    if problems:
        raise ValueError("\n".join(problems))
    return settings, notes + quorum_notes(settings)


def with_dynamic(settings: Settings, *layers: Mapping[str, str]) -> Settings:
    """The settings with stored changes on top, weakest layer first (cluster-wide, then this broker's own)."""
    values = {
        attribute_names()[name]: keys()[name].parse(text)
        for layer in layers
        for name, text in layer.items()
        if name in keys()
    }
    of_listeners = {
        name: _of_listener(name, text)
        for layer in layers
        for name, text in layer.items()
        if OF_LISTENERS.fullmatch(name)
    }
    if of_listeners:
        values["of_listeners"] = {**settings.of_listeners, **of_listeners}  # type: ignore[assignment]
    return replace(settings, **values) if values else settings  # type: ignore[arg-type]


def check_dynamic(name: str, text: str) -> str:
    """The canonical text of a setting that changes while the node runs; ValueError for any other."""
    if OF_LISTENERS.fullmatch(name):
        return str(_of_listener(name, text))
    key = keys().get(name)
    if key is None and name not in kafka_keys():
        raise ValueError(f"unknown setting {name}{nearest(name, {**kafka_keys(), **keys()})}")
    if key is None or key.update is Update.READ_ONLY:
        raise ValueError(f"{name} cannot change while a broker runs; set it in its configuration file")
    return key.format(key.parse(text)) or ""


def _of_listener(name: str, text: str) -> int:
    """A value for one listener: as that for all of them, and never 0, which would lock everybody out."""
    inner = _LISTENER_PREFIX.fullmatch(name.lower())
    assert inner is not None, f"{name} is of no listener"
    value = keys()[inner[1]].parse(text)
    if not isinstance(value, int) or value <= 0:
        raise ValueError(f"{name}={text}: expected a number above 0")
    return value


def nearest(name: str, known: Mapping[str, object]) -> str:
    """The end of a sentence about an unknown name: the known one that looks most like it."""
    found = get_close_matches(name, known, n=1, cutoff=0.7)
    return f"; did you mean {found[0]}?" if found else ""


def _with_node_id(properties: Mapping[str, str], notes: list[str], problems: list[str]) -> dict[str, str]:
    """broker.id is what node.id was called before KRaft; both may be there if they agree."""
    rest = dict(properties)
    old = rest.pop("broker.id", None)
    if old is None:
        return rest
    if rest.setdefault("node.id", old).strip() != old.strip():
        problems.append(f"broker.id={old}: node.id={rest['node.id']} says otherwise; remove broker.id")
    else:
        notes.append("broker.id: the old name of node.id")
    return rest


def _note_on_foreign(name: str) -> str:
    """A remark on a name outside both tables; ValueError if nobody knows it."""
    if name in retired_names():
        return f"{name}: dropped by Kafka 4; it is ignored"
    inner = _LISTENER_PREFIX.fullmatch(name)
    rest = inner[1] if inner else ""
    # Inside a listener's name space SASL settings carry their mechanism in front: scram-sha-256.sasl.jaas.config.
    if _OPEN_PREFIX.fullmatch(name) or any(part in kafka_keys() or part in keys() for part in (rest, _after_dot(rest))):
        return f"{name}: known to Kafka, but of no use here; it is ignored"
    raise ValueError(f"unknown setting {name}{nearest(name, {**kafka_keys(), **keys()})}")


def _after_dot(name: str) -> str:
    return name.partition(".")[2]


def _http_problems(settings: Settings) -> list[str]:
    """Whoever can reach the listener can delete every topic: so others than this machine need a token."""
    try:
        listener = settings.http
    except ValueError as error:
        return [str(error)]
    if listener is None or is_loopback(listener.host) or settings.http_token:
        return []
    danger = "anybody who reaches this address could change the cluster"
    return [f"http.listener={settings.http_listener}: {danger}; set http.token, or listen on 127.0.0.1"]


def _problems_together(settings: Settings) -> list[str]:
    """What only shows when settings are looked at side by side."""
    problems = []
    if not settings.process_roles:
        problems.append("process.roles: expected broker, controller or both")
    problems += quorum_problems(settings)
    problems += _http_problems(settings)
    if not all(settings.log_dirs or settings.log_dir):
        problems.append("log.dirs: expected at least one directory and none without a name")
    if settings.log_cleaner_min_compaction_lag_ms > settings.log_cleaner_max_compaction_lag_ms:
        problems.append("log.cleaner.min.compaction.lag.ms is above log.cleaner.max.compaction.lag.ms; lower it")
    if settings.given.get(
        "authorizer.class.name"
    ):  # to ignore it would leave a cluster open that was meant to be closed
        problems.append("authorizer.class.name: access control is not supported yet; remove it to run without")
    try:
        broker, controller, advertised = settings.broker_listeners, settings.controller_listeners, settings.advertised
        if "broker" in settings.process_roles:
            inter_broker = settings.inter_broker_listener if broker else ""
            check_listeners(broker, controller, advertised, inter_broker)
        else:
            check_served(controller)
    except ValueError as error:
        problems.append(str(error))
    return problems
