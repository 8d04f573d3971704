"""DescribeConfigs: values, sources, synonyms. Lists were captured from a 4.3 broker unless a comment says otherwise."""

from __future__ import annotations

from bifrost.settings import ConfigEntry, Kind, Settings, Source, describe_broker, describe_topic, parse_settings

STATIC = {
    "log.roll.ms": "5000000",
    "log.roll.hours": "77",
    "message.max.bytes": "2000000",
    "log.segment.bytes": "2000000",
    "log.cleanup.policy": "compact, delete",
    "log.retention.hours": "100",
}


def topic(settings: Settings, overrides: dict[str, str], name: str, **dynamic: dict[str, str]) -> ConfigEntry:
    return {entry.name: entry for entry in describe_topic(settings, overrides, **dynamic)}[name]


def broker(settings: Settings, name: str, **dynamic: dict[str, str]) -> ConfigEntry:
    return {entry.name: entry for entry in describe_broker(settings, **dynamic)}[name]


def test_a_default() -> None:
    entry = topic(Settings(), {}, "segment.bytes")
    assert entry[:7] == (
        "segment.bytes",
        "1073741824",
        False,
        Source.DEFAULT,
        False,
        (("log.segment.bytes", "1073741824", 5),),
        Kind.INT,
    )
    assert entry.documentation


def test_a_default_without_a_broker_setting_has_no_synonyms() -> None:
    assert topic(Settings(), {}, "remote.storage.enable")[3:6] == (Source.DEFAULT, False, ())


def test_a_default_behind_a_setting_without_one_is_left_out() -> None:
    entry = topic(Settings(), {}, "segment.ms")
    assert (entry.value, entry.source, entry.synonyms) == ("604800000", Source.DEFAULT, ())


def test_a_setting_of_the_broker() -> None:
    settings, _ = parse_settings(STATIC)
    assert topic(settings, {}, "max.message.bytes").synonyms == (
        ("message.max.bytes", "2000000", 4),
        ("message.max.bytes", "1048588", 5),
    )
    assert topic(settings, {}, "cleanup.policy").value == "compact,delete"
    assert topic(settings, {}, "segment.ms").synonyms == (
        ("log.roll.ms", "5000000", 4),
        ("log.roll.hours", "77", 4),
        ("log.roll.hours", "168", 5),
    )


def test_a_setting_in_hours_is_the_source_of_the_value_it_makes() -> None:
    # Kafka's CreateTopics says STATIC here and its DescribeConfigs DEFAULT, without synonyms; we say STATIC twice.
    entry = topic(parse_settings(STATIC)[0], {}, "retention.ms")
    assert (entry.value, entry.source) == ("360000000", Source.STATIC)
    assert entry.synonyms == (("log.retention.hours", "100", 4), ("log.retention.hours", "168", 5))


def test_an_override_of_the_topic_stands_before_everything() -> None:
    entry = topic(parse_settings(STATIC)[0], {"segment.bytes": "3000000"}, "segment.bytes")
    assert (entry.value, entry.source) == ("3000000", Source.TOPIC)
    assert entry.synonyms == (
        ("segment.bytes", "3000000", 1),
        ("log.segment.bytes", "2000000", 4),
        ("log.segment.bytes", "1073741824", 5),
    )


def test_stored_changes_stand_between_topic_and_file() -> None:
    entry = topic(
        parse_settings({"min.insync.replicas": "2"})[0],
        {},
        "min.insync.replicas",
        dynamic_broker={"min.insync.replicas": "4"},
        dynamic_default={"min.insync.replicas": "3"},
    )
    assert (entry.value, entry.source) == ("4", Source.DYNAMIC_BROKER)
    assert [(one.value, one.source) for one in entry.synonyms] == [("4", 2), ("3", 3), ("2", 4), ("1", 5)]


def test_internal_configs_are_described_only_when_they_are_set() -> None:
    names = [entry.name for entry in describe_topic(Settings(), {})]
    assert len(names) == 33
    assert names == sorted(names)
    assert topic(Settings(), {"internal.segment.bytes": "1000"}, "internal.segment.bytes").value == "1000"


def test_broker_settings_say_whether_they_can_change() -> None:
    settings, _ = parse_settings({"node.id": "3", "message.max.bytes": "7"})
    assert broker(settings, "node.id")[1:4] == ("3", True, Source.STATIC)
    assert broker(settings, "message.max.bytes")[1:4] == ("7", False, Source.STATIC)
    assert broker(settings, "log.roll.ms")[1:6] == (None, False, Source.DEFAULT, False, ())
    assert broker(settings, "message.max.bytes", dynamic_default={"message.max.bytes": "8"}).source == 3


def test_a_setting_made_in_code_counts_as_static() -> None:
    assert broker(Settings(num_partitions=3), "num.partitions")[1:4] == ("3", True, Source.STATIC)


def test_an_ignored_name_is_described_only_when_it_was_given() -> None:
    assert "num.io.threads" not in [entry.name for entry in describe_broker(Settings())]
    entry = broker(parse_settings({"num.io.threads": "9"})[0], "num.io.threads")
    assert entry.synonyms == (("num.io.threads", "9", 4), ("num.io.threads", "8", 5))


def test_a_password_is_never_told() -> None:
    entry = broker(parse_settings({"ssl.keystore.password": "hush"})[0], "ssl.keystore.password")
    assert entry[1:7] == (None, True, Source.STATIC, True, (("ssl.keystore.password", None, 4),), Kind.PASSWORD)


def test_the_token_of_http_is_never_told() -> None:
    settings, _ = parse_settings({"http.listener": "127.0.0.1:0", "http.token": "hush"})
    entry = next(one for one in describe_broker(settings) if one.name == "http.token")
    assert (entry.value, entry.source, entry.is_sensitive) == (None, Source.STATIC, True)
    assert "hush" not in repr(describe_broker(settings))
