"""A load of writers and readers on one topic, from start to verdict."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from types import TracebackType

from tests.faults import java_clients
from tests.faults.checkers import ReadToEnd, judge
from tests.faults.java_clients import JavaReader, JavaWriter
from tests.faults.journal import Journal, place_of
from tests.faults.readers import ConfluentReader, GroupReader, KafkaPythonReader, Reader
from tests.faults.realm import BROKERS, Realm
from tests.faults.writers import ConfluentWriter, KafkaPythonWriter, Writer
from tests.integration.wire import Wire
from tests.sim.history import Acknowledged, Complaint, Polled, ReadBack
from tests.sim.values import decode_value
from tests.waiting import eventually

WRITERS: dict[str, type[Writer]] = {"confluent": ConfluentWriter, "python": KafkaPythonWriter, "java": JavaWriter}
READERS: dict[str, type[Reader]] = {"confluent": ConfluentReader, "python": KafkaPythonReader, "java": JavaReader}
EVERYONE = ("confluent", "python", "java")
"""Every client that there is; without the Java client where there is no Java, and the report says so."""
_EVIDENCE_MAX = 8
_LINE_MAX = 400
_READERS_S = 45.0
"""That all readers have to come to the end, once all is quiet: sessions of dead members may have to end first."""


class Load:
    """Writers and readers that run for the length of a `with` block. `finish` waits for all of them and judges."""

    def __init__(
        self,
        realm: Realm,
        *,
        topic: str = "orders",
        partitions: int = 3,
        writers: Iterable[str] = ("confluent",),
        readers: Iterable[str] = ("confluent",),
        groups: Iterable[str] = ("classic", "consumer"),
        members: int = 2,
        **configs: str,
    ) -> None:
        self.realm = realm
        self.topic = topic
        self.partitions = partitions
        self.journal = Journal()
        realm.create(topic, partitions, **configs)
        common = (realm.bootstrap, topic, partitions, self.journal)
        self.writers = [WRITERS[name](f"{name}-writer", *common) for name in present(writers)]
        self.alone = [READERS[name](f"{name}-reader", *common) for name in present(readers)]
        self.groups = {
            protocol: [
                GroupReader(f"{protocol}-{number}", *common, group=f"{protocol}-group", protocol=protocol)
                for number in range(members)
            ]
            for protocol in groups
        }
        self._started = time.monotonic()

    @property
    def readers(self) -> list[Reader]:
        return [*self.alone, *(member for members in self.groups.values() for member in members)]

    @property
    def acknowledged(self) -> int:
        return sum(writer.acknowledged for writer in self.writers)

    def __enter__(self) -> Load:
        for client in (*self.readers, *self.writers):
            client.start()
        self.flows()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:  # whoever raised it is heard; clients that still wait are left to themselves
            for client in (*self.writers, *self.readers):
                client._stop.set()

    def flows(self, more: int = 100) -> None:
        """Wait until every writer has so many more acknowledgements than now: the cluster takes writes."""
        goals = [(writer, writer.acknowledged + more) for writer in self.writers]
        try:
            eventually(lambda: all(writer.acknowledged >= goal for writer, goal in goals))
        except AssertionError:
            lacking = {writer.name: goal - writer.acknowledged for writer, goal in goals}
            complaints = [str(one) for one in self.journal.history.of(Complaint)]
            raise AssertionError(f"too few of {more} acknowledged writes, lacking are {lacking} {complaints}") from None

    def flows_in(self, partitions: Iterable[int], more: int = 30) -> None:
        """Wait until every writer has so many acknowledgements in each of these partitions, of writes that it has asked
        for from now on, and all who read alone have read what there is by then; whatever other partitions do."""
        events, since = len(self.journal.history.events), self.journal.now()
        wanted = {f"{writer.name}-{partition}" for writer in self.writers for partition in partitions}
        ends = {}

        def look() -> bool:
            counts: Counter[str] = Counter()
            for event in self.journal.history.events[events:]:
                if isinstance(event, Acknowledged) and event.asked_at >= since:
                    counts[event.values[0].producer] += 1
                    ends[event.place.partition] = event.base_offset
            return all(counts[writer] >= more for writer in wanted)

        eventually(look, f"{more} more acknowledged writes of each of {sorted(wanted)}")
        eventually(
            lambda: all(reader.positions[one] > ends[one] for reader in self.alone for one in partitions),
            f"readers who are at {ends}",
        )

    def finish(self, expected: tuple[str, ...] = ()) -> str:
        """After the last fault: everything comes to rest, is read back from every replica, and is judged.

        `expected` are words of alarm that a node's log may have, because of what the test did to it.
        """
        for writer in self.writers:
            writer.stop()
        self.realm.settle(self.topic)
        self._read_back()
        self._wait_for_readers()
        for reader in self.readers:
            reader.stop()
        for node in self.realm.ended():
            self.journal.complain("dead node", f"{node} ended by itself")
        for alarm in self.realm.alarms(expected):
            self.journal.complain("alarm", alarm)
        anomalies = judge(self.journal.history)
        line = self._report()
        assert not anomalies, "\n".join(
            [f"{len(anomalies)} anomalies ({line}):", *(str(one)[:_LINE_MAX] for one in anomalies[:_EVIDENCE_MAX])]
        )
        return line

    def _report(self) -> str:
        reads = sum(len(event.records) for event in self.journal.history.of(Polled))
        seconds = time.monotonic() - self._started
        clients = "+".join(writer.name.removesuffix("-writer") for writer in self.writers)
        return f"{self.acknowledged} writes by {clients}, {reads} reads, {self.realm.faults} faults, {seconds:.0f} s"

    def _read_back(self) -> None:
        """From every broker, each of which has a replica: what one of them has, all have."""
        ends = {}
        for partition in range(self.partitions):
            with Wire(self.realm.node(self.realm.leader(self.topic, partition)).address) as wire:
                ends[partition] = wire.find(self.topic, -1, partition=partition).offset
        for broker in BROKERS:
            with Wire(self.realm.node(broker).address) as wire:
                for partition, end in ends.items():
                    eventually(
                        lambda wire=wire, partition=partition, end=end: (  # type: ignore[misc]
                            wire.fetch(self.topic, end, partition=partition).high_watermark == end
                        ),
                        f"broker {broker} knows {self.topic}-{partition} to {end}",
                    )
                    found = wire.read(self.topic, partition=partition)
                    records = tuple((one.offset, decode_value(one.value)) for one in found)
                    self.journal.add(ReadBack(self.journal.now(), place_of(self.topic, partition), end, records))

    def _wait_for_readers(self) -> None:
        """Until each has read to the end, alone or with its group."""
        ends = {event.place.partition: event.end_offset for event in self.journal.history.of(ReadBack)}
        parties = [(reader.name, [reader]) for reader in self.alone]
        parties += [(f"the {protocol} group", list(members)) for protocol, members in self.groups.items()]
        deadline = time.monotonic() + _READERS_S
        for name, members in parties:
            try:
                eventually(
                    lambda members=members: all(  # type: ignore[misc]
                        max(one.positions[partition] for one in members) >= end for partition, end in ends.items()
                    ),
                    f"{name} at the end",
                    max(1.0, deadline - time.monotonic()),
                )
            except AssertionError:
                positions = [one.positions for one in members]
                self.journal.complain("stuck reader", f"{name} is at {positions}, the end is {ends}")
            event = ReadToEnd(self.journal.now(), name, frozenset(one.name for one in members))
            self.journal.add(event)  # type: ignore[arg-type]


def present(names: Iterable[str]) -> list[str]:
    """Without those that this machine cannot run."""
    missing = java_clients.missing()
    if missing is not None and "java" in names:
        print(f"without the Java client: {missing}")
    return [name for name in names if name != "java" or missing is None]
