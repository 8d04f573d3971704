"""Settings: what is written can be read, and no text of any kind does more than be refused."""

from __future__ import annotations

from hypothesis import given
from hypothesis import settings as run
from hypothesis import strategies as st

from bifrost.settings import Settings, TopicConfig, describe_broker, describe_topic, parse_properties, parse_settings
from bifrost.settings.broker import keys
from bifrost.settings.kafka_names import kafka_keys
from bifrost.settings.keys import Key, Kind
from bifrost.settings.topic import check_override, topic_keys

# Changing these on their own contradicts the rest or is refused on purpose.
_TIED = {"listeners", "advertised.listeners", "listener.security.protocol.map", "inter.broker.listener.name"}
_TIED |= {"controller.listener.names", "process.roles", "log.dir", "log.dirs", "controller.quorum.voters"}
_TIED |= {"controller.quorum.bootstrap.servers"}
_TIED |= {"log.cleaner.max.compaction.lag.ms", "log.cleaner.min.compaction.lag.ms", "http.listener"}


def values_of(key: Key) -> st.SearchStrategy[str]:
    """Texts that the key accepts."""
    bits = {Kind.SHORT: 15, Kind.INT: 31, Kind.LONG: 63}
    if key.choices:
        one = st.sampled_from(key.choices)
        return st.lists(one).map(",".join) if key.kind is Kind.LIST else one
    if key.kind is Kind.BOOLEAN:
        return st.sampled_from(["true", "false", " True "])
    if key.kind in bits:
        top = (1 << bits[key.kind]) - 1
        low = -top - 1 if key.at_least is None else int(key.at_least)
        return st.integers(low, top if key.at_most is None else int(key.at_most)).map(str)
    if key.kind is Kind.DOUBLE:
        return st.floats(key.at_least, key.at_most, allow_nan=False, allow_infinity=False).map(str)
    if key.pattern:
        return st.from_regex(key.pattern, fullmatch=True)
    return st.text(st.characters(codec="ascii", exclude_characters=",", categories=["L", "N"]), min_size=1)


def refusal(properties: dict[str, str]) -> str | None:
    """What is said against these settings, if anything."""
    try:
        parse_settings(properties)
    except ValueError as error:
        return str(error)
    return None


def given_settings() -> st.SearchStrategy[dict[str, str]]:
    free = {name: values_of(key) for name, key in keys().items() if name not in _TIED}
    return st.lists(st.sampled_from(sorted(free)), unique=True, max_size=5).flatmap(
        lambda names: st.fixed_dictionaries({name: free[name] for name in names})
    )


@run(deadline=None)
@given(given_settings())
def test_settings_survive_being_written_and_read(properties: dict[str, str]) -> None:
    settings, _ = parse_settings(properties)
    again, _ = parse_settings(settings.given)
    assert again == settings
    assert again.given == settings.given
    assert set(settings.given) == set(properties)
    described = {entry.name: entry for entry in describe_broker(settings)}
    for name, text in settings.given.items():
        shown = None if keys()[name].kind is Kind.PASSWORD else text
        assert (described[name].value, described[name].source) == (shown, 4)
        assert all(one.value is None for one in described[name].synonyms if shown is None)


@run(deadline=None)
@given(st.sampled_from(sorted(topic_keys())), st.data())
def test_topic_overrides_survive_being_written_and_read(name: str, data: st.DataObject) -> None:
    stored = check_override(name, data.draw(values_of(topic_keys()[name].key)))
    assert check_override(name, stored) == stored
    entry = next(one for one in describe_topic(Settings(), {name: stored}) if one.name == name)
    assert (entry.value, entry.source) == (stored, 1)
    TopicConfig.of(Settings()).override({name: stored})


@run(deadline=None)
@given(st.sampled_from(sorted([*keys(), *kafka_keys()])), st.text(max_size=30))
def test_any_text_is_read_or_refused_by_name(name: str, text: str) -> None:
    refused = refusal({name: text})
    assert refused is None or name.partition(".")[0] in refused


@run(deadline=None)
@given(st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=3))
def test_unknown_names_are_refused_one_line_each(properties: dict[str, str]) -> None:
    unknown = [name for name in properties if name not in keys() and name not in kafka_keys()]
    assert (refusal(properties) or "").count("unknown setting") == len(unknown)


@run(deadline=None)
@given(st.text(alphabet="ab=: \t\\\n\r#!u0é,", max_size=60))
def test_any_text_is_properties_or_refused(text: str) -> None:
    try:
        found = parse_properties(text)
    except ValueError:
        return
    lines = "\n".join(f"{_escape(name)}={_escape(value)}" for name, value in found.items() if name or value)
    assert parse_properties(lines) == {name: value for name, value in found.items() if name or value}


def _escape(text: str) -> str:
    return "".join(f"\\u{ord(letter):04x}" for letter in text)
