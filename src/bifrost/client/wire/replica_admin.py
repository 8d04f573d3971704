"""Where replicas are, and how to move them: questions of KIP-455 and its kin, which librdkafka cannot ask.

Any broker may be asked and passes on what only the controller decides; what is refused for a moment, as during an
election, is asked again until the time is over. To ask for the same move twice is the same as once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Final, TypeAlias, TypeVar

from bifrost.client.errors import BifrostError, InvalidRequestError
from bifrost.client.moves.layout import Layout, Place
from bifrost.client.wire.cluster import Cluster
from bifrost.client.wire.failures import TRANSPORT_FAILURES, TryAgain, from_code
from bifrost.client.wire.patience import Deadline
from bifrost.errors import ErrorCode
from bifrost.protocol.messages.brokers import UnregisterBrokerRequest, UnregisterBrokerResponse
from bifrost.protocol.messages.cluster import DescribeClusterRequest, DescribeClusterResponse
from bifrost.protocol.messages.configs import (
    AlterableConfig,
    AlterConfigsResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from bifrost.protocol.messages.log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from bifrost.protocol.messages.replicas import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
    TopicPartitions,
)
from bifrost.protocol.schema import Message
from bifrost.types import TopicPartition

Answer = TypeVar("Answer", bound=Message)


_TOPIC: Final = 2
_BROKER: Final = 4
_SET_FOR_A_TOPIC: Final = 1
_SET_FOR_A_BROKER: Final = 2


class Operation(IntEnum):
    """What is done to a config (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


ConfigChanges: TypeAlias = Mapping[str, tuple[Operation, str | None]]


class ReplicaAdmin:
    """Thread-safe, as the cluster is that it asks."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def layout(self) -> Layout:
        """Brokers, racks and partitions, as they are now."""
        deadline = self._cluster.call_deadline()
        brokers = self._ask(DescribeClusterRequest(include_fenced_brokers=True), DescribeClusterResponse, deadline)
        moves = self.moves()
        places = {}
        for topic in self._cluster.describe_topics(deadline):
            for part in topic.partitions if topic.name else ():
                tp = TopicPartition(topic.name or "", part.partition_index)
                replicas, adding, removing = moves.get(tp, (tuple(part.replica_nodes), (), ()))
                leader = None if part.leader_id < 0 else part.leader_id
                places[tp] = Place(leader, replicas, tuple(part.isr_nodes), adding, removing)
        return Layout(
            {broker.broker_id: broker.rack for broker in brokers.brokers},
            frozenset(broker.broker_id for broker in brokers.brokers if broker.is_fenced),
            dict(sorted(places.items())),
        )

    def moves(self) -> dict[TopicPartition, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]]:
        """The moves under way: all replicas of each partition, those that come, those that go."""
        deadline = self._cluster.call_deadline()
        answer = self._ask(ListPartitionReassignmentsRequest(topics=None), ListPartitionReassignmentsResponse, deadline)
        return {
            TopicPartition(topic.name, one.partition_index): (
                tuple(one.replicas),
                tuple(one.adding_replicas),
                tuple(one.removing_replicas),
            )
            for topic in answer.topics
            for one in topic.partitions
        }

    def move(self, wanted: Mapping[TopicPartition, Sequence[int]]) -> None:
        """Begin to move partitions to these brokers. What was refused is raised, after the others were asked for."""
        self._alter({tp: list(replicas) for tp, replicas in wanted.items()}, ErrorCode.NONE)

    def cancel(self, partitions: Iterable[TopicPartition]) -> None:
        """Give up the moves of these partitions; one that is over by now is fine."""
        self._alter(dict.fromkeys(partitions), ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)

    def elect_preferred(self, partitions: Collection[TopicPartition] | None) -> dict[TopicPartition, BifrostError]:
        """Let the first replica lead each of these partitions, or all; which of them could not, and why."""
        named = None
        if partitions is not None:
            named = [TopicPartitions(topic=name, partitions=found) for name, found in _by_topic(partitions).items()]
        request = ElectLeadersRequest(topic_partitions=named)
        answer = self._ask(request, ElectLeadersResponse, self._cluster.call_deadline())
        return {
            TopicPartition(topic.topic, one.partition_id): from_code(
                one.error_code, detail=one.error_message, topic=topic.topic, partition=one.partition_id
            )
            for topic in answer.replica_election_results
            for one in topic.partition_result
            if one.error_code not in (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED)
        }

    def unregister(self, broker: int) -> None:
        """Forget a broker that will not come back; one that is forgotten already is fine."""
        request = UnregisterBrokerRequest(broker_id=broker)
        self._ask(
            request, UnregisterBrokerResponse, self._cluster.call_deadline(), fine=ErrorCode.BROKER_ID_NOT_REGISTERED
        )

    def log_sizes(self, brokers: Iterable[int]) -> dict[int, dict[TopicPartition, int]]:
        """The bytes of each replica on each of these brokers; one that does not answer is left out."""
        deadline = self._cluster.call_deadline()
        found = {}
        for broker in brokers:
            try:
                answer = self._cluster.ask_node(
                    broker, DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse, deadline
                )
            except TRANSPORT_FAILURES:
                continue
            found[broker] = {
                TopicPartition(topic.name, one.partition_index): one.partition_size
                for directory in answer.results
                for topic in directory.topics
                for one in topic.partitions
                if not one.is_future_key
            }
        return found

    def topic_configs(self, topics: Iterable[str], names: Sequence[str]) -> dict[str, dict[str, str]]:
        """Of these configs, those that were set for each of these topics; one that was deleted is left out."""
        resources = [
            DescribeConfigsResource(resource_type=_TOPIC, resource_name=topic, configuration_keys=list(names))
            for topic in topics
        ]
        if not resources:
            return {}
        answer = self._ask(
            DescribeConfigsRequest(resources=resources), DescribeConfigsResponse, self._cluster.call_deadline()
        )
        return _configs_set(answer, _SET_FOR_A_TOPIC, fine=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def broker_configs(self, broker: int, names: Sequence[str]) -> dict[str, str] | None:
        """Of these configs, those that were set for this very broker while it ran; None if it does not answer."""
        resource = DescribeConfigsResource(
            resource_type=_BROKER, resource_name=str(broker), configuration_keys=list(names)
        )
        request = DescribeConfigsRequest(resources=[resource])
        try:
            answer = self._cluster.ask_node(broker, request, DescribeConfigsResponse, self._cluster.call_deadline())
        except TRANSPORT_FAILURES:
            return None
        return _configs_set(answer, _SET_FOR_A_BROKER, fine=ErrorCode.NONE)[str(broker)]

    def alter_topic_configs(self, topic: str, changes: ConfigChanges) -> None:
        """Change configs of a topic; one that was deleted is fine."""
        answer = self._ask(
            _config_request(_TOPIC, topic, changes), IncrementalAlterConfigsResponse, self._cluster.call_deadline()
        )
        _check_configs(answer, fine=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def alter_broker_configs(self, broker: int, changes: ConfigChanges) -> None:
        """Change configs of a broker. Kafka wants it to be asked itself; one that is away is fine, and told by others
        where they may."""
        request, deadline = _config_request(_BROKER, str(broker), changes), self._cluster.call_deadline()
        try:
            answer = self._cluster.ask_node(broker, request, IncrementalAlterConfigsResponse, deadline)
            _check_configs(answer, fine=ErrorCode.NONE)
        except TRANSPORT_FAILURES:
            answer = self._ask(request, IncrementalAlterConfigsResponse, deadline)
            _check_configs(answer, fine=ErrorCode.INVALID_REQUEST)

    def _alter(self, wanted: Mapping[TopicPartition, list[int] | None], fine: ErrorCode) -> None:
        topics: dict[str, ReassignableTopic] = {}
        for (name, index), replicas in wanted.items():
            topic = topics.setdefault(name, ReassignableTopic(name=name, partitions=[]))
            topic.partitions.append(ReassignablePartition(partition_index=index, replicas=replicas))
        answer = self._ask(
            AlterPartitionReassignmentsRequest(topics=[*topics.values()]),
            AlterPartitionReassignmentsResponse,
            self._cluster.call_deadline(),
        )
        for topic_answer in answer.responses:
            for one in topic_answer.partitions:
                if one.error_code not in (ErrorCode.NONE, fine):
                    raise _refusal(one.error_code, one.error_message, topic_answer.name, one.partition_index)

    def _ask(
        self, request: Message, kind: type[Answer], deadline: Deadline, *, fine: ErrorCode = ErrorCode.NONE
    ) -> Answer:
        """The answer, once it is none that passes; a refusal of the whole is raised."""

        def attempt() -> Answer:
            answer = self._cluster.ask_any(request, kind, deadline)
            code = getattr(answer, "error_code", 0)
            if code in (ErrorCode.NONE, fine):
                return answer
            failure = from_code(code, detail=getattr(answer, "error_message", None), bootstrap=str(self._cluster))
            raise TryAgain(failure) if ErrorCode(code).retriable else failure

        return self._cluster.persist(attempt, deadline)


def _config_request(kind: int, name: str, changes: ConfigChanges) -> IncrementalAlterConfigsRequest:
    configs = [
        AlterableConfig(name=config, config_operation=operation, value=value)
        for config, (operation, value) in changes.items()
    ]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)


def _configs_set(answer: DescribeConfigsResponse, source: int, *, fine: ErrorCode) -> dict[str, dict[str, str]]:
    found = {}
    for one in answer.results:
        if one.error_code == ErrorCode.NONE:
            found[one.resource_name] = {
                each.name: each.value or "" for each in one.configs if each.config_source == source
            }
        elif one.error_code != fine:
            raise from_code(one.error_code, detail=one.error_message)
    return found


def _check_configs(answer: IncrementalAlterConfigsResponse, *, fine: ErrorCode) -> None:
    for one in answer.responses:
        if one.error_code not in (ErrorCode.NONE, fine):
            raise from_code(one.error_code, detail=one.error_message)


def _refusal(code: int, detail: str | None, topic: str, partition: int) -> BifrostError:
    if code == ErrorCode.INVALID_REPLICA_ASSIGNMENT:
        return InvalidRequestError(
            f"{topic}-{partition}: {detail or 'these brokers cannot hold it'}",
            "See which brokers there are: `bifrost broker list`.",
            code=ErrorCode.INVALID_REPLICA_ASSIGNMENT.name,
        )
    return from_code(code, detail=detail, topic=topic, partition=partition)


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, index in partitions:
        found.setdefault(topic, []).append(index)
    return found
