"""What controllers answer to clients that come to them directly (KIP-919)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from bifrost.errors import ErrorCode
from bifrost.protocol.messages.cluster import DescribeClusterRequest
from bifrost.protocol.messages.configs import (
    AlterableConfig,
    AlterConfigsResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterConfigsRequest,
)
from bifrost.protocol.messages.quorum import (
    DescribeQuorumPartition,
    DescribeQuorumRequest,
    DescribeQuorumTopic,
)
from bifrost.protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from bifrost.protocol.schema import Message
from bifrost.realm.ports import ReservedPorts
from bifrost.testing import Cluster
from bifrost.testing.cluster import AnyNode
from tests.integration.wire import Wire
from tests.waiting import eventually

BROKERS, CONTROLLERS = 1, 2
TOPIC, NODE = 2, 4


@pytest.fixture(scope="module")
def realm() -> Iterator[Cluster]:
    with Cluster(brokers=1, odins=3) as cluster:
        yield cluster


def ask(node: AnyNode, request: Message, version: int = -1) -> Any:
    with Wire(node.address) as wire:
        return wire.call(range(request.versions[-1] + 1)[version], request)


def in_order(realm: Cluster) -> tuple[AnyNode, list[AnyNode]]:
    """Who leads the quorum, and the other voters."""
    eventually(lambda: realm.active_odin() is not None, "an active Odin")
    active = realm.active_odin()
    assert active is not None
    return active, [odin for odin in realm.odins if odin is not active]


def test_every_controller_names_all_controllers_and_which_of_them_leads(realm: Cluster) -> None:
    active, _ = in_order(realm)
    cluster_id = ask(realm.brokers[0], DescribeClusterRequest()).cluster_id
    for odin in realm.odins:
        eventually(
            lambda odin=odin: ask(odin, DescribeClusterRequest(endpoint_type=CONTROLLERS)).controller_id == active.id,
            "everybody knows who leads",
        )
        told = ask(odin, DescribeClusterRequest(endpoint_type=CONTROLLERS))
        assert (told.error_code, told.endpoint_type, told.cluster_id) == (0, CONTROLLERS, cluster_id)
        assert {one.broker_id: f"{one.host}:{one.port}" for one in told.brokers} == {
            one.id: one.address for one in realm.odins
        }


@pytest.mark.parametrize(
    ("version", "endpoint_type", "at_broker", "at_controller"),
    [
        (0, BROKERS, ErrorCode.NONE, ErrorCode.INVALID_REQUEST),
        (1, BROKERS, ErrorCode.NONE, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (2, BROKERS, ErrorCode.NONE, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (2, CONTROLLERS, ErrorCode.MISMATCHED_ENDPOINT_TYPE, ErrorCode.NONE),
        (2, 3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
    ],
)
def test_who_asks_at_the_wrong_door_is_told_so(
    realm: Cluster, version: int, endpoint_type: int, at_broker: ErrorCode, at_controller: ErrorCode
) -> None:
    request = DescribeClusterRequest(endpoint_type=endpoint_type)
    assert ask(realm.brokers[0], request, version).error_code == at_broker
    assert ask(realm.odins[0], request, version).error_code == at_controller


def test_a_controller_describes_its_own_configs_and_those_of_topics(realm: Cluster) -> None:
    new = CreatableTopic(name="told", num_partitions=1, replication_factor=1)
    ask(realm.brokers[0], CreateTopicsRequest(topics=[new], timeout_ms=10_000))
    for odin in realm.odins:

        def described(kind: int, name: str, odin: AnyNode = odin) -> Any:
            resource = DescribeConfigsResource(resource_type=kind, resource_name=name)
            return ask(odin, DescribeConfigsRequest(resources=[resource])).results[0]

        own = {one.name: one.value for one in described(NODE, str(odin.id)).configs}
        assert own["node.id"] == str(odin.id)
        assert described(NODE, "0").error_code == ErrorCode.INVALID_REQUEST, "another node tells of itself"
        eventually(lambda: described(TOPIC, "told").error_code == 0, "the topic is known at every controller")
        assert "retention.ms" in {one.name for one in described(TOPIC, "told").configs}
        assert described(NODE, "").error_code == 0


def test_the_settings_of_a_controller_are_changed_like_those_of_a_broker(realm: Cluster) -> None:
    _, (follower, _) = in_order(realm)
    for name, code in ((str(follower.id), ErrorCode.NONE), ("777", ErrorCode.INVALID_REQUEST)):
        change = AlterableConfig(name="log.retention.ms", config_operation=0, value="12345678")
        resource = AlterConfigsResource(resource_type=NODE, resource_name=name, configs=[change])
        altered = ask(follower, IncrementalAlterConfigsRequest(resources=[resource], validate_only=False))
        assert [one.error_code for one in altered.responses] == [code]

    def stored() -> str | None:
        resource = DescribeConfigsResource(resource_type=NODE, resource_name=str(follower.id))
        configs = ask(follower, DescribeConfigsRequest(resources=[resource])).results[0].configs
        return {one.name: one.value for one in configs}["log.retention.ms"]

    eventually(lambda: stored() == "12345678", "the change counts at its controller")


def question(topic: str = "__cluster_metadata", partition: int = 0) -> DescribeQuorumRequest:
    partitions = [DescribeQuorumPartition(partition_index=partition)]
    return DescribeQuorumRequest(topics=[DescribeQuorumTopic(topic_name=topic, partitions=partitions)])


def test_the_quorum_is_described_with_where_its_voters_listen(realm: Cluster) -> None:
    active, followers = in_order(realm)
    for node in (active, realm.brokers[0]):
        told = ask(node, question())
        listeners = {
            one.node_id: [(each.name, f"{each.host}:{each.port}") for each in one.listeners] for one in told.nodes
        }
        assert listeners == {odin.id: [("CONTROLLER", odin.address)] for odin in realm.odins}
    for odin in followers:
        told = ask(odin, question())
        assert told.error_code == 0
        assert told.topics[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("asked", [question("orders"), question(partition=1)])
def test_no_other_partition_has_a_quorum(realm: Cluster, asked: DescribeQuorumRequest) -> None:
    active, _ = in_order(realm)
    for node in (active, realm.brokers[0]):
        assert ask(node, asked).topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_controller_that_is_the_whole_quorum_is_told_too() -> None:
    ports = ReservedPorts(2)
    port, controller_port = ports.numbers
    listeners = f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}"
    try:
        with Cluster(listeners=listeners), Wire(f"127.0.0.1:{controller_port}") as wire:
            told = wire.call(2, DescribeClusterRequest(endpoint_type=CONTROLLERS))
    finally:
        ports.release()
    assert told.controller_id == 0
    assert [(one.broker_id, one.host, one.port) for one in told.brokers] == [(0, "127.0.0.1", controller_port)]
