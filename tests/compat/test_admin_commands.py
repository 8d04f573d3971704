"""The commands for topics, groups, settings and clusters, against Bifrost and Apache Kafka alike."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from bifrost import Admin
from bifrost.cli.main import app
from tests.compat import wire
from tests.compat.conftest import NewTopicFunction, unique_name
from tests.compat.consumers import leave_a_trace, reading, write
from tests.compat.servers import Server
from tests.waiting import PATIENCE_S, eventually

Run = Callable[..., Result]


@pytest.fixture
def attempt(broker: Server, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command at the broker; it may fail."""
    monkeypatch.setenv("BIFROST_BOOTSTRAP", broker.bootstrap)
    return lambda *arguments: CliRunner().invoke(app, list(arguments))


@pytest.fixture
def run(attempt: Run) -> Run:
    """Runs a command that must succeed."""

    def checked(*arguments: str) -> Result:
        result = attempt(*arguments)
        assert result.exit_code == 0, result.output
        return result

    return checked


@pytest.fixture
def ask(run: Run) -> Callable[..., Any]:
    """What a command answers to a script."""
    return lambda *arguments: json.loads(run(*arguments, "--json").stdout)


@pytest.fixture
def topic(broker: Server, new_topic: NewTopicFunction) -> str:
    """Three records in partition 0, five in partition 1."""
    name: str = new_topic(2)
    write(broker.bootstrap, name, {0: 3, 1: 5})
    return name


@pytest.fixture
def group(broker: Server, topic: str, coordinators: None) -> str:
    """Has read all of the topic and is empty."""
    name = unique_name("group")
    leave_a_trace(broker.bootstrap, name, topic, count=8)
    return name


def test_what_brokers_keep_where(ask: Callable[..., Any], run: Run, attempt: Run, topic: str) -> None:
    (found,) = ask("broker", "logdirs")
    assert found["path"].startswith("/")
    assert (found["error"], found["future_replicas"]) == (None, 0)
    assert found["replicas"] >= 2
    assert found["size_bytes"] > 0
    assert 0 < found["usable_bytes"] <= found["total_bytes"]
    assert found["path"] in run("broker", "logdirs", str(found["broker"])).stdout.replace("\n", "")
    assert "no broker 77" in attempt("broker", "logdirs", "77").output


def test_the_features_of_a_cluster(ask: Callable[..., Any], run: Run) -> None:
    levels = {one["name"]: one["level"] for one in ask("cluster", "features")}
    assert (levels["group.version"], levels["metadata.version"]) == (1, 30)
    assert "metadata.version" in run("cluster", "features").stdout


def test_the_life_of_a_topic(run: Run, attempt: Run) -> None:
    name = unique_name()
    assert run("topic", "create", name, "-p", "2", "-r", "1", "--config", "retention.ms=1000").stdout == (
        f"created {name}\n"
    )
    assert run("topic", "create", name, "--if-not-exists").stdout == f"{name} is there already\n"
    assert run("topic", "list", name).stdout.split() == ["topic", "partitions", "replicas", name, "2", "1"]
    described = run("topic", "describe", name).stdout
    assert f"{name}  2 partitions, replication factor 1\n" in described
    assert "retention.ms=1000\n" in described
    assert run("topic", "add-partitions", name, "-n", "1").stdout == f"{name} has 3 partitions now, 1 more\n"
    assert run("topic", "add-partitions", name, "-p", "5").stdout == f"{name} has 5 partitions now, 2 more\n"
    assert run("topic", "delete", name).stdout == f"deleted {name}\n"
    assert run("topic", "delete", name, "--if-exists").stdout == f"{name} was not there\n"
    assert attempt("topic", "delete", name).exit_code == 1


def test_scripts_get_topics_as_json(ask: Callable[..., Any], topic: str) -> None:
    assert ask("topic", "list", topic) == [{"name": topic, "partitions": 2, "replication_factor": 1, "internal": False}]
    (described,) = ask("topic", "describe", topic)
    assert list(described) == ["name", "id", "internal", "partitions", "config"]
    assert [(each["start_offset"], each["end_offset"]) for each in described["partitions"]] == [(0, 3), (0, 5)]
    created, other = unique_name(), unique_name()
    assert ask("topic", "create", created, other) == [
        {"name": created, "created": True},
        {"name": other, "created": True},
    ]
    assert ask("topic", "delete", created, other)[1] == {"name": other, "deleted": True}


def test_what_there_is_is_described_before_the_rest_is_missed(
    attempt: Run, topic: str, new_topic: NewTopicFunction
) -> None:
    other = new_topic()
    result = attempt("topic", "describe", topic, "no-such-topic", other, "--json")
    assert result.exit_code == 1
    assert [each["name"] for each in json.loads(result.stdout)] == [topic, other]
    assert result.stderr.startswith("error: topic no-such-topic does not exist\n")
    assert attempt("topic", "describe", "no-a", "no-b").stderr.startswith("error: topics no-a, no-b do not exist\n")


def test_all_topics_are_described_if_none_is_named(ask: Callable[..., Any], topic: str) -> None:
    names = [each["name"] for each in ask("topic", "describe")]
    assert topic in names
    assert names == sorted(names)


def test_a_topic_that_is_deleted_while_all_are_described_is_left_out(
    ask: Callable[..., Any], topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Admin, "topics", lambda _: [SimpleNamespace(name=each) for each in (unique_name(), topic)])
    assert [each["name"] for each in ask("topic", "describe")] == [topic]


def test_topics_may_be_named_as_kafkas_tools_want_it(run: Run, ask: Callable[..., Any]) -> None:
    name = unique_name()
    assert run("topic", "create", "--topic", name, "-p", "1").stdout == f"created {name}\n"
    run("topic", "alter", "--topic", name, "--partitions", "2")
    (described,) = ask("topic", "describe", "--topic", name)
    assert len(described["partitions"]) == 2
    assert run("consume", "--topic", name, "-e").stdout == ""
    assert run("topic", "delete", "--topic", name, "--yes").stdout == f"deleted {name}\n"


def test_a_file_of_client_properties_says_where_the_cluster_is(
    broker: Server, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BIFROST_BOOTSTRAP", "127.0.0.1:1")
    file = tmp_path / "client.properties"
    file.write_text(f"bootstrap.servers={broker.bootstrap}\nsecurity.protocol=PLAINTEXT\nmax.poll.records=5\n")
    for command in (
        f"topic list {topic}",
        "group list",
        f"config get -t {topic}",
        "cluster info",
        f"consume {topic} -e",
    ):
        result = CliRunner().invoke(app, [*command.split(), "--command-config", str(file)])
        assert result.exit_code == 0, result.output
        assert "max.poll.records is a setting of the Java client and was left out\n" in result.stderr
    file.write_text(f"bootstrap.servers={broker.bootstrap}\nsecurity.protocol=CARRIER_PIGEON\n")
    assert CliRunner().invoke(app, ["topic", "list", "--command-config", str(file)]).exit_code == 2


def test_a_script_is_told_what_was_done_before_a_refusal(attempt: Run, topic: str) -> None:
    name = unique_name()
    result = attempt("topic", "create", name, topic, unique_name(), "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout) == [{"name": name, "created": True}]
    assert f"error: topic {topic} exists already\n" in result.stderr


def test_settings_are_altered_read_and_unset(run: Run, ask: Callable[..., Any], topic: str) -> None:
    run("topic", "alter", topic, "--config", "retention.ms=60000", "--config", "segment.ms=90000", "-p", "3")
    assert len(ask("topic", "describe", topic)[0]["partitions"]) == 3
    run("config", "set", "--topic", topic, "max.message.bytes=2000")
    run("topic", "alter", topic, "--delete-config", "segment.ms")
    run("config", "unset", "-t", topic, "max.message.bytes")
    assert ask("config", "get", "-t", topic, "retention.ms", "segment.ms") == [
        {"name": "retention.ms", "value": "60000", "source": "topic", "read_only": False, "sensitive": False},
        {"name": "segment.ms", "value": "604800000", "source": "default", "read_only": False, "sensitive": False},
    ]
    shown = run("config", "get", "--topic", topic)
    assert ["retention.ms", "60000", "topic"] in [line.split() for line in shown.stdout.splitlines()]
    assert "cleanup.policy" not in shown.stdout
    assert "cleanup.policy" in run("config", "get", "--topic", topic, "--all").stdout


@pytest.mark.parametrize(
    "command", ["config unset retention.mss --topic", "topic alter --config segment.ms=7 --delete-config retention.mss"]
)
def test_a_setting_that_there_is_not_cannot_be_unset(attempt: Run, run: Run, topic: str, command: str) -> None:
    result = attempt(*command.split(), topic)
    told = f"error: topic {topic} has no setting retention.mss\nhint: Did you mean retention.ms?\n"
    assert (result.exit_code, result.stderr) == (2, told)
    assert "segment.ms" not in run("config", "get", "--topic", topic).stdout


@pytest.mark.parametrize(
    "command",
    [
        "topic create new-{topic} -p 0",
        "topic create new-{topic} -p -5",
        "topic create new-{topic} -r 9",
        "topic create new-{topic} --config retention.ms=soon",
        "topic create not/a/name",
        "topic alter {topic} -p 1",
        "topic add-partitions {topic} -p 2",
        "config get --topic {topic} no.such.setting",
        "config set --topic {topic} no.such.setting=1",
        "config get --broker 4711",
    ],
)
def test_what_makes_no_sense_ends_with_2(attempt: Run, topic: str, command: str) -> None:
    result = attempt(*command.format(topic=topic).split())
    assert (result.exit_code, result.stdout) == (2, ""), result.stderr
    assert result.stderr.startswith("error: ")


@pytest.mark.xdist_group("configs")  # they are the broker's, of which there is one
def test_settings_of_all_brokers_are_read(broker: Server, ask: Callable[..., Any], attempt: Run) -> None:
    def alter(operation: int, value: str | None) -> None:
        config = {"name": "log.segment.delete.delay.ms", "config_operation": operation, "value": value}
        wanted = [{"resource_type": 4, "resource_name": "", "configs": [config]}]
        with wire.Wire(broker.bootstrap) as connection:
            connection.ask("incremental_alter_configs", 1, resources=wanted, validate_only=False)

    def shared() -> list[tuple[str, str, str]]:
        return [(each["name"], each["value"], each["source"]) for each in ask("config", "get", "--broker", "default")]

    alter(0, "61000")
    try:
        eventually(lambda: ("log.segment.delete.delay.ms", "61000", "cluster") in shared(), "the setting is there")
        assert {source for _, _, source in shared()} == {"cluster"}
    finally:
        alter(1, None)
    refused = attempt("config", "set", "--broker", "default", "log.retention.ms=1000")
    assert refused.exit_code == 1
    assert "error: the settings that all brokers share can be read here, but not changed\n" in refused.stderr
    assert attempt("config", "get", "--broker", "first").exit_code == 2


def test_lists_grow_and_shrink_by_items(ask: Callable[..., Any], run: Run, attempt: Run, topic: str) -> None:
    def policy() -> str:
        (found,) = ask("config", "get", "--topic", topic, "cleanup.policy")
        return str(found["value"])

    told = ask("config", "append", "--topic", topic, "cleanup.policy=compact")
    assert told == {"topic": topic, "broker": None, "appended": {"cleanup.policy": "compact"}}
    eventually(lambda: policy() == "delete,compact", "both policies")
    assert run("config", "subtract", "--topic", topic, "cleanup.policy=delete").stdout == (
        "cleanup.policy: subtracted delete\n"
    )
    eventually(lambda: policy() == "compact", "one policy")
    run("config", "delete", "--topic", topic, "cleanup.policy")
    eventually(lambda: policy() == "delete", "the default")
    refused = attempt("config", "append", "--topic", topic, "retention.ms=1")
    assert refused.exit_code != 0
    assert "retention.ms" in refused.stderr


def test_settings_of_a_broker_are_read(ask: Callable[..., Any], run: Run) -> None:
    broker_id = str(ask("cluster", "info")["brokers"][0]["id"])
    (found,) = ask("config", "get", "--broker", broker_id, "num.partitions")
    assert found["value"] == "1"


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_are_shown_with_address_and_partitions(
    run: Run, ask: Callable[..., Any], broker: Server, topic: str, protocol: str, coordinators: None
) -> None:
    name = unique_name("group")
    with reading(broker.bootstrap, name, topic, count=8, protocol=protocol, client_id="till-7"):
        (member,) = ask("group", "members", name)
        heading, row = run("group", "members", name).stdout.splitlines()
        described = run("group", "describe", name).stdout
    assert member["host"] == "127.0.0.1"
    assert member["partitions"] == [{"topic": topic, "partition": 0}, {"topic": topic, "partition": 1}]
    assert heading.split() == ["client", "host", "instance", "partitions", "member"]
    assert row.split() == ["till-7", "127.0.0.1", "-", f"{topic}:0,1", member["id"]]
    assert described.startswith(f"{name}  Stable, {protocol} protocol, assignor ")
    assert row in described.splitlines()


def test_lag_is_shown_by_partition_and_in_all(
    run: Run, ask: Callable[..., Any], broker: Server, topic: str, group: str
) -> None:
    write(broker.bootstrap, topic, {1: 2})
    assert ask("group", "lag", group)["lag"] == 2
    assert [line.split() for line in run("group", "lag", group).stdout.splitlines()] == [
        ["topic", "partition", "committed", "end", "lag", "client"],
        [topic, "0", "3", "3", "0", "-"],
        [topic, "1", "5", "7", "2", "-"],
        ["lag", "2"],
    ]
    assert ask("group", "list", group) == [{"name": group, "state": "Empty", "protocol": "classic"}]
    (described,) = ask("group", "describe", group)
    assert (described["lag"], [each["lag"] for each in described["offsets"]]) == (2, [0, 2])


def test_a_reset_is_shown_first_and_done_on_request(run: Run, ask: Callable[..., Any], topic: str, group: str) -> None:
    shown = run("group", "reset", group, "--topic", topic, "--to-earliest")
    assert [line.split() for line in shown.stdout.splitlines()] == [
        ["topic", "partition", "current", "new", "change"],
        [topic, "0", "3", "0", "-3"],
        [topic, "1", "5", "0", "-5"],
    ]
    assert shown.stderr == "nothing was changed; add --execute to do it\n"
    assert ask("group", "lag", group)["lag"] == 0
    done = run("group", "reset", group, "--topic", f"{topic}:1", "--to-earliest", "--execute")
    assert done.stderr == f"group {group} was reset\n"
    assert ask("group", "lag", group)["lag"] == 5


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (["--to-latest"], [3, 5]),
        (["--to-offset", "2"], [2, 2]),
        (["--to-offset", "4"], [3, 4]),
        (["--to-timestamp", "2020-01-01T00:00:00Z"], [0, 0]),
        (["--to-datetime", "1577836800000"], [0, 0]),
        (["--by-duration", "PT1H"], [0, 0]),
        (["--by-duration", "0s"], [3, 5]),
        (["--shift-by", "-2"], [1, 3]),
    ],
    ids=str,
)
def test_every_target_of_kafkas_tool(
    ask: Callable[..., Any], group: str, target: list[str], expected: list[int]
) -> None:
    found = ask("group", "reset", group, "--all-topics", *target)
    assert [change["new"] for change in found["changes"]] == expected
    assert found["executed"] is False


def test_offsets_travel_in_a_file(run: Run, topic: str, group: str, tmp_path: Path, ask: Callable[..., Any]) -> None:
    exported = run("group", "reset", group, "--all-topics", "--shift-by", "-1", "--export").stdout
    assert exported == f"{topic},0,2\n{topic},1,4\n"
    path = tmp_path / "offsets.csv"
    path.write_text(exported)
    run("group", "reset", group, "--from-file", str(path), "--execute")
    assert ask("group", "lag", group)["lag"] == 2


def test_a_group_is_reset_to_where_it_is(
    run: Run, ask: Callable[..., Any], topic: str, group: str, new_topic: NewTopicFunction
) -> None:
    run("group", "reset", group, "--topic", f"{topic}:0", "--to-offset", "1", "--execute")
    other = new_topic()
    plan = ask("group", "reset", group, "--topic", topic, "--topic", other, "--to-current", "--execute")
    assert [(each["topic"], each["current"], each["new"]) for each in plan["changes"]] == sorted(
        [(topic, 1, 1), (topic, 5, 5), (other, None, 0)]
    )


def test_a_group_without_members_says_so(run: Run, group: str) -> None:
    shown = run("group", "members", group)
    assert shown.stdout.split() == ["client", "host", "instance", "partitions", "member"]
    assert shown.stderr == f"group {group} has no members (it is Empty)\n"
    scripted = run("group", "members", group, "--json")
    assert (json.loads(scripted.stdout), scripted.stderr) == ([], shown.stderr)


def test_a_group_with_members_is_not_reset(attempt: Run, broker: Server, topic: str, coordinators: None) -> None:
    name = unique_name("group")
    with reading(broker.bootstrap, name, topic, count=8):
        shown = attempt("group", "reset", name, "--all-topics", "--to-earliest")
        refused = attempt("group", "reset", name, "--all-topics", "--to-earliest", "--execute")
    assert f"group {name} is Stable: --execute is refused until its members have left" in shown.stderr
    assert refused.exit_code == 1
    assert refused.stderr == (
        f"error: group {name} has members (it is Stable)\nhint: Stop its consumers first, then reset it.\n"
    )


def test_groups_are_deleted(run: Run, group: str, attempt: Run) -> None:
    assert run("group", "delete", group).stdout == f"deleted {group}\n"
    assert run("group", "delete", group, "--if-exists").stdout == f"{group} was not there\n"
    assert attempt("group", "describe", group).exit_code == 1


def test_the_cluster_tells_what_it_is_and_how_it_is(run: Run, ask: Callable[..., Any]) -> None:
    info, health = ask("cluster", "info"), ask("cluster", "health")
    assert info["controller"] in [each["id"] for each in info["brokers"]]
    assert health["healthy"] is True
    assert health["brokers"] == info["brokers"]
    assert info["id"] in run("cluster", "info").stdout
    assert run("cluster", "health").stdout.startswith("healthy  1 broker, ")


def test_brokers_are_listed_with_their_share_and_described(run: Run, ask: Callable[..., Any], topic: str) -> None:
    (only,) = ask("broker", "list")
    assert (only["fenced"], only["controller"]) == (False, True)
    assert only["leaders"] == only["replicas"] >= 2
    assert f"{only['host']}:{only['port']}" in run("broker", "list").stdout
    (described,) = ask("broker", "describe", str(only["id"]))
    counts = {"leaders", "replicas"}  # other tests make topics meanwhile
    assert {name: described[name] for name in only.keys() - counts} == {
        name: only[name] for name in only.keys() - counts
    }
    assert described["leaders"] == described["replicas"] >= 2
    assert described["config"]["log.dirs"]


def test_a_broker_that_there_is_not_is_answered_with_those_that_there_are(
    ask: Callable[..., Any], attempt: Run
) -> None:
    (only,) = ask("broker", "list")
    result = attempt("broker", "describe", "99")
    assert result.exit_code == 1
    assert "no broker 99 in this cluster" in result.output
    assert f"There are {only['id']}." in result.output


def test_the_quorum_tells_who_leads_and_how_far_it_is(run: Run, ask: Callable[..., Any]) -> None:
    found = ask("quorum", "status")
    assert [voter["id"] for voter in found["voters"]] == [found["leader"]]
    assert found["voters"][0]["lag"] == 0
    assert found["high_watermark"] > 0
    assert run("quorum", "status").stdout.startswith(f"leader {found['leader']}  epoch {found['epoch']}")


@pytest.mark.parametrize(
    "arguments",
    [
        ["topic", "describe", "WRONG"],
        ["topic", "alter", "WRONG", "--config", "retention.ms=1"],
        ["topic", "add-partitions", "WRONG", "-n", "1"],
        ["topic", "delete", "WRONG"],
        ["config", "get", "-t", "WRONG"],
        ["group", "reset", "some-group", "-t", "WRONG", "--to-latest"],
    ],
    ids=" ".join,
)
def test_a_misspelt_topic_is_answered_with_the_nearest(
    attempt: Run, topic: str, arguments: list[str], coordinators: None
) -> None:
    wrong = topic[:-1]
    result = attempt(*[wrong if each == "WRONG" else each for each in arguments])
    assert result.exit_code == 1
    assert result.stderr == f"error: topic {wrong} does not exist\nhint: Did you mean {topic}?\n"
    assert result.stdout == ""


def test_other_things_that_are_not_there(attempt: Run, topic: str, group: str) -> None:
    def told(*arguments: str, code: int = 1) -> str:
        result = attempt(*arguments)
        assert result.exit_code == code
        return str(result.stderr)

    assert told("group", "lag", group[:-1]) == (
        f"error: group {group[:-1]} does not exist\nhint: Did you mean {group}?\n"
    )
    assert told("group", "reset", group, "-t", f"{topic}:7", "--to-latest") == (
        f"error: topic {topic} has no partition 7\nhint: It has partitions 0 to 1.\n"
    )
    assert told("config", "get", "-t", topic, "retention.mss", code=2) == (
        "error: there is no setting retention.mss\nhint: Did you mean retention.ms?\n"
    )
    assert "error: there is no broker 4711\nhint: There are: " in told("config", "get", "--broker", "4711", code=2)


def test_the_shell_is_offered_the_names_of_the_cluster(
    broker: Server, topic: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def offered(typed: str) -> list[str]:
        environment = {
            "_BIFROST_COMPLETE": "complete_bash",
            "COMP_WORDS": typed,
            "COMP_CWORD": str(typed.count(" ")),
            "BIFROST_BOOTSTRAP": broker.bootstrap,
        }
        return CliRunner(env=environment).invoke(app, prog_name="bifrost").stdout.split()

    monkeypatch.setattr("bifrost.cli.completion.PATIENCE_S", PATIENCE_S)
    assert offered(f"bifrost topic describe {topic[:-3]}") == [topic]
    assert offered(f"bifrost config get --topic {topic[:-3]}") == [topic]
    assert offered(f"bifrost group lag {group[:-3]}") == [group]
    assert offered("bifrost topic describe __cons") == ["__consumer_offsets"]
    assert offered("bifrost topic create x --config retention") == ["retention.bytes=", "retention.ms="]
    monkeypatch.setattr("bifrost.cli.completion.PATIENCE_S", 0.2)
    broker_that_is_not_there = "bifrost topic describe --bootstrap 127.0.0.1:1 a"
    assert offered(broker_that_is_not_there) == []


def test_names_from_kafkas_tools_are_understood(broker: Server, topic: str) -> None:
    result = CliRunner().invoke(app, ["topic", "list", topic, "--bootstrap-server", broker.bootstrap])
    assert result.exit_code == 0
    assert topic in result.stdout


def test_debug_shows_where_it_went_wrong(attempt: Run) -> None:
    result = attempt("--debug", "topic", "describe", unique_name("nothing"))
    assert result.exit_code == 1
    assert result.stderr.startswith("Traceback (most recent call last):\n")
    assert "bifrost.client.errors.UnknownTopicError: topic nothing-" in result.stderr
