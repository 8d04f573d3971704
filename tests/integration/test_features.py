"""Levels of features change while a cluster runs, and what they switch off is off for everybody (KIP-584)."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from bifrost.errors import ErrorCode
from bifrost.protocol.messages.cluster import ApiVersionsRequest
from bifrost.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from bifrost.protocol.messages.features import FeatureUpdateKey, UpdateFeaturesRequest
from bifrost.protocol.messages.groups import FindCoordinatorRequest
from bifrost.testing import Cluster
from tests.integration.command import run
from tests.integration.wire import Wire
from tests.waiting import eventually

GROUP_VERSION = "group.version"
UP, DOWN = 1, 2


@pytest.fixture
def wire(cluster: Cluster) -> Iterator[Wire]:
    with Wire(cluster.bootstrap) as connection:
        yield connection
        change(connection, 2, 1, UP)


def change(wire: Wire, version: int, level: int, kind: int) -> int:
    update = FeatureUpdateKey(feature=GROUP_VERSION, max_version_level=level)
    if version:
        update.upgrade_type = kind
    else:
        update.allow_downgrade = kind == DOWN
    answer = wire.call(version, UpdateFeaturesRequest(feature_updates=[update]))
    return int(answer.error_code or next((one.error_code for one in answer.results), 0))


def level(wire: Wire) -> int:
    answer = wire.call(4, ApiVersionsRequest(client_software_name="test", client_software_version="1"))
    return next((one.max_version_level for one in answer.finalized_features if one.name == GROUP_VERSION), 0)


def heartbeat(wire: Wire, group: str) -> int:
    """The code of the answer to a member that joins."""
    wire.call(2, FindCoordinatorRequest(key=group))
    request = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=5_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    return int(wire.call(1, request).error_code)


@pytest.mark.parametrize("version", UpdateFeaturesRequest.versions)
def test_the_newer_protocol_of_groups_is_switched_off_and_on(cluster: Cluster, wire: Wire, version: int) -> None:
    group = f"switched-{version}"
    eventually(lambda: heartbeat(wire, group) == ErrorCode.NONE)
    assert change(wire, version, 0, UP) == ErrorCode.INVALID_UPDATE_VERSION, "nobody said that it may go down"
    assert change(wire, version, 0, DOWN) == ErrorCode.NONE
    assert level(wire) == 0
    assert heartbeat(wire, group) == ErrorCode.UNSUPPORTED_VERSION
    done = run("cluster", "features", "--bootstrap", cluster.bootstrap, "--json")
    assert {one["name"]: one["level"] for one in json.loads(done.stdout)}[GROUP_VERSION] == 0
    assert change(wire, version, 1, UP) == ErrorCode.NONE
    assert level(wire) == 1
    eventually(lambda: heartbeat(wire, group) == ErrorCode.NONE)
