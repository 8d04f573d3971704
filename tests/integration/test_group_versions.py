"""Every version of every request of consumer groups, as frames on the wire."""

from __future__ import annotations

import itertools
from typing import Any
from uuid import UUID

import pytest

from bifrost.errors import ErrorCode
from bifrost.protocol.messages.cluster import MetadataRequest, MetadataRequestTopic
from bifrost.protocol.messages.consumer_group_admin import ConsumerGroupDescribeRequest
from bifrost.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from bifrost.protocol.messages.group_admin import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from bifrost.protocol.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from bifrost.protocol.messages.groups import (
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from bifrost.protocol.schema import Message
from bifrost.testing import Cluster
from bifrost.testing.embedded import EmbeddedNode
from tests.integration.conftest import create_topic
from tests.integration.wire import Wire
from tests.waiting import eventually

TOPIC = "read"
_numbers = itertools.count()


@pytest.fixture(scope="module")
def cluster() -> Any:
    with Cluster(group_initial_rebalance_delay_ms=0, group_min_session_timeout_ms=1_000) as running:
        with Wire(running.bootstrap) as wire:
            create_topic(wire, TOPIC, 2)
            wire.call(2, FindCoordinatorRequest(key="first"))
        yield running


@pytest.fixture
def group() -> str:
    return f"group-{next(_numbers)}"


def versions(request: type[Message]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("version", request.versions)


def topic_id(wire: Wire) -> UUID:
    (topic,) = wire.call(12, MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])).topics
    found: UUID = topic.topic_id
    return found


def join(wire: Wire, group: str, version: int = 5, **fields: Any) -> Any:
    answer = wire.call(version, join_request(group, **fields))
    if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        return join(wire, group, version, **{**fields, "member_id": answer.member_id})
    return answer


def join_request(group: str, **fields: Any) -> JoinGroupRequest:
    given = {"session_timeout_ms": 6_000, "rebalance_timeout_ms": 6_000, "member_id": "", **fields}
    given.setdefault("protocols", [JoinGroupRequestProtocol(name="range", metadata=b"m")])
    return JoinGroupRequest(group_id=group, protocol_type="consumer", **given)


def sync(wire: Wire, group: str, joined: Any, version: int = 3) -> Any:
    assignments = [SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"yours")]
    request = SyncGroupRequest(
        group_id=group, generation_id=joined.generation_id, member_id=joined.member_id, assignments=assignments
    )
    if version >= 5:
        request.protocol_type, request.protocol_name = "consumer", "range"
    return wire.call(version, request)


def member(wire: Wire, group: str) -> Any:
    joined = join(wire, group)
    assert sync(wire, group, joined).error_code == 0
    return joined


def commit(wire: Wire, group: str, offset: int, version: int = 8, partition: int = 0, **fields: Any) -> int:
    partitions = [OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)]
    topic = OffsetCommitRequestTopic(partitions=partitions)
    if version >= 10:
        topic.topic_id = topic_id(wire)
    else:
        topic.name = TOPIC
    (answer,) = wire.call(version, OffsetCommitRequest(group_id=group, topics=[topic], **fields)).topics
    assert (answer.name, answer.topic_id) == (topic.name, topic.topic_id)
    return int(answer.partitions[0].error_code)


class TestFindCoordinator:
    @versions(FindCoordinatorRequest)
    def test_the_leader_of_the_groups_partition_is_found(self, wire: Wire, cluster: Cluster, version: int) -> None:
        host, port = cluster.bootstrap.split(":")
        if version < 4:
            answers = [wire.call(version, FindCoordinatorRequest(key="g"))]
        else:
            answers = wire.call(version, FindCoordinatorRequest(coordinator_keys=["g", "h"])).coordinators
            assert [one.key for one in answers] == ["g", "h"]
        for found in answers:
            assert (found.error_code, found.node_id, found.host, found.port) == (0, 0, host, int(port))

    @pytest.mark.parametrize("key_type", [1, 2, 7])
    def test_nobody_coordinates_what_is_not_there_yet(self, wire: Wire, key_type: int) -> None:
        code = ErrorCode.INVALID_REQUEST
        answer = wire.call(1, FindCoordinatorRequest(key="x", key_type=key_type))
        assert (answer.error_code, answer.node_id, answer.host, answer.port) == (code, -1, "", -1)
        (answer,) = wire.call(6, FindCoordinatorRequest(coordinator_keys=["x"], key_type=key_type)).coordinators
        assert (answer.key, answer.error_code, answer.node_id) == ("x", code, -1)

    def test_the_topic_of_groups_is_internal_and_compacted(self, wire: Wire) -> None:
        wanted = [MetadataRequestTopic(name="__consumer_offsets")]
        (topic,) = wire.call(9, MetadataRequest(topics=wanted)).topics
        assert topic.is_internal
        assert len(topic.partitions) == 50
        assert {tuple(one.replica_nodes) for one in topic.partitions} == {(0,)}

    def test_metadata_makes_it_with_the_same_shape(self) -> None:
        with Cluster(offsets_topic_num_partitions=3) as cluster, Wire(cluster.bootstrap) as wire:
            wanted = [MetadataRequestTopic(name="__consumer_offsets")]
            (topic,) = wire.call(9, MetadataRequest(topics=wanted, allow_auto_topic_creation=True)).topics
            assert len(topic.partitions) == 3
            assert commit_to_missing(wire) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def test_before_it_is_there_nobody_coordinates(self) -> None:
        with Cluster() as cluster, Wire(cluster.bootstrap) as wire:
            assert commit_to_missing(wire) == ErrorCode.NOT_COORDINATOR


def commit_to_missing(wire: Wire) -> int:
    partitions = [OffsetCommitRequestPartition(partition_index=0, committed_offset=1)]
    topics = [OffsetCommitRequestTopic(name="missing", partitions=partitions)]
    (answer,) = wire.call(8, OffsetCommitRequest(group_id="g", topics=topics)).topics
    return int(answer.partitions[0].error_code)


class TestClassicMembers:
    @versions(JoinGroupRequest)
    def test_join(self, wire: Wire, group: str, version: int) -> None:
        answer = join(wire, group, version)
        assert (answer.error_code, answer.generation_id, answer.leader) == (0, 1, answer.member_id)
        assert [(one.member_id, one.metadata) for one in answer.members] == [(answer.member_id, b"m")]
        assert answer.protocol_name == "range"

    @versions(JoinGroupRequest)
    def test_join_refused(self, wire: Wire, group: str, version: int) -> None:
        answer = join(wire, group, version, session_timeout_ms=1)
        assert answer.error_code == ErrorCode.INVALID_SESSION_TIMEOUT
        assert join(wire, "", version).error_code == ErrorCode.INVALID_GROUP_ID

    @versions(SyncGroupRequest)
    def test_sync(self, wire: Wire, group: str, version: int) -> None:
        joined = join(wire, group)
        answer = sync(wire, group, joined, version)
        assert (answer.error_code, answer.assignment) == (0, b"yours")
        joined.generation_id = 7
        assert sync(wire, group, joined, version).error_code == ErrorCode.ILLEGAL_GENERATION

    @versions(HeartbeatRequest)
    def test_heartbeat(self, wire: Wire, group: str, version: int) -> None:
        joined = member(wire, group)
        alive = HeartbeatRequest(group_id=group, generation_id=1, member_id=joined.member_id)
        stranger = HeartbeatRequest(group_id=group, generation_id=1, member_id="stranger")
        assert wire.call(version, alive).error_code == 0
        assert wire.call(version, stranger).error_code == ErrorCode.UNKNOWN_MEMBER_ID

    @versions(LeaveGroupRequest)
    def test_leave(self, wire: Wire, group: str, version: int) -> None:
        member_id = member(wire, group).member_id
        for expected in (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID):
            if version < 3:
                answer = wire.call(version, LeaveGroupRequest(group_id=group, member_id=member_id))
                assert answer.error_code == expected
            else:
                members = [MemberIdentity(member_id=member_id)]
                answer = wire.call(version, LeaveGroupRequest(group_id=group, members=members))
                assert (answer.error_code, answer.members[0].error_code) == (0, expected)


@pytest.mark.parametrize("name", ["\0", "../..", "a\nb", "\U0001f600" * 50, "x" * 32_767])
def test_a_group_may_have_any_name(wire: Wire, name: str) -> None:
    assert member(wire, name).error_code == 0
    joined = join(wire, name + "!"[: 32_767 - len(name)], 9)
    assert joined.error_code == 0
    assert commit(wire, "c" + name[1:], 5) == 0


def test_a_client_with_an_absurd_name_disturbs_nobody(cluster: Cluster, group: str) -> None:
    with Wire(cluster.bootstrap, client_id="c" * 32_767) as wire:
        joined = member(wire, group)
        assert len(joined.member_id) < 300
        refused = join(wire, group, group_instance_id="i" * 32_767)
        assert refused.error_code == ErrorCode.INVALID_REQUEST


def test_a_subscription_that_is_too_large_to_be_stored_is_refused_at_the_sync(wire: Wire, group: str) -> None:
    joined = join(wire, group, protocols=[JoinGroupRequestProtocol(name="range", metadata=b"x" * 2_000_000)])
    assert joined.error_code == 0
    assert sync(wire, group, joined).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert join(wire, group + "-other").error_code == 0


class TestOffsets:
    @versions(OffsetCommitRequest)
    def test_commit(self, wire: Wire, group: str, version: int) -> None:
        assert commit(wire, group, 5, version) == 0
        assert self.fetched(wire, group, 8) == 5
        stale = commit(wire, group, 6, version, member_id="m", generation_id_or_member_epoch=3)
        assert stale == ErrorCode.UNKNOWN_MEMBER_ID
        assert self.fetched(wire, group, 8) == 5

    @versions(OffsetCommitRequest)
    def test_commit_to_what_does_not_exist(self, wire: Wire, group: str, version: int) -> None:
        assert commit(wire, group, 5, version, partition=2) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    @versions(OffsetFetchRequest)
    def test_fetch(self, wire: Wire, group: str, version: int) -> None:
        assert self.fetched(wire, group, version) == -1
        commit(wire, group, 5)
        assert self.fetched(wire, group, version) == 5

    def fetched(self, wire: Wire, group: str, version: int) -> int:
        if version < 8:
            wanted = [OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])]
            answer = wire.call(version, OffsetFetchRequest(group_id=group, topics=wanted))
        else:
            topic = OffsetFetchRequestTopics(partition_indexes=[0])
            if version >= 10:
                topic.topic_id = topic_id(wire)
            else:
                topic.name = TOPIC
            asked = OffsetFetchRequestGroup(group_id=group, topics=[topic])
            answer = wire.call(version, OffsetFetchRequest(groups=[asked])).groups[0]
        assert answer.error_code == 0
        (found,) = answer.topics[0].partitions
        assert (found.error_code, found.metadata) == (0, "")
        return int(found.committed_offset)

    @pytest.mark.parametrize("version", range(2, 11))
    def test_fetch_everything(self, wire: Wire, group: str, version: int) -> None:
        commit(wire, group, 5)
        commit(wire, group, 6, partition=1)
        if version < 8:
            answer = wire.call(version, OffsetFetchRequest(group_id=group, topics=None))
        else:
            asked = [OffsetFetchRequestGroup(group_id=one, topics=None) for one in (group, "nobody")]
            answer, nobody = wire.call(version, OffsetFetchRequest(groups=asked)).groups
            assert (nobody.group_id, nobody.error_code, nobody.topics) == ("nobody", 0, [])
        (topic,) = answer.topics
        assert {one.partition_index: one.committed_offset for one in topic.partitions} == {0: 5, 1: 6}

    def test_delete(self, wire: Wire, group: str) -> None:
        commit(wire, group, 5)
        partitions = [OffsetDeleteRequestPartition(partition_index=index) for index in (0, 9)]
        topics = [OffsetDeleteRequestTopic(name=TOPIC, partitions=partitions)]
        answer = wire.call(0, OffsetDeleteRequest(group_id=group, topics=topics))
        assert answer.error_code == 0
        codes = [one.error_code for one in answer.topics[0].partitions]
        assert codes == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert self.fetched(wire, group, 8) == -1
        again = wire.call(0, OffsetDeleteRequest(group_id=group, topics=topics))
        assert (again.error_code, again.topics) == (ErrorCode.GROUP_ID_NOT_FOUND, [])


class TestAdministrators:
    @versions(DescribeGroupsRequest)
    def test_describe(self, wire: Wire, group: str, version: int) -> None:
        joined = member(wire, group)
        request = DescribeGroupsRequest(groups=[group, "nobody"])
        if version >= 3:
            request.include_authorized_operations = True
        found, nobody = wire.call(version, request).groups
        assert (found.error_code, found.group_state, found.protocol_type, found.protocol_data) == (
            *(0, "Stable", "consumer", "range"),
        )
        (described,) = found.members
        assert (described.member_id, described.client_id) == (joined.member_id, "wire")
        assert described.client_host == "/127.0.0.1"
        assert (described.member_metadata, described.member_assignment) == (b"m", b"yours")
        assert nobody.group_state == "Dead"
        assert nobody.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else 0)
        assert (found.authorized_operations > 0) is (version >= 3)

    @versions(ListGroupsRequest)
    def test_list(self, wire: Wire, group: str, version: int) -> None:
        member(wire, group)
        listed = {one.group_id: one for one in wire.call(version, ListGroupsRequest()).groups}
        assert listed[group].protocol_type == "consumer"
        assert listed[group].group_state == ("Stable" if version >= 4 else "")
        assert listed[group].group_type == ("classic" if version >= 5 else "")
        if version >= 4:
            answer = wire.call(version, ListGroupsRequest(states_filter=["Empty"]))
            assert group not in {one.group_id for one in answer.groups}

    @versions(DeleteGroupsRequest)
    def test_delete(self, wire: Wire, group: str, version: int) -> None:
        member(wire, group + "-live")
        commit(wire, group, 5)
        names = [group, group + "-live", "nobody", group]
        results = wire.call(version, DeleteGroupsRequest(groups_names=names)).results
        assert [(one.group_id, one.error_code) for one in results] == [
            (group, 0),
            (group + "-live", ErrorCode.NON_EMPTY_GROUP),
            ("nobody", ErrorCode.GROUP_ID_NOT_FOUND),
        ]


class TestConsumerGroups:
    """KIP-848."""

    def heartbeat(self, wire: Wire, group: str, version: int, member_id: str, epoch: int, **fields: Any) -> Any:
        return wire.call(
            version,
            ConsumerGroupHeartbeatRequest(group_id=group, member_id=member_id, member_epoch=epoch, **fields),
        )

    @versions(ConsumerGroupHeartbeatRequest)
    def test_heartbeat_and_describe(self, wire: Wire, group: str, version: int) -> None:
        joining = {"rebalance_timeout_ms": 5_000, "subscribed_topic_names": [TOPIC], "topic_partitions": []}
        answer = self.heartbeat(wire, group, version, "m" if version else "", 0, **joining)
        assert (answer.error_code, answer.heartbeat_interval_ms) == (0, 5_000)
        (given,) = answer.assignment.topic_partitions
        assert (given.topic_id, given.partitions) == (topic_id(wire), [0, 1])
        described, nobody = wire.call(version, ConsumerGroupDescribeRequest(group_ids=[group, "nobody"])).groups
        assert (described.error_code, described.group_state, described.assignor_name) == (0, "Stable", "uniform")
        assert [one.member_id for one in described.members] == [answer.member_id]
        assert (nobody.group_id, nobody.error_code) == ("nobody", ErrorCode.GROUP_ID_NOT_FOUND)
        left = self.heartbeat(wire, group, version, answer.member_id, -1)
        assert (left.error_code, left.member_epoch) == (0, -1)
        gone = self.heartbeat(wire, group, version, answer.member_id, answer.member_epoch)
        assert gone.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert gone.error_message

    def test_it_can_be_switched_off(self, group: str) -> None:
        name = "group.coordinator.rebalance.protocols"
        with Cluster(**{name: "classic"}) as cluster, Wire(cluster.bootstrap) as wire:
            answer = self.heartbeat(wire, group, 1, "m", 1)
            assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION


def test_a_member_that_hangs_up_while_it_waits_holds_nobody_up_for_longer_than_its_session(
    cluster: Cluster, wire: Wire, group: str
) -> None:
    first = member(wire, group)
    with Wire(cluster.bootstrap) as gone:
        request = join_request(group, session_timeout_ms=1_000)
        gone.send(3, request)
        heartbeat = HeartbeatRequest(group_id=group, generation_id=1, member_id=first.member_id)
        eventually(lambda: wire.call(4, heartbeat).error_code == ErrorCode.REBALANCE_IN_PROGRESS)
    both = join(wire, group, member_id=first.member_id)
    assert (both.generation_id, len(both.members)) == (2, 2)
    assert sync(wire, group, both).error_code == 0
    heartbeat.generation_id = 2
    eventually(lambda: wire.call(4, heartbeat).error_code == ErrorCode.REBALANCE_IN_PROGRESS)
    alone = join(wire, group, member_id=first.member_id)
    assert (alone.generation_id, len(alone.members)) == (3, 1)
    node = cluster.node(0)
    assert isinstance(node, EmbeddedNode)
    assert node.metrics.unexpected_errors == 0
