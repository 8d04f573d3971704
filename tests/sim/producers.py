"""Producers in the simulated world: one kind that repeats what was not acknowledged, one that never does."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from bifrost.errors import ErrorCode
from bifrost.protocol.compression import Codec
from bifrost.protocol.messages.producers import InitProducerIdRequest, InitProducerIdResponse
from bifrost.protocol.produce import (
    TOPIC_IDS_SINCE,
    PartitionProduceData,
    PartitionProduceResult,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from bifrost.protocol.records import encode_batch
from bifrost.protocol.wire import ZERO_UUID
from tests.sim.client import TROUBLE, Client, Topic, Wire
from tests.sim.history import Acknowledged, Forgotten, History, Place, ProducerIdGiven, Sent, Value
from tests.sim.loop import EPOCH_MS
from tests.sim.network import SimNetwork
from tests.sim.values import encode_value

SERVER_TIMEOUT_MS = 2_000
CLIENT_TIMEOUT_S = 5.0
IN_FLIGHT_MAX = 5  # so many batches of a producer does a broker remember


class Batch:
    """Records for one partition, and where they stand in their producer's sequence."""

    __slots__ = ("data", "place", "sent_at", "sequence", "topic", "values")

    def __init__(self, topic: Topic, partition: int, values: tuple[Value, ...], sequence: int, data: bytes) -> None:
        self.topic = topic
        self.place = topic.place(partition)
        self.values = values
        self.sequence = sequence
        self.data = data
        self.sent_at = 0.0


class Producer(Client):
    """What all producers share: making batches and requests out of thin air, at least as many as they are told."""

    sizes: tuple[int, ...] = (0, 20, 200, 1500)
    """Of values, about."""
    key_of: Callable[[Value], bytes | None] = staticmethod(lambda value: None)

    def __init__(
        self, name: str, network: SimNetwork, history: History, seed: str, topics: Sequence[Topic], batches: int
    ) -> None:
        super().__init__(name, network, history, seed)
        self.version = self.rng.randint(3, 13)
        self.batches_left = batches
        self.goes_on: Callable[[], bool] = lambda: False
        """Whether there is a reason to write more than that."""
        self._pause_s = self.rng.choice((0.02, 0.1, 0.1, 0.2, 0.2, 0.5, 0.5))
        self._ready_at = 0.0
        self._topics = topics
        self._number = 0

    async def run(self) -> None:
        """Until every batch was sent and settled."""
        while not self.is_finished():
            try:
                wire = await self.connect()
            except TROUBLE:
                await self.rest()
                continue
            try:
                await self.work(wire)
            except TROUBLE:
                pass
            finally:
                wire.close()
            await self.rest()

    def wants_more(self) -> bool:
        return self.batches_left > 0 or self.goes_on()

    def is_finished(self) -> bool:
        raise NotImplementedError

    async def work(self, wire: Wire) -> None:
        raise NotImplementedError

    def has_something(self) -> bool:
        """Whether it has thought of something new to write; the next will take its time."""
        if not self.wants_more() or self.loop.time() < self._ready_at:
            return False
        self._ready_at = self.loop.time() + self.rng.expovariate(1 / self._pause_s)
        return True

    async def think(self) -> None:
        await asyncio.sleep(max(self._ready_at - self.loop.time(), 0.001))

    def make_batch(self, *, line: int, producer_id: int = -1, epoch: int = -1, sequences: dict[Place, int]) -> Batch:
        rng = self.rng
        topic = rng.choice(self._topics)
        partition = rng.randrange(topic.partitions)
        count = rng.randint(1, 5)
        values = tuple(Value(self.name, line, self._number + n) for n in range(count))
        self._number += count
        sequence = sequences.get(topic.place(partition), 0)
        sequences[topic.place(partition)] = sequence + count
        now_ms = EPOCH_MS + int(self.loop.time() * 1000)
        data = encode_batch(
            [(now_ms, self.key_of(value), encode_value(value, rng.choice(self.sizes)), ()) for value in values],
            codec=rng.choice((Codec.NONE, Codec.NONE, Codec.NONE, Codec.LZ4)),
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence if producer_id >= 0 else -1,
        )
        self.batches_left -= 1
        return Batch(topic, partition, values, sequence, bytes(data))

    def request(self, batches: Sequence[Batch], acks: int) -> ProduceRequest:
        """All of them at once; they belong to different partitions."""
        by_topic: dict[Topic, list[Batch]] = {}
        for batch in batches:
            batch.sent_at = self.loop.time()
            self.history.add(Sent(batch.sent_at, batch.place, batch.values))
            by_topic.setdefault(batch.topic, []).append(batch)
        by_id = self.version >= TOPIC_IDS_SINCE
        topics = [
            TopicProduceData(
                "" if by_id else topic.name,
                topic.topic_id if by_id else ZERO_UUID,
                [PartitionProduceData(batch.place.partition, memoryview(batch.data)) for batch in group],
            )
            for topic, group in by_topic.items()
        ]
        return ProduceRequest(None, acks, SERVER_TIMEOUT_MS, topics)

    def results(
        self, batches: Sequence[Batch], response: ProduceResponse
    ) -> list[tuple[Batch, PartitionProduceResult]]:
        """The answer, batch by batch."""
        found = {
            (topic.topic_id if self.version >= TOPIC_IDS_SINCE else topic.name, result.index): result
            for topic in response.topics
            for result in topic.partitions
        }
        pairs = []
        for batch in batches:
            key = batch.topic.topic_id if self.version >= TOPIC_IDS_SINCE else batch.topic.name
            pairs.append((batch, found[key, batch.place.partition]))
        return pairs

    def acknowledge(self, batch: Batch, base_offset: int) -> None:
        self.history.add(Acknowledged(batch.sent_at, self.loop.time(), batch.place, base_offset, batch.values))


class IdempotentProducer(Producer):
    """Numbers its batches and repeats them until they are acknowledged, as KIP-98 has it.

    When the broker refuses the oldest batch that is under way as out of order, it has lost track of the producer: that
    is written down, what was under way is given up, and the producer goes on under a new id.
    """

    def __init__(
        self, name: str, network: SimNetwork, history: History, seed: str, topics: Sequence[Topic], batches: int
    ) -> None:
        super().__init__(name, network, history, seed, topics, batches)
        self._identity: tuple[int, int] | None = None
        self._sequences: dict[Place, int] = {}
        self._unsettled: list[Batch] = []  # in the order in which they were made
        self._depth = self.rng.randint(1, IN_FLIGHT_MAX)
        self._repeats = False
        self.repeats_first = False
        """Whether it writes nothing new before all that failed is settled, so that a broker remembers what it repeats:
        as Java's does (RecordAccumulator.shouldStopDrainBatchesForPartition)."""
        self.renewal_share = 0.0
        """How often it begins under another name when it has nothing to do: no leader knows that one yet."""

    def is_finished(self) -> bool:
        return not self.wants_more() and not self._unsettled

    async def work(self, wire: Wire) -> None:
        if self._identity is None:
            await self._identify(wire)
        waiting = list(self._unsettled)
        self._repeats = bool(waiting)
        flying: deque[tuple[list[Batch], asyncio.Future[memoryview]]] = deque()
        healthy = True
        while waiting or flying or not self.is_finished():
            while healthy and len(flying) < self._depth and (group := self._next_group(waiting)):
                request = self.request(group, acks=-1)
                flying.append((group, wire.start_produce(self.version, request, CLIENT_TIMEOUT_S)))
            if flying:
                group, answer = flying.popleft()
                response = await wire.ended_produce(self.version, answer)
                healthy &= self._settle(group, response)
                if self._identity is None:
                    return
            elif not healthy:  # everything that was under way is back: again, from the oldest on
                await self.rest()
                waiting, healthy = list(self._unsettled), True
                self._repeats = True
            else:
                await self.think()
                if self.renewal_share and not self._unsettled and self.rng.random() < self.renewal_share:
                    self._identity = None
                    self._sequences.clear()
                    await self._identify(wire)
            if not wire.is_open:
                return

    async def _identify(self, wire: Wire) -> None:
        answer = await wire.call(
            InitProducerIdRequest(transaction_timeout_ms=1000), InitProducerIdResponse, self.rng.randint(0, 5)
        )
        if answer.error_code == ErrorCode.NONE:
            self._identity = answer.producer_id, answer.producer_epoch
            self.history.add(ProducerIdGiven(self.loop.time(), self.name, *self._identity))
        elif not ErrorCode(answer.error_code).retriable:
            self.complain("unexpected answer", f"InitProducerId {ErrorCode(answer.error_code).name}")
        if self._identity is None:
            raise ConnectionAbortedError("no identity yet")

    def _next_group(self, waiting: list[Batch]) -> list[Batch]:
        """What goes into the next request: batches of different partitions, oldest first."""
        assert self._identity is not None
        self._repeats &= bool(self._unsettled)
        may_begin = not (self.repeats_first and self._repeats)
        if not waiting and may_begin and self.has_something():
            for _ in range(self.rng.choice((1, 1, 2, 6))):
                producer_id, epoch = self._identity
                batch = self.make_batch(line=0, producer_id=producer_id, epoch=epoch, sequences=self._sequences)
                waiting.append(batch)
                self._unsettled.append(batch)
        group: list[Batch] = []
        while waiting and waiting[0].place not in [batch.place for batch in group] and len(group) < 3:
            group.append(waiting.pop(0))
        return group

    def _settle(self, group: list[Batch], response: ProduceResponse) -> bool:
        """Take in an answer; False if something has to be sent again."""
        healthy = True
        for batch, result in self.results(group, response):
            code = ErrorCode(result.error_code)
            if code is ErrorCode.NONE:
                self.acknowledge(batch, result.base_offset)
                self._unsettled.remove(batch)
                continue
            if code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:  # it is there, and nobody knows where
                self._unsettled.remove(batch)
                continue
            healthy = False
            if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                if batch is next(each for each in self._unsettled if each.place == batch.place):
                    self._start_anew(batch)
                    return False
            elif not code.retriable or code is ErrorCode.CORRUPT_MESSAGE:
                self.complain("unexpected answer", f"Produce {code.name} for {batch.values[0]}")
        return healthy

    def _start_anew(self, batch: Batch) -> None:
        detail = f"sequence {batch.sequence} ({batch.values[0]}) refused"
        self.history.add(Forgotten(batch.sent_at, self.loop.time(), batch.place, self.name, detail))
        self._identity = None
        self._sequences.clear()
        self._unsettled.clear()


class PlainProducer(Producer):
    """Sends each batch once and never again; `acks` may be 0, and then nobody knows."""

    def __init__(
        self, name: str, network: SimNetwork, history: History, seed: str, topics: Sequence[Topic], batches: int
    ) -> None:
        super().__init__(name, network, history, seed, topics, batches)
        self._acks = self.rng.choice((-1, 0, 1))
        self._line = 0

    def is_finished(self) -> bool:
        return not self.wants_more()

    async def work(self, wire: Wire) -> None:
        self._line += 1  # what an old connection left under way may overtake the new one
        while not self.is_finished() and wire.is_open:
            flying = []
            for _ in range(self.rng.randint(1, 4) if self.has_something() else 0):
                batch = self.make_batch(line=self._line, sequences={})
                request = self.request([batch], self._acks)
                if self._acks == 0:
                    wire.send_only(self.version, request)
                else:
                    flying.append((batch, wire.start_produce(self.version, request, CLIENT_TIMEOUT_S)))
            for batch, answer in flying:
                response = await wire.ended_produce(self.version, answer)
                for _, result in self.results([batch], response):
                    self._settle(batch, result)
            await self.think()

    def _settle(self, batch: Batch, result: PartitionProduceResult) -> None:
        code = ErrorCode(result.error_code)
        if code is ErrorCode.NONE:
            self.acknowledge(batch, result.base_offset)
        elif not code.retriable or code is ErrorCode.CORRUPT_MESSAGE:
            self.complain("unexpected answer", f"Produce {code.name} for {batch.values[0]}")
