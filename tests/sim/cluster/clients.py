"""How clients of a cluster find their way: any broker knows who leads what, and it is the leader that they talk to; or
they talk to anybody, who passes on what is not his.

A producer or consumer that is guided works on topics all of whose partitions have one leader: then it needs one
connection at a time, and whoever works against a lone node can work against a cluster.
"""

from __future__ import annotations

from collections.abc import Sequence

from bifrost.errors import ErrorCode
from bifrost.protocol.messages.cluster import MetadataRequest, MetadataRequestTopic, MetadataResponse
from bifrost.protocol.produce import PartitionProduceResult
from tests.sim.client import Address, Client, Topic, Wire
from tests.sim.producers import CLIENT_TIMEOUT_S, Batch, PlainProducer

PATIENCE_S = 5.0


class Guide:
    """Leads one client to whoever leads a topic, or one partition of it."""

    def __init__(self, client: Client, brokers: Sequence[Address], topic: str, partition: int | None = None) -> None:
        self._client = client
        self._brokers = brokers
        self._topic = topic
        self._partition = partition

    async def __call__(self) -> Address:
        answer = await metadata(self._client, self._client.rng.choice(self._brokers), [self._topic])
        addresses = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        leaders = {
            partition.leader_id
            for topic in answer.topics
            for partition in topic.partitions
            if self._partition in (None, partition.partition_index)
        }
        if len(leaders) != 1 or not leaders <= addresses.keys():
            raise ConnectionAbortedError(f"{self._topic} has no leader")
        return addresses[leaders.pop()]


class AnyBroker:
    """Leads one client to any broker, until the connection breaks; and then to any other."""

    def __init__(self, client: Client, brokers: Sequence[Address]) -> None:
        self._client = client
        self._brokers = brokers

    async def __call__(self) -> Address:
        return self._client.rng.choice(self._brokers)


class WanderingProducer(PlainProducer):
    """Sends one batch at a time, once, where leaders may change between two of them.

    Only acks=all is a promise that the next leader keeps, and only what was acknowledged has its place in a line.
    """

    async def work(self, wire: Wire) -> None:
        self._line += 1
        while not self.is_finished() and wire.is_open:
            if self.has_something():
                batch = self.make_batch(line=self._line, sequences={})
                request = self.request([batch], self._acks)
                if self._acks == 0:
                    wire.send_only(self.version, request)
                    self._line += 1
                else:
                    answer = wire.start_produce(self.version, request, CLIENT_TIMEOUT_S)
                    response = await wire.ended_produce(self.version, answer)
                    for _, result in self.results([batch], response):
                        self._settle(batch, result)
            await self.think()

    def _settle(self, batch: Batch, result: PartitionProduceResult) -> None:
        if self._acks == 1 or result.error_code != ErrorCode.NONE:
            self._line += 1
        if self._acks != 1 or result.error_code != ErrorCode.NONE:
            super()._settle(batch, result)


async def metadata(client: Client, broker: Address, topics: Sequence[str] | None) -> MetadataResponse:
    """What one broker knows of these topics, or of all."""
    wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
    wire = await client.connect_to(broker)
    try:
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        return await wire.call(request, MetadataResponse, client.rng.randint(10, 13), PATIENCE_S)
    finally:
        wire.close()


async def known_topic(client: Client, broker: Address, name: str) -> Topic | None:
    answer = await metadata(client, broker, [name])
    for topic in answer.topics:
        if topic.name == name and topic.partitions:
            return Topic(name, topic.topic_id.bytes, len(topic.partitions))
    return None
