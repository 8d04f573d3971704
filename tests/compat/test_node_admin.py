"""Log directories, producers, elections, features and quotas, through the admin clients of two libraries."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from tests.compat.cache import Unavailable
from tests.compat.clients.base import TIMEOUT_S, ClientError, Record
from tests.compat.clients.confluent import Confluent
from tests.compat.clients.node_admin import NODE_ADMINS, JavaNodes, NodeAdmin
from tests.compat.conftest import NewTopicFunction, skip_without, unique_name
from tests.compat.servers import Server
from tests.waiting import eventually

UNKNOWN_PARTITION = 3
LOG_DIR_NOT_FOUND = 57
ELECTION_NOT_NEEDED = 84
INVALID_UPDATE_VERSION = 95
PRODUCER_RATE = "producer_byte_rate"


@pytest.fixture(params=sorted(NODE_ADMINS))
def nodes(request: pytest.FixtureRequest, broker: Server) -> NodeAdmin:
    try:
        return NODE_ADMINS[request.param](broker.bootstrap)
    except Unavailable as error:
        skip_without(error)
        raise


only_java = pytest.mark.parametrize("nodes", ["java"], indirect=True)
"""The other library has no such call."""


def code_of(action: Callable[[], object]) -> int:
    with pytest.raises(ClientError) as refused:
        action()
    assert refused.value.code is not None
    return refused.value.code


def leader_of(broker: Server, topic: str) -> int:
    return Confluent(broker.bootstrap).describe_topic(topic)[0].leader


def test_log_directories_tell_how_large_a_log_is(nodes: NodeAdmin, broker: Server, new_topic: NewTopicFunction) -> None:
    topic = new_topic(2)
    node = leader_of(broker, topic)
    Confluent(broker.bootstrap).produce(topic, [Record(b"x" * 1000, partition=0)])
    (sizes,) = nodes.log_dirs(node).values()
    assert sizes[f"{topic}-0"] > 1000
    assert sizes[f"{topic}-1"] == 0


def test_a_replica_moves_to_directories_that_there_are(
    nodes: NodeAdmin, broker: Server, new_topic: NewTopicFunction
) -> None:
    topic = new_topic(1)
    node = leader_of(broker, topic)
    (path,) = nodes.log_dirs(node)
    nodes.move_log(node, topic, path)
    assert code_of(lambda: nodes.move_log(node, topic, f"{path}/nowhere")) == LOG_DIR_NOT_FOUND


def test_a_leader_that_is_preferred_needs_no_election(nodes: NodeAdmin, new_topic: NewTopicFunction) -> None:
    topic = new_topic(1)
    assert code_of(lambda: nodes.elect(topic)) == ELECTION_NOT_NEEDED
    assert code_of(lambda: nodes.elect(unique_name("nowhere"))) == UNKNOWN_PARTITION


def test_features_are_told_and_changed(nodes: NodeAdmin) -> None:
    levels = nodes.features()
    assert (levels["group.version"], levels["metadata.version"]) == (1, 30)
    nodes.try_feature("group.version", 0, "SAFE_DOWNGRADE")
    assert code_of(lambda: nodes.try_feature("group.version", 99, "UPGRADE")) == INVALID_UPDATE_VERSION
    assert nodes.features() == levels


@only_java
def test_producers_are_told_with_their_last_sequence(nodes: JavaNodes, new_topic: NewTopicFunction) -> None:
    topic = new_topic(1)
    assert nodes.producers(topic) == []
    producer = Producer({"bootstrap.servers": nodes.bootstrap, "enable.idempotence": True})
    for value in (b"one", b"two"):
        producer.produce(topic, value, partition=0)
    assert producer.flush(TIMEOUT_S) == 0
    assert nodes.producers(topic) == [[0, 1]]


@only_java
def test_quotas_are_set_told_and_taken_back(nodes: JavaNodes) -> None:
    client = unique_name("limited")
    assert nodes.quotas(client) == {}
    nodes.set_quota(client, PRODUCER_RATE, 1_000_000.0)
    eventually(lambda: nodes.quotas(client) == {PRODUCER_RATE: 1_000_000.0})
    nodes.set_quota(client, PRODUCER_RATE, None)
    eventually(lambda: nodes.quotas(client) == {})
