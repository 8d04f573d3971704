"""Topic configs: inheritance and overrides. Expected values are those of a 4.3 broker with the same settings."""

from __future__ import annotations

import pytest

from bifrost.settings import Settings, TopicConfig, parse_settings
from bifrost.settings.topic import check_override, check_together, topic_keys


def base(**names: str) -> TopicConfig:
    return TopicConfig.of(parse_settings({name.replace("_", "."): text for name, text in names.items()})[0])


def test_without_overrides_a_topic_has_the_brokers_values() -> None:
    config = base(log_segment_bytes="2000000", message_max_bytes="5", log_cleanup_policy="compact")
    assert (config.segment_bytes, config.max_message_bytes, config.cleanup_policy) == (2_000_000, 5, ("compact",))


def test_defaults_are_those_of_default_settings() -> None:
    assert TopicConfig.of(Settings()) == TopicConfig()


@pytest.mark.parametrize(
    ("names", "retention_ms"),
    [
        ({}, 604_800_000),
        ({"log_retention_hours": "2"}, 7_200_000),
        ({"log_retention_hours": "2", "log_retention_minutes": "3"}, 180_000),
        ({"log_retention_hours": "2", "log_retention_minutes": "3", "log_retention_ms": "4"}, 4),
        ({"log_retention_hours": "-1"}, -1),
    ],
)
def test_the_finest_unit_that_is_set_counts(names: dict[str, str], retention_ms: int) -> None:
    assert base(**names).retention_ms == retention_ms


def test_flush_ms_falls_back_on_the_scheduler() -> None:
    assert base(log_flush_scheduler_interval_ms="7").flush_ms == 7
    assert base(log_flush_scheduler_interval_ms="7", log_flush_interval_ms="6").flush_ms == 6


def test_an_override_wins() -> None:
    config = base(log_segment_bytes="2000000").override({"segment.bytes": "3000000", "preallocate": "true"})
    assert (config.segment_bytes, config.preallocate) == (3_000_000, True)


def test_no_override_makes_no_copy() -> None:
    config = base()
    assert config.override({}) is config


def test_internal_segment_bytes_overrules_the_lower_bound_of_segment_bytes() -> None:
    assert base().effective_segment_bytes == 1 << 30
    assert base().override({"internal.segment.bytes": "1000"}).effective_segment_bytes == 1_000


@pytest.mark.parametrize(
    ("name", "text", "stored"),
    [
        ("retention.ms", " 12 ", "12"),
        ("cleanup.policy", "compact, delete", "compact,delete"),
        ("cleanup.policy", "compact,compact", "compact"),
        ("cleanup.policy", "", ""),
        ("preallocate", "TRUE", "true"),
        ("flush.ms", "+5", "5"),
        ("min.cleanable.dirty.ratio", "1e-1", "0.1"),
        ("leader.replication.throttled.replicas", "*", "*"),
        ("leader.replication.throttled.replicas", "0:1,1:2", "0:1,1:2"),
        ("retention.bytes", "-5", "-5"),
        ("retention.ms", "-1", "-1"),
    ],
)
def test_overrides_that_kafka_accepts_are_stored_in_one_form(name: str, text: str, stored: str) -> None:
    assert check_override(name, text) == stored


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("retention.ms", "x"),
        ("retention.ms", "-2"),
        ("retention.ms", "1.5"),
        ("segment.bytes", "10"),
        ("segment.bytes", "99999999999"),
        ("cleanup.policy", "foo"),
        ("compression.type", "ZSTD"),
        ("compression.gzip.level", "0"),
        ("compression.gzip.level", "10"),
        ("compression.lz4.level", "0"),
        ("preallocate", "yes"),
        ("min.cleanable.dirty.ratio", "2"),
        ("message.timestamp.type", "x"),
        ("min.insync.replicas", "0"),
        ("leader.replication.throttled.replicas", "none"),
        ("max.message.bytes", "-1"),
        ("max.compaction.lag.ms", "0"),
        ("flush.ms", "0x10"),
    ],
)
def test_overrides_that_kafka_refuses_are_refused(name: str, text: str) -> None:
    with pytest.raises(ValueError, match=f"{name}={text}: expected "):
        check_override(name, text)


@pytest.mark.parametrize("name", ["nope", "message.format.version", "message.downconversion.enable", "log.roll.ms"])
def test_a_name_that_is_no_topic_config_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"unknown topic config {name}"):
        check_override(name, "1")


def test_an_unknown_name_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(ValueError, match=r"did you mean retention\.ms\?"):
        check_override("retention.msec", "1")


def test_compaction_lags_must_not_cross() -> None:
    with pytest.raises(ValueError, match="lower the first or raise the second"):
        check_together(TopicConfig(min_compaction_lag_ms=10, max_compaction_lag_ms=5))


def test_tiered_storage_is_refused() -> None:
    with pytest.raises(ValueError, match="tiered storage is not supported"):
        check_together(TopicConfig(remote_storage_enable=True))


def test_all_of_kafkas_topic_configs_are_there() -> None:
    assert len([spec for spec in topic_keys().values() if not spec.internal]) == 33
