"""Three brokers, seen by the admin clients of three libraries and by Kafka's own tool for the quorum.

Apache Kafka runs with three brokers, too, one of which is its controller: three voters would be three more JVMs, and
what the tests ask of a quorum does not depend on how many there are.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pytest

from bifrost.testing import Cluster
from tests.compat import oracle
from tests.compat.cache import Unavailable
from tests.compat.clients.base import AdminClient, ClientError, NewTopic, PartitionInfo, Record
from tests.compat.conftest import make_client, skip_without, unique_name
from tests.compat.everywhere import wait_until_known
from tests.waiting import eventually

INVALID_REPLICATION_FACTOR = 38
_TIMEOUT_S = 60
_QUORUM_TOOL = "org.apache.kafka.tools.MetadataQuorumCommand"

pytestmark = pytest.mark.xdist_group("three-nodes")  # the clusters are dear, and shared by all tests here


class Three(NamedTuple):
    """A cluster of three brokers."""

    bootstrap: str
    controllers: str
    brokers: tuple[int, ...]
    voters: tuple[int, ...]
    observers: tuple[int, ...]


@pytest.fixture(scope="module", params=["bifrost", pytest.param("kafka", marks=pytest.mark.oracle)])
def three(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Three]:
    if request.param == "bifrost":
        with Cluster(brokers=3, odins=3, processes=True) as cluster:
            voters = tuple(node.id for node in cluster.odins)
            controllers = ",".join(node.address for node in cluster.odins)
            yield Three(cluster.bootstrap, controllers, (0, 1, 2), voters, (0, 1, 2))
        return
    folder = tmp_path_factory.mktemp("three-kafkas")
    try:
        first = oracle.KafkaNode(folder / "1")
        second = oracle.KafkaNode(folder / "2", joins=first)
        nodes = [first, second, oracle.KafkaNode(folder / "3", joins=second)]
        with ThreadPoolExecutor(len(nodes)) as pool:
            list(pool.map(oracle.KafkaNode.start, nodes))
    except Unavailable as error:
        skip_without(error)
    bootstrap = ",".join(f"127.0.0.1:{node.port}" for node in nodes)
    yield Three(bootstrap, f"127.0.0.1:{first.controller_port}", (1, 2, 3), (1,), (2, 3))
    with ThreadPoolExecutor(len(nodes)) as pool:
        list(pool.map(oracle.KafkaNode.stop, nodes))


@pytest.fixture(params=["confluent", "java", "kafka-python"])
def admin3(request: pytest.FixtureRequest, three: Three) -> AdminClient:
    made = make_client(request.param, three.bootstrap)
    assert isinstance(made, AdminClient)
    return made


@pytest.fixture
def topic(admin3: AdminClient, three: Three) -> str:
    """With three partitions on all brokers, all in sync."""
    name = unique_name("three")
    admin3.create_topic(NewTopic(name, partitions=3, replication_factor=3, configs={"min.insync.replicas": "2"}))
    eventually(lambda: is_whole(described(admin3, name), three), "all replicas in sync")
    wait_until_known(three.bootstrap, name)
    return name


def described(admin: AdminClient, topic: str) -> tuple[PartitionInfo, ...]:
    try:
        return admin.describe_topic(topic)
    except ClientError:
        return ()


def is_whole(partitions: tuple[PartitionInfo, ...], three: Three) -> bool:
    return len(partitions) == 3 and all(sorted(one.isr) == list(three.brokers) for one in partitions)


def test_all_brokers_are_described_and_one_of_them_is_called_the_controller(admin3: AdminClient, three: Three) -> None:
    about = admin3.describe_cluster()
    told = [f"{host}:{port}" for _, host, port in about.brokers]
    assert [broker for broker, _, _ in about.brokers] == list(three.brokers)
    assert sorted(told) == sorted(three.bootstrap.split(","))
    assert about.controller in three.brokers, "clients are never sent to a controller that is no broker"


def test_replicas_are_on_every_broker_and_leaders_in_rotation(admin3: AdminClient, three: Three, topic: str) -> None:
    partitions = admin3.describe_topic(topic)
    assert [one.partition for one in partitions] == [0, 1, 2]
    assert {one.leader for one in partitions} == set(three.brokers), "each leads one"
    for one in partitions:
        assert sorted(one.replicas) == list(three.brokers)
        assert one.leader == one.replicas[0], "the first replica is the preferred leader"


def test_what_is_written_through_one_client_is_read_through_it(admin3: AdminClient, topic: str) -> None:
    acked = admin3.produce(topic, [Record(b"%d" % partition, partition=partition) for partition in range(3)])
    assert [one.partition for one in acked] == [0, 1, 2]
    found = admin3.consume(topic, dict.fromkeys(range(3), 0), 3)
    assert sorted((one.partition, one.value) for one in found) == [(0, b"0"), (1, b"1"), (2, b"2")]


def test_configs_of_topics_and_brokers_are_told(admin3: AdminClient, three: Three, topic: str) -> None:
    assert admin3.describe_topic_configs(topic)["min.insync.replicas"] == "2"
    for broker in three.brokers:
        assert admin3.describe_broker_configs(broker)["node.id"] == str(broker)


def test_more_replicas_than_brokers_are_refused(admin3: AdminClient) -> None:
    with pytest.raises(ClientError) as refused:
        admin3.create_topic(NewTopic(unique_name("three"), partitions=1, replication_factor=4))
    assert refused.value.code == INVALID_REPLICATION_FACTOR


def test_a_deleted_topic_is_gone_from_every_broker(admin3: AdminClient, topic: str) -> None:
    admin3.delete_topic(topic)
    for bootstrap in admin3.bootstrap.split(","):
        one = type(admin3)(bootstrap)
        eventually(lambda one=one: topic not in one.list_topics(), f"{topic} is gone")  # type: ignore[misc]


def tool(main_class: str, *arguments: str) -> str:
    """What one of Kafka's own tools says."""
    try:
        command = oracle.java_command(main_class, *arguments)
    except Unavailable as error:
        skip_without(error)
        raise
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(params=["brokers", "controllers"])
def door(request: pytest.FixtureRequest, three: Three) -> tuple[str, str]:
    """How a tool is told where the cluster is: by its brokers, or by its controllers (KIP-919)."""
    if request.param == "brokers":
        return "--bootstrap-server", three.bootstrap
    return "--bootstrap-controller", three.controllers


@pytest.mark.oracle
def test_kafkas_own_tool_tells_the_status_of_the_quorum(three: Three, door: tuple[str, str]) -> None:
    said = tool(_QUORUM_TOOL, *door, "describe", "--status")
    told = dict(line.split(":", 1) for line in said.splitlines() if ":" in line)
    status = {name.strip(): value.strip() for name, value in told.items()}
    assert int(status["LeaderId"]) in three.voters
    assert int(status["LeaderEpoch"]) >= 1
    assert int(status["HighWatermark"]) > 0
    assert int(status["MaxFollowerLag"]) >= 0
    voters = {each["id"]: each["endpoints"] for each in json.loads(status["CurrentVoters"])}
    endpoints = [f"CONTROLLER://{address}" for address in three.controllers.split(",")]
    assert voters == {voter: [endpoint] for voter, endpoint in zip(three.voters, endpoints, strict=True)}
    assert {each["id"] for each in json.loads(status["CurrentObservers"])} == set(three.observers)


@pytest.mark.oracle
def test_kafkas_own_tool_tells_how_far_every_node_is(three: Three, door: tuple[str, str]) -> None:
    said = tool(_QUORUM_TOOL, *door, "describe", "--replication")
    header, *lines = [line.split() for line in said.splitlines() if line.strip()]
    assert header[0] == "NodeId"
    rows = {int(line[0]): dict(zip(header, line, strict=True)) for line in lines}
    assert set(rows) == {*three.voters, *three.observers}
    status = {node: row["Status"] for node, row in rows.items()}
    assert sorted(status[node] for node in three.voters) == ["Follower"] * (len(three.voters) - 1) + ["Leader"]
    assert {status[node] for node in three.observers} == {"Observer"}
    end = max(int(row["LogEndOffset"]) for row in rows.values())
    for row in rows.values():
        assert 0 <= end - int(row["LogEndOffset"]) < 100
        assert int(row["LastCaughtUpTimestamp"]) > 0


@pytest.mark.oracle
def test_kafkas_own_tools_read_and_change_settings_at_controllers(three: Three) -> None:
    configs = ["kafka.admin.ConfigCommand", "--bootstrap-controller", three.controllers, "--entity-type", "brokers"]
    node = [*configs, "--entity-name", str(three.voters[0])]
    everybody = [*configs, "--entity-default"]
    assert f"node.id={three.voters[0]} " in tool(*node, "--describe", "--all")
    for target in (node, everybody):
        tool(*target, "--alter", "--add-config", "log.cleaner.backoff.ms=12345")
        eventually(lambda target=target: "log.cleaner.backoff.ms=12345 " in tool(*target, "--describe"), "it counts")  # type: ignore[misc]
        tool(*target, "--alter", "--delete-config", "log.cleaner.backoff.ms")


@pytest.mark.oracle
def test_kafkas_own_tool_tells_features_by_brokers_and_controllers(door: tuple[str, str]) -> None:
    said = tool("org.apache.kafka.tools.FeatureCommand", *door, "describe")
    assert any(line.startswith("Feature: metadata.version") for line in said.splitlines()), said
