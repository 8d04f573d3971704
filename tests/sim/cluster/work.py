"""What clients of a cluster do in a run: some change topics, others write to copies that must not part."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from tests.sim.admins import Observer
from tests.sim.client import Address, Client, Topic
from tests.sim.cluster.admins import ClusterAdmin
from tests.sim.cluster.clients import AnyBroker, Guide, WanderingProducer, known_topic
from tests.sim.cluster.movers import Mover
from tests.sim.cluster.watching_copies import stored_batches
from tests.sim.cluster.world import ClusterWorld
from tests.sim.consumers import Consumer, read_all
from tests.sim.history import Polled, ReadBack, Value
from tests.sim.producers import IdempotentProducer, PlainProducer, Producer

BATCHES = 5

Complaint = str
"""What is said if something does not come to an end in time."""


class Work:
    """What both kinds share: producers and consumers of topics, each with somebody who shows it the way."""

    name: str
    """Of all that is drawn for such runs."""

    def __init__(self, world: ClusterWorld) -> None:
        self._world = world
        self.rng = Random(f"{world.seed} scenario")
        self._addresses = [machine.seat.broker_address for machine in world.brokers]
        self._topics: list[Topic] = []
        self._writing: list[asyncio.Task[None]] = []
        self._reading: list[asyncio.Task[None]] = []

    async def prepare(self) -> None:
        """Make the topics."""
        raise NotImplementedError

    def begin(self, goes_on: Callable[[], bool]) -> None:
        """Set everybody to work, for as long as there is a reason to."""
        raise NotImplementedError

    def endings(self) -> Iterator[tuple[Complaint, asyncio.Future[Any]]]:
        """What must come to an end once nothing disturbs the cluster any more."""
        raise NotImplementedError

    async def look_back(self) -> None:
        """All machines were started once more: write down what is there."""
        raise NotImplementedError

    async def _known(self, admin: ClusterAdmin, broker: Address, name: str) -> Topic:
        while True:
            topic = await known_topic(admin, broker, name)
            if topic is not None:
                return topic
            await admin.rest()

    def _guide(self, client: Client, topic: Topic) -> None:
        client.find = Guide(client, self._addresses, topic.name)

    async def _stop_reading(self) -> None:
        for task in self._reading:
            task.cancel()
        await asyncio.gather(*self._reading, return_exceptions=True)

    async def _read_back(self) -> None:
        world = self._world
        for topic in self._topics:
            for partition in range(topic.partitions):
                place = topic.place(partition)
                observer = Observer(f"observer-{place}", *world.client_arguments())
                reader = Consumer(f"last-reader-{place}", *world.client_arguments(), [topic], calm=True)
                reader.positions = {place: 0}
                for client in (observer, reader):
                    client.find = Guide(client, self._addresses, topic.name, partition)
                ends: dict[object, int] = {}
                while place not in ends:  # a leader that has just begun does not know yet
                    ends = dict(await observer.ask([topic]))
                    await asyncio.sleep(0.1)
                await read_all(reader, {place: ends[place]})
                found: dict[int, Value] = {}
                for event in world.history.of(Polled):
                    if event.reader == reader.name and event.place == place:
                        found.update(event.records)
                world.history.add(ReadBack(world.loop.time(), place, ends[place], tuple(sorted(found.items()))))


class MetadataWork(Work):
    """Admins change topics through any broker; a topic on each broker shows who serves, and under which epoch."""

    name = "cluster"

    def __init__(self, world: ClusterWorld) -> None:
        super().__init__(world)
        self._admins = [
            ClusterAdmin(f"admin{n}", *world.client_arguments(), self._addresses) for n in range(self.rng.randint(1, 3))
        ]
        self._changing: list[asyncio.Task[None]] = []

    async def prepare(self) -> None:
        for machine in self._world.brokers:
            seat, admin = machine.seat, self._admins[0]
            name = f"of-{seat.host}"
            await admin.create_at(name, [[seat.node_id]] * self.rng.randint(1, 2))
            self._topics.append(await self._known(admin, seat.broker_address, name))

    def begin(self, goes_on: Callable[[], bool]) -> None:
        producers: list[Producer] = []
        consumers: list[Consumer] = []
        for topic in self._topics:
            args = (*self._world.client_arguments(), [topic])
            kind = self.rng.choice((IdempotentProducer, IdempotentProducer, PlainProducer))
            producers.append(kind(f"writer-{topic.name}", *args, BATCHES))
            consumers.append(Consumer(f"reader-{topic.name}", *args))
        for client, topic in (*zip(producers, self._topics), *zip(consumers, self._topics)):
            self._guide(client, topic)
        for producer in producers:
            producer.goes_on = goes_on
        self._writing = [asyncio.create_task(producer.run()) for producer in producers]
        self._reading = [asyncio.create_task(consumer.run()) for consumer in consumers]
        self._changing = [asyncio.create_task(admin.run(goes_on)) for admin in self._admins]

    def endings(self) -> Iterator[tuple[Complaint, asyncio.Future[Any]]]:
        yield "a producer does not finish", asyncio.gather(*self._writing)
        yield "an admin does not finish", asyncio.gather(*self._changing)
        yield "consumers do not stop", asyncio.ensure_future(self._stop_reading())
        yield "admins are not answered", asyncio.ensure_future(self._all_answered())

    async def _all_answered(self) -> None:
        """In a sound cluster changes are carried out, whoever asks whomever for them. A connection from before may
        still turn out to be dead: then who asked is told to ask again."""
        for admin in self._admins:
            for _ in range(3):
                while await admin.change_something() != "done":
                    await admin.rest()

    async def look_back(self) -> None:
        for address in self._addresses:
            await self._admins[0].look(address)
        await self._read_back()


class CopyWork(Work):
    """Topics with several copies, whose leaders and replicas move about; clients ask leaders, or anybody."""

    name = "copies"

    async def prepare(self) -> None:
        rng, world = self.rng, self._world
        self._admin = ClusterAdmin("admin", *world.client_arguments(), self._addresses)
        brokers = [machine.seat.node_id for machine in world.brokers]
        for number in range(rng.randint(1, 2)):
            name = f"shared{number}"
            copies = [rng.sample(brokers, len(brokers)) for _ in range(rng.randint(1, 2))]
            configs = {"min.insync.replicas": str(rng.randint(1, 2)), "segment.ms": rng.choice(("500", "604800000"))}
            await self._admin.create_at(name, copies, configs)
            self._topics.append(await self._known(self._admin, rng.choice(self._addresses), name))

    def begin(self, goes_on: Callable[[], bool]) -> None:
        rng, args = self.rng, self._world.client_arguments()
        producers: list[Producer] = []
        for number in range(rng.randint(2, 4)):
            topic = rng.choice(self._topics)
            kind = rng.choice((IdempotentProducer, IdempotentProducer, WanderingProducer))
            producers.append(kind(f"writer{number}", *args, [topic], BATCHES))
            if isinstance(producers[-1], IdempotentProducer):
                producers[-1].renewal_share = rng.choice((0.0, 0.5))
                producers[-1].repeats_first = True
            self._show_way(producers[-1], topic)
        for topic in self._topics:
            consumer = Consumer(f"reader-{topic.name}", *args, [topic])
            self._show_way(consumer, topic)
            self._reading.append(asyncio.create_task(consumer.run()))
            if topic.partitions == 1:
                observer = Observer(f"observer-{topic.name}", *args)
                self._guide(observer, topic)
                self._reading.append(asyncio.create_task(observer.run([topic])))
        for producer in producers:
            producer.goes_on = goes_on
        self._writing = [asyncio.create_task(producer.run()) for producer in producers]
        brokers = {machine.seat.node_id: machine.seat.broker_address for machine in self._world.brokers}
        mover = Mover("mover", *args, self._topics, brokers)
        self._moving = asyncio.create_task(mover.run(goes_on if rng.random() < 0.5 else lambda: False))

    def _show_way(self, client: Client, topic: Topic) -> None:
        """To the leader, if there is one for the whole topic; else, or at times, to anybody."""
        if topic.partitions > 1 or self.rng.random() < 0.5:
            client.find = AnyBroker(client, self._addresses)
        else:
            self._guide(client, topic)

    def endings(self) -> Iterator[tuple[Complaint, asyncio.Future[Any]]]:
        yield "a producer does not finish", asyncio.gather(*self._writing)
        yield "moves do not finish", asyncio.gather(self._moving)
        yield "consumers do not stop", asyncio.ensure_future(self._stop_reading())

    async def look_back(self) -> None:
        await self._read_back()
        world = self._world
        image = world.brokers[0].odin.replica.image  # type: ignore[union-attr]
        for topic in self._topics:
            for index, partition in enumerate(image.topics[topic.name].partitions):
                committed = list(world.copies.committed((topic.topic_id.hex(), index)))
                for machine in world.brokers:
                    if machine.seat.node_id in partition.replicas:
                        held = list(stored_batches(machine, f"{topic.name}-{index}"))
                        if held[: len(committed)] != committed:
                            world.complain("copies differ", f"in the end, {topic.name}-{index} on {machine.name}")


WORK: dict[str, type[Work]] = {"metadata": MetadataWork, "copies": CopyWork}
"""What a run is about."""
