"""AlterConfigs and IncrementalAlterConfigs: one test a rule. Codes were captured from a 4.3 broker."""

from __future__ import annotations

import pytest
from tests.unit.controller.stand_ins import apply, cluster_of, create

from bifrost.controller.core import config_changes
from bifrost.controller.core.config_changes import ConfigChange, Operation, ResourceChange, alter_configs
from bifrost.controller.core.configs import current_settings
from bifrost.controller.core.image import BROKER_RESOURCE, EVERY_BROKER, GROUP_RESOURCE, TOPIC_RESOURCE, MetadataImage
from bifrost.controller.core.records import ConfigChanged
from bifrost.controller.core.topics import NewTopic
from bifrost.errors import ApiError, ErrorCode
from bifrost.settings import Settings

SET, DELETE, APPEND, SUBTRACT = Operation
OK = ErrorCode.NONE


def with_topic() -> MetadataImage:
    image = cluster_of(1, 2)
    create(image, NewTopic("t", configs=[("retention.ms", "7")]))
    return image


def topic(*changes: ConfigChange, name: str = "t") -> ResourceChange:
    return ResourceChange(TOPIC_RESOURCE, name, changes)


def broker(*changes: ConfigChange, name: str = "1") -> ResourceChange:
    return ResourceChange(BROKER_RESOURCE, name, changes)


def alter(image: MetadataImage, *wanted: ResourceChange, replace: bool = False) -> list[ErrorCode]:
    """The codes of the answer, once what was decided is applied."""
    decision = alter_configs(image, Settings(node_id=1), wanted, replace=replace)
    apply(image, decision.records)
    assert all((one.message is None) == (one.error is OK) for one in decision.result)
    return [one.error for one in decision.result]


def test_a_value_is_set_in_canonical_form() -> None:
    image = with_topic()
    assert alter(image, topic(ConfigChange("cleanup.policy", " compact , delete "))) == [OK]
    assert image.topic_configs("t") == {"retention.ms": "7", "cleanup.policy": "compact,delete"}


def test_a_deleted_config_is_gone_and_one_that_was_not_set_is_no_error() -> None:
    image = with_topic()
    changes = [ConfigChange(name, None, DELETE) for name in ("retention.ms", "segment.ms", "no.such.config")]
    assert alter(image, topic(*changes)) == [OK]
    assert image.topic_configs("t") == {}


def test_lists_grow_and_shrink_from_their_default() -> None:
    image = with_topic()
    seen = []
    for operation, items in ((APPEND, "compact"), (APPEND, "delete"), (SUBTRACT, "delete,other"), (DELETE, None)):
        assert alter(image, topic(ConfigChange("cleanup.policy", items, operation))) == [OK]
        seen.append(image.topic_configs("t").get("cleanup.policy"))
    assert seen == ["delete,compact", "delete,compact", "compact", None]


def test_a_default_is_where_a_list_starts_even_if_the_broker_has_another() -> None:
    image = with_topic()
    assert alter(image, broker(ConfigChange("log.cleanup.policy", "compact"), name=EVERY_BROKER)) == [OK]
    assert alter(image, topic(ConfigChange("cleanup.policy", "compact", APPEND))) == [OK]
    assert image.topic_configs("t")["cleanup.policy"] == "delete,compact"


def test_only_what_changes_is_recorded() -> None:
    image = with_topic()
    same, new = ConfigChange("retention.ms", " 7"), ConfigChange("segment.ms", "9")
    decision = alter_configs(image, Settings(), [topic(same, new)])
    assert list(decision.records) == [ConfigChanged(TOPIC_RESOURCE, "t", "segment.ms", "9")]


def test_validate_only_answers_alike_and_records_nothing() -> None:
    image = with_topic()
    wanted = [topic(ConfigChange("segment.ms", "9")), topic(ConfigChange("segment.ms", "9"), name="u")]
    decision = alter_configs(image, Settings(), wanted, validate_only=True)
    assert list(decision.records) == []
    assert [one.error for one in decision.result] == [OK, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_replacing_takes_away_what_is_not_mentioned() -> None:
    image = with_topic()
    assert alter(image, topic(ConfigChange("segment.ms", "9")), replace=True) == [OK]
    assert image.topic_configs("t") == {"segment.ms": "9"}
    assert alter(image, topic(), replace=True) == [OK]
    assert image.topic_configs("t") == {}


@pytest.mark.parametrize(
    "change",
    [
        ConfigChange("no.such.config", "1"),
        ConfigChange("log.retention.ms", "1"),
        ConfigChange("retention.ms", "soon"),
        ConfigChange("segment.bytes", "1"),
        ConfigChange("cleanup.policy", "burn"),
        ConfigChange("cleanup.policy", "burn", APPEND),
        ConfigChange("retention.ms", "1", APPEND),
        ConfigChange("retention.ms", "1", SUBTRACT),
        ConfigChange("no.such.config", "1", APPEND),
        ConfigChange("min.compaction.lag.ms", str((1 << 63) - 1)),
    ],
    ids=str,
)
def test_what_a_topic_cannot_have_is_an_invalid_config(change: ConfigChange) -> None:
    image = with_topic()
    lag = ConfigChange("max.compaction.lag.ms", "5")
    assert alter(image, topic(change, lag)) == [ErrorCode.INVALID_CONFIG]
    assert image.topic_configs("t") == {"retention.ms": "7"}


@pytest.mark.parametrize(
    "changes",
    [
        [ConfigChange("retention.ms", None)],
        [ConfigChange("cleanup.policy", None, APPEND)],
        [ConfigChange("retention.ms", "1"), ConfigChange("retention.ms", None, DELETE)],
        [ConfigChange("retention.ms", "1", 9)],
        [ConfigChange("retention.ms", "1", -1)],
    ],
    ids=str,
)
def test_what_makes_no_sense_is_an_invalid_request(changes: list[ConfigChange]) -> None:
    image = with_topic()
    assert alter(image, topic(*changes), broker(*changes)) == [ErrorCode.INVALID_REQUEST] * 2


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("u", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("", ErrorCode.INVALID_REQUEST),
        ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_topics_that_are_not_there(name: str, code: ErrorCode) -> None:
    assert alter(with_topic(), topic(ConfigChange("retention.ms", "1"), name=name)) == [code]


def test_a_resource_may_be_named_once() -> None:
    image = with_topic()
    twice = topic(ConfigChange("retention.ms", "1"))
    other = broker(ConfigChange("message.max.bytes", "9"))
    codes = [ErrorCode.INVALID_REQUEST, OK, ErrorCode.INVALID_REQUEST]
    assert alter(image, twice, other, twice) == codes
    assert image.topic_configs("t") == {"retention.ms": "7"}
    assert image.broker_configs("1") == {"message.max.bytes": "9"}


@pytest.mark.parametrize("kind", [0, 8, 16, 99])
def test_other_resources_have_no_configs(kind: int) -> None:
    assert alter(with_topic(), ResourceChange(kind, "x", [])) == [ErrorCode.INVALID_REQUEST]


def test_a_broker_goes_before_all_brokers_and_both_before_the_file() -> None:
    image, started = with_topic(), Settings(node_id=1, message_max_bytes=5)
    assert current_settings(image, started) is started
    assert alter(image, broker(ConfigChange("message.max.bytes", "6"), name=EVERY_BROKER)) == [OK]
    assert current_settings(image, started).message_max_bytes == 6
    assert alter(image, broker(ConfigChange("message.max.bytes", "7"))) == [OK]
    assert current_settings(image, started).message_max_bytes == 7
    assert current_settings(image, Settings(node_id=2)).message_max_bytes == 6


@pytest.mark.parametrize("name", ["1", EVERY_BROKER])
@pytest.mark.parametrize(
    "change",
    [
        ConfigChange("num.partitions", "2"),
        ConfigChange("num.io.threads", "2"),
        ConfigChange("no.such.config", "2"),
        ConfigChange("retention.ms", "2"),
        ConfigChange("message.max.bytes", "many"),
        ConfigChange("message.max.bytes", "-1"),
        ConfigChange("log.cleaner.max.compaction.lag.ms", "3"),
    ],
    ids=str,
)
def test_what_a_running_broker_cannot_change_is_an_invalid_request(change: ConfigChange, name: str) -> None:
    image = with_topic()
    lag = ConfigChange("log.cleaner.min.compaction.lag.ms", "5")
    assert alter(image, broker(change, lag, name=name)) == [ErrorCode.INVALID_REQUEST]
    assert image.broker_configs(name) == {}


@pytest.mark.parametrize("name", ["77", "-1", "first", "01"])
def test_a_broker_that_there_is_not_has_no_configs(name: str) -> None:
    change = ConfigChange("message.max.bytes", "9")
    assert alter(with_topic(), broker(change, name=name)) == [ErrorCode.INVALID_REQUEST]


def test_an_unknown_name_comes_with_the_nearest_one() -> None:
    wanted = [broker(ConfigChange("mesage.max.bytes", "9"))]
    (refused,) = alter_configs(with_topic(), Settings(), wanted).result
    assert refused.message == "unknown setting mesage.max.bytes; did you mean message.max.bytes?"


def test_a_group_has_configs_whether_it_is_there_or_not() -> None:
    image = cluster_of(1)
    session, heartbeat = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"

    def group(*changes: ConfigChange, name: str = "g") -> ResourceChange:
        return ResourceChange(GROUP_RESOURCE, name, changes)

    assert alter(image, group(ConfigChange(session, "+50000"))) == [OK]
    assert image.group_configs("g") == {session: "50000"}
    for wrong in (
        ConfigChange(session, "1000"),
        ConfigChange(session, "60001"),
        ConfigChange(heartbeat, "4999"),
        ConfigChange("retention.ms", "1"),
        ConfigChange(session, "1", APPEND),
    ):
        assert alter(image, group(wrong)) == [ErrorCode.INVALID_CONFIG]
    assert alter(image, group(ConfigChange(session, "50000"), name="")) == [ErrorCode.INVALID_REQUEST]
    assert alter(image, group(ConfigChange(session, None, DELETE))) == [OK]
    assert image.group_configs("g") == {}


THROTTLED = "leader.replication.throttled.replicas"
LONGEST = ",".join(["0:1"] * 8192)


def test_a_value_that_could_not_be_described_is_refused() -> None:
    """Answers of DescribeConfigs before v4 have two bytes for the length."""
    assert len(LONGEST) == 32_767
    image = with_topic()
    assert alter(image, topic(ConfigChange(THROTTLED, LONGEST))) == [OK]
    assert alter(image, topic(ConfigChange(THROTTLED, LONGEST + ",1:1"))) == [ErrorCode.INVALID_CONFIG]
    ips = ",".join(f"10.0.{number // 250}.{number % 250}:1" for number in range(3000))
    assert alter(image, broker(ConfigChange("max.connections.per.ip.overrides", ips))) == [ErrorCode.INVALID_CONFIG]
    assert image.topic_configs("t")[THROTTLED] == LONGEST


def test_a_request_makes_so_many_records_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_changes, "RECORDS_MAX", 2)
    image = with_topic()
    changes = [ConfigChange(name, "8000") for name in ("retention.ms", "segment.ms", "flush.ms")]
    assert alter(image, topic(*changes[:2])) == [OK]
    with pytest.raises(ApiError) as refused:
        alter_configs(with_topic(), Settings(), [topic(*changes[:2]), broker(ConfigChange("log.retention.ms", "9"))])
    assert refused.value.code is ErrorCode.POLICY_VIOLATION


def test_cleaners_become_at_most_half_or_double_at_once() -> None:
    image, refused = with_topic(), ErrorCode.INVALID_REQUEST
    wanted = [("0", refused), ("3", refused), ("2", OK), ("5", refused), ("4", OK), ("1", refused), ("2", OK)]
    for threads, code in wanted:
        assert alter(image, broker(ConfigChange("log.cleaner.threads", threads), name=EVERY_BROKER)) == [code], threads
    assert alter(image, broker(ConfigChange("log.cleaner.threads", None, DELETE), name=EVERY_BROKER)) == [OK]
