"""From names and text to settings."""

from __future__ import annotations

import dataclasses

import pytest

from bifrost.settings import Settings, parse_settings, with_dynamic
from bifrost.settings.broker import keys
from bifrost.settings.kafka_names import kafka_keys


def refused(properties: dict[str, str]) -> str:
    with pytest.raises(ValueError) as error:
        parse_settings(properties)
    return str(error.value)


def test_nothing_given_is_all_defaults() -> None:
    assert parse_settings({}) == (Settings(), [])


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Settings().node_id = 7  # type: ignore[misc]


def test_values_are_typed_and_what_was_given_is_remembered() -> None:
    settings, notes = parse_settings({"num.partitions": " 3 ", "auto.create.topics.enable": "FALSE"})
    assert (settings.num_partitions, settings.auto_create_topics_enable) == (3, False)
    assert settings.given == {"num.partitions": "3", "auto.create.topics.enable": "false"}
    assert notes == []


def test_a_name_of_kafka_without_use_is_accepted_with_a_note() -> None:
    settings, notes = parse_settings({"num.io.threads": "8"})
    assert settings.given == {"num.io.threads": "8"}
    assert notes == ["num.io.threads: known to Kafka, but of no use here; it is ignored"]


def test_a_name_without_use_still_has_a_type() -> None:
    assert refused({"num.io.threads": "many"}) == "num.io.threads=many: expected a 32-bit integer"


@pytest.mark.parametrize(
    "name",
    [
        "listener.name.internal.ssl.keystore.location",
        "listener.name.internal.scram-sha-256.sasl.jaas.config",
        "listener.name.internal.num.network.threads",
        "config.providers.file.class",
        "rsm.config.bucket",
    ],
)
def test_names_that_listeners_and_plugins_invent_are_accepted_with_a_note(name: str) -> None:
    assert parse_settings({name: "x"})[1] == [f"{name}: known to Kafka, but of no use here; it is ignored"]


def test_a_name_of_an_older_kafka_is_accepted_with_a_note() -> None:
    assert parse_settings({"zookeeper.connect": "zk:2181"})[1] == [
        "zookeeper.connect: dropped by Kafka 4; it is ignored"
    ]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("log.segment.byte", "unknown setting log.segment.byte; did you mean log.segment.bytes?"),
        ("num.io.thread", "unknown setting num.io.thread; did you mean num.io.threads?"),
        ("flush.polcy", "unknown setting flush.polcy; did you mean flush.policy?"),
        ("bananas", "unknown setting bananas"),
        ("listener.name.internal.bananas", "unknown setting listener.name.internal.bananas"),
    ],
)
def test_a_name_that_nobody_knows_is_refused_with_the_nearest_one(name: str, message: str) -> None:
    assert refused({name: "1"}) == message


def test_every_problem_is_told_at_once() -> None:
    assert refused({"num.partitions": "0", "bananas": "1", "flush.policy": "never"}).splitlines() == [
        "num.partitions=0: expected a 32-bit integer, at least 1",
        "unknown setting bananas",
        "flush.policy=never: expected one of ack, os, memory",
    ]


def test_a_setting_that_has_no_effect_yet_says_so() -> None:
    assert parse_settings({"log.flush.interval.messages": "1"})[1] == [
        "log.flush.interval.messages: flush.policy alone decides when data reaches the disk"
    ]


def test_broker_id_is_an_old_name_of_node_id() -> None:
    settings, notes = parse_settings({"broker.id": "4"})
    assert settings.node_id == 4
    assert notes == ["broker.id: the old name of node.id"]
    assert parse_settings({"broker.id": "4", "node.id": "4"})[0].node_id == 4
    assert "node.id=5 says otherwise" in refused({"broker.id": "4", "node.id": "5"})


def test_access_control_that_would_be_ignored_is_refused() -> None:
    assert "access control is not supported yet" in refused({"authorizer.class.name": "StandardAuthorizer"})


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"process.roles": ""}, "process.roles: expected broker, controller or both"),
        (
            {"process.roles": "broker"},
            "controller.quorum.voters: a broker that is no controller needs to know them, as ID@HOST:PORT",
        ),
        (
            {"node.id": "4", "controller.quorum.voters": "1@a:9,2@b:9"},
            "controller.quorum.voters: node 4 has to be among them if it is a controller, and only then",
        ),
        (
            {"node.id": "2", "process.roles": "broker", "controller.quorum.voters": "1@a:9,2@b:9"},
            "controller.quorum.voters: node 2 has to be among them if it is a controller, and only then",
        ),
        (
            {"process.roles": "controller"},
            (
                "listeners: a controller needs a listener whose name is one of controller.listener.names (CONTROLLER),"
                " such as CONTROLLER://:9093"
            ),
        ),
        (
            {"controller.quorum.voters": "1@a:9,2@b:9,3@c:9"},
            (
                "listeners: a controller needs a listener whose name is one of controller.listener.names (CONTROLLER),"
                " such as CONTROLLER://:9093"
            ),
        ),
        (
            {"process.roles": "controller", "listeners": "PLAINTEXT://:1,CONTROLLER://:2"},
            (
                "listeners=PLAINTEXT://:1: a node that is only a controller serves no clients; its listeners are those"
                " of controller.listener.names (CONTROLLER)"
            ),
        ),
        (
            {
                "process.roles": "controller",
                "listeners": "CONTROLLER://h:1,SECOND://h:1",
                "controller.listener.names": "CONTROLLER,SECOND",
                "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,SECOND:PLAINTEXT",
            },
            "listeners: h:1 is used twice; give each listener a port of its own",
        ),
        (
            {"controller.quorum.voters": "1@a:9,2@b:9,1@c:9"},
            "controller.quorum.voters: node 1 is named twice; every voter has its own",
        ),
        (
            {"controller.quorum.voters": "1@a:9,2@b:9,3@a:9"},
            "controller.quorum.voters: address a:9 is named twice; every voter has its own",
        ),
        ({"log.dirs": "a,,b"}, "log.dirs: expected at least one directory and none without a name"),
        (
            {"log.cleaner.min.compaction.lag.ms": "9", "log.cleaner.max.compaction.lag.ms": "8"},
            "log.cleaner.min.compaction.lag.ms is above log.cleaner.max.compaction.lag.ms; lower it",
        ),
    ],
)
def test_settings_that_contradict_each_other_are_refused(properties: dict[str, str], message: str) -> None:
    assert refused(properties) == message


THREE_IN_KAFKA_4_STYLE = {
    "process.roles": "controller",
    "node.id": "1",
    "listeners": "CONTROLLER://:9093",
    "controller.quorum.bootstrap.servers": "a:9093,b:9093,c:9093",
}


@pytest.mark.parametrize("servers", ["a:9093,b:9093,c:9093", "a:9093", "localhost:9094", "localhost:9093,b:9093"])
def test_a_quorum_that_would_have_to_be_asked_for_is_refused_and_not_founded_by_each_of_its_members(
    servers: str,
) -> None:
    told = refused({**THREE_IN_KAFKA_4_STYLE, "controller.quorum.bootstrap.servers": servers})
    assert told.startswith("controller.quorum.bootstrap.servers: the controllers are a fixed list here")
    assert "controller.quorum.voters" in told


def test_a_node_that_is_told_to_ask_itself_is_alone_as_in_the_file_of_kafka_4() -> None:
    alone = {
        "process.roles": "broker,controller",
        "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
        "controller.quorum.bootstrap.servers": "localhost:9093",
    }
    assert parse_settings(alone)[1] == []


def test_voters_win_over_those_who_would_be_asked_for_them() -> None:
    _, notes = parse_settings({**THREE_IN_KAFKA_4_STYLE, "controller.quorum.voters": "1@a:9093,2@b:9093,3@c:9093"})
    assert notes == ["controller.quorum.bootstrap.servers: ignored; controller.quorum.voters says who votes"]


@pytest.mark.parametrize(("count", "bears"), [(2, "none"), (4, "1")])
def test_an_even_number_of_voters_is_accepted_with_a_note(count: int, bears: str) -> None:
    voters = ",".join(f"{number}@h{number}:9" for number in range(1, count + 1))
    _, notes = parse_settings({"listeners": "PLAINTEXT://:1,CONTROLLER://:2", "controller.quorum.voters": voters})
    assert notes == [
        (
            f"controller.quorum.voters: {count} voters bear the loss of {bears}, as {count - 1} would;"
            " an odd number is better"
        )
    ]


def test_log_dirs_win_over_log_dir_and_hold_the_metadata() -> None:
    settings, _ = parse_settings({"log.dir": "a", "log.dirs": "b, c"})
    assert settings.log_directories == ("b", "c")
    assert settings.metadata_directory == "b"
    assert parse_settings({"log.dir": "a"})[0].log_directories == ("a",)
    assert parse_settings({"metadata.log.dir": "m"})[0].metadata_directory == "m"


def test_a_directory_has_one_spelling() -> None:
    settings, _ = parse_settings({"log.dirs": "/data/,/more//./data", "metadata.log.dir": "/data/"})
    assert settings.log_directories == ("/data", "/more/data")
    assert settings.metadata_directory == "/data"


def test_the_file_that_ships_with_kafka_is_accepted() -> None:
    settings, _ = parse_settings(
        {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": "1@localhost:9093",
            "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "inter.broker.listener.name": "PLAINTEXT",
            "advertised.listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL",
            "num.network.threads": "3",
            "socket.send.buffer.bytes": "102400",
            "log.dirs": "/data",
            "num.recovery.threads.per.data.dir": "1",
            "offsets.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "log.retention.hours": "168",
            "log.segment.bytes": "1073741824",
        }
    )
    assert [listener.name for listener in settings.broker_listeners] == ["PLAINTEXT"]
    assert [listener.name for listener in settings.controller_listeners] == ["CONTROLLER"]


def test_stored_changes_lie_on_top_and_the_strongest_comes_last() -> None:
    settings, _ = parse_settings({"message.max.bytes": "1"})
    changed = with_dynamic(settings, {"message.max.bytes": "2", "num.io.threads": "3"}, {"message.max.bytes": "4"})
    assert changed.message_max_bytes == 4
    assert with_dynamic(settings, {}) is settings


def test_no_name_is_both_ours_and_unused() -> None:
    assert not keys().keys() & kafka_keys().keys()


def test_every_default_is_a_value_that_could_be_given() -> None:
    for key in [*keys().values(), *kafka_keys().values()]:
        text = key.format(key.default)
        assert text is None or key.parse(text) == key.default, key.name
